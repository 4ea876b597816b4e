"""im2col and col2im: converts images to columns, one per window, and columns to images."""

from .parallel import loop


@loop("x.shape[0]")
def im2col(first, last, x, columns, kernel, stride, pad, dilation):
    """x (N·C, H, W) → columns (N·C, kh, kw, OH, OW), 0 outside the image."""
    for plane in range(first, last):
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                for u in range(columns.shape[3]):
                    h, run = u * stride[0] - pad[0] + i * dilation[0], columns[plane, i, j, u]
                    for v in range(run.size):
                        w = v * stride[1] - pad[1] + j * dilation[1]
                        run[v] = x[plane, h, w] if 0 <= h < x.shape[1] and 0 <= w < x.shape[2] else 0


@loop("dx.shape[0]")
def col2im(first, last, columns, dx, kernel, stride, pad, dilation):
    """The transpose: dx (N·C, H, W) sums the places of columns (N·C, kh, kw, OH, OW) that came from each pixel."""
    for plane in range(first, last):
        dx[plane] = 0
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                for u in range(columns.shape[3]):
                    h = u * stride[0] - pad[0] + i * dilation[0]
                    if 0 <= h < dx.shape[1]:
                        for v in range(columns.shape[4]):
                            w = v * stride[1] - pad[1] + j * dilation[1]
                            if 0 <= w < dx.shape[2]:
                                dx[plane, h, w] += columns[plane, i, j, u, v]
