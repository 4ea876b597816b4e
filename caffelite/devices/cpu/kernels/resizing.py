"""Interpolation and unpooling over planes (N·C, H, W)."""

from .parallel import loop


@loop("x.shape[0] * y.shape[1]")
def interpolate(first, last, x, low_rows, high_rows, row_shares, low_columns, high_columns, column_shares, y):
    """y (N·C, OH, OW): each number between two rows and two columns of x (N·C, H, W), in the given shares."""
    height, width = y.shape[1], y.shape[2]
    for i in range(first, last):
        plane, h = i // height, i % height
        above, below = x[plane, low_rows[h]], x[plane, high_rows[h]]
        down = row_shares[h]
        up = 1 - down
        for w in range(width):
            left, right, share = low_columns[w], high_columns[w], column_shares[w]
            top = (1 - share) * above[left] + share * above[right]
            y[plane, h, w] = up * top + down * ((1 - share) * below[left] + share * below[right])


@loop("dx.shape[0]")
def interpolate_backward(
    first, last, dy, low_rows, high_rows, row_shares, low_columns, high_columns, column_shares, dx
):
    """dx (N·C, H, W) from dy (N·C, OH, OW)."""
    for plane in range(first, last):
        dx[plane] = 0
        for h in range(dy.shape[1]):
            above, below = dx[plane, low_rows[h]], dx[plane, high_rows[h]]
            down = row_shares[h]
            for w in range(dy.shape[2]):
                left, right, share = low_columns[w], high_columns[w], column_shares[w]
                lower = down * dy[plane, h, w]
                upper = dy[plane, h, w] - lower
                above[left] += (1 - share) * upper
                above[right] += share * upper
                below[left] += (1 - share) * lower
                below[right] += share * lower


@loop("x.shape[0]")
def unpool(first, last, x, index, y, wrong):
    """y (N·C, Q) = 0, but for x (N·C, P) at its index (N·C, P), the last of equals; wrong (N·C): 1 + the index of the
    first place of a plane outside of 0 to Q - 1, or 0."""
    for plane in range(first, last):
        y[plane] = 0
        wrong[plane] = 0
        for i in range(x.shape[1]):
            target = index[plane, i]
            if 0 <= target < y.shape[1]:
                y[plane, int(target)] = x[plane, i]
            elif wrong[plane] == 0:
                wrong[plane] = 1 + i


@loop("dx.shape[0]", distinct=True)
def unpool_backward(first, last, dy, index, dx):
    """dx (N·C, P) = dy (N·C, Q) at the places, 0 where there is none."""
    for plane in range(first, last):
        for i in range(dx.shape[1]):
            source = index[plane, i]
            dx[plane, i] = dy[plane, int(source)] if 0 <= source < dy.shape[1] else 0
