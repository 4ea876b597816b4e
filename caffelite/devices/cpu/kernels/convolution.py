"""Convolution by matrix products on columns, which are filled in two steps that each copy runs of memory (see
_shift)."""

from ..blas import gemm
from .parallel import body, launch
from .settings import kernel


@kernel
def _copy(source, target):
    """Separate slices, because an index that might be negative prevents vectorization of a loop."""
    for i in range(target.size):
        target[i] = source[i]


@kernel
def _add(source, target):
    for i in range(target.size):
        target[i] += source[i]


@kernel
def _shift(x, rows, first, kw, stride, pad, dilation):
    """x (C, H, W) → rows (C·kw, R, Q, OW): for each kernel column the image shifted by it, its input rows from
    ``first`` on distributed over R = vertical stride groups of Q. The values that a kernel row reads of all windows are
    then contiguous."""
    channels, height, width = x.shape
    piles, depth, out_w = rows.shape[1], rows.shape[2], rows.shape[3]
    for c in range(channels):
        for j in range(kw):
            shift = j * dilation[1] - pad[1]
            for q in range(depth):
                for r in range(piles):
                    h = first + q * piles + r
                    run = rows[c * kw + j, r, q]
                    if h < 0 or h >= height:
                        run[:] = 0
                    elif stride[1] == 1:
                        lo, hi = min(max(0, -shift), out_w), max(0, min(out_w, width - shift))
                        for w in range(lo):
                            run[w] = 0
                        _copy(x[c, h, lo + shift : hi + shift], run[lo:hi])
                        for w in range(max(lo, hi), out_w):
                            run[w] = 0
                    else:
                        for w in range(out_w):
                            at = w * stride[1] + shift
                            run[w] = x[c, h, at] if 0 <= at < width else 0


@kernel
def _unshift(rows, dx, first, kw, stride, pad, dilation):
    """The transpose of _shift: adds every shifted image back to dx (C, H, W)."""
    channels, height, width = dx.shape
    piles, depth, out_w = rows.shape[1], rows.shape[2], rows.shape[3]
    for c in range(channels):
        for j in range(kw):
            shift = j * dilation[1] - pad[1]
            for q in range(depth):
                for r in range(piles):
                    h = first + q * piles + r
                    if h < 0 or h >= height:
                        continue
                    run = rows[c * kw + j, r, q]
                    if stride[1] == 1:
                        lo, hi = min(max(0, -shift), out_w), max(0, min(out_w, width - shift))
                        _add(run[lo:hi], dx[c, h, lo + shift : hi + shift])
                    else:
                        for w in range(out_w):
                            at = w * stride[1] + shift
                            if 0 <= at < width:
                                dx[c, h, at] += run[w]


@kernel
def _runs(rows, col, kernel, dilation, collect):
    """Between rows (C·kw, R, Q, OW) and columns (C·kh·kw, P): copies runs to columns where collect, else adds columns
    to runs."""
    piles, depth, out_w = rows.shape[1], rows.shape[2], rows.shape[3]
    flat, held = rows.reshape(rows.size), piles * depth * out_w
    p, k = col.shape[1], 0
    for c in range(rows.shape[0] // kernel[1]):
        for i in range(kernel[0]):
            local = i * dilation[0]
            start = ((local % piles) * depth + local // piles) * out_w
            for j in range(kernel[1]):
                at = (c * kernel[1] + j) * held + start
                if collect:
                    _copy(flat[at : at + p], col[k])
                else:
                    _add(col[k], flat[at : at + p])
                k += 1


@body
def _convolution_forward(
    first, last, fn, x, w, bias, biased, slope, rectified, y, space, tile, depth, kernel, stride, pad, dilation, groups
):
    n, channels = x.shape[0], x.shape[1]
    m, out_h, out_w = y.shape[1], y.shape[2], y.shape[3]
    cg, mg = channels // groups, m // groups
    k, kr = cg * kernel[0] * kernel[1], cg * kernel[1]
    zero = x.dtype.type(0)
    threads = space.shape[0]
    size, real = out_h * out_w, x.itemsize
    held = kr * stride[0] * depth * out_w
    for t in range(first, last):
        rows = space[t, :held].reshape(kr, stride[0], depth, out_w)
        for image in range(t * n // threads, (t + 1) * n // threads):
            for g in range(groups):
                for row in range(0, out_h, tile):
                    p = (min(row + tile, out_h) - row) * out_w
                    col = space[t, held : held + k * p].reshape(k, p)
                    _shift(
                        x[image, g * cg : (g + 1) * cg],
                        rows,
                        row * stride[0] - pad[0],
                        kernel[1],
                        stride,
                        pad,
                        dilation,
                    )
                    _runs(rows, col, kernel, dilation, True)
                    out = y[image, g * mg :].ctypes.data + row * out_w * real
                    gemm(
                        fn,
                        False,
                        False,
                        mg,
                        p,
                        k,
                        w.ctypes.data + g * mg * k * real,
                        k,
                        col.ctypes.data,
                        p,
                        zero,
                        out,
                        size,
                    )
            if biased or rectified:
                for c in range(m):
                    b = bias[c] if biased else zero
                    plane = y[image, c].reshape(size)
                    for i in range(size):
                        s = plane[i] + b
                        plane[i] = s if not rectified or s > 0 else slope * s


@kernel
def convolution_forward(
    fn, x, w, bias, biased, slope, rectified, y, space, tile, depth, kernel, stride, pad, dilation, groups
):
    """y (N, M, OH, OW) = w (M, C/g, kh, kw) * x (N, C, H, W) + bias (M), then leaky ReLU where rectified; ``tile``
    output rows at a time.

    depth: the Q of a tile's shifted rows. space: workspace, a row a thread. The sum over C/g, kh and kw is one matrix
    product, in that order, as in Caffe: another order rounds otherwise, and training magnifies it.
    """
    launch(
        _convolution_forward,
        space.shape[0],
        (fn, x, w, bias, biased, slope, rectified, y, space, tile, depth, kernel, stride, pad, dilation, groups),
    )


@body
def _convolution_backward(
    begin, end, fn, x, w, dy, dx, want_dx, dw, want_dw, space, tile, depth, kernel, stride, pad, dilation, groups
):
    n, channels = x.shape[0], x.shape[1]
    m, out_h, out_w = dy.shape[1], dy.shape[2], dy.shape[3]
    cg, mg = channels // groups, m // groups
    k, kr = cg * kernel[0] * kernel[1], cg * kernel[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    threads = space.shape[0]
    size, real = out_h * out_w, x.itemsize
    held = kr * stride[0] * depth * out_w
    for t in range(begin, end):
        rows = space[t, :held].reshape(kr, stride[0], depth, out_w)
        if want_dw:
            dw[t] = 0
        for image in range(t * n // threads, (t + 1) * n // threads):
            if want_dx:
                dx[image] = 0
            for g in range(groups):
                for row in range(0, out_h, tile):
                    p = (min(row + tile, out_h) - row) * out_w
                    first = row * stride[0] - pad[0]
                    top = dy[image, g * mg :].ctypes.data + row * out_w * real
                    col = space[t, held : held + k * p].reshape(k, p)
                    if want_dw:
                        _shift(x[image, g * cg : (g + 1) * cg], rows, first, kernel[1], stride, pad, dilation)
                        _runs(rows, col, kernel, dilation, True)
                        gemm(
                            fn,
                            False,
                            True,
                            mg,
                            k,
                            p,
                            top,
                            size,
                            col.ctypes.data,
                            p,
                            one,
                            dw[t].ctypes.data + g * mg * k * real,
                            k,
                        )
                    if want_dx:
                        gemm(
                            fn,
                            True,
                            False,
                            k,
                            p,
                            mg,
                            w.ctypes.data + g * mg * k * real,
                            k,
                            top,
                            size,
                            zero,
                            col.ctypes.data,
                            p,
                        )
                        rows[:] = 0
                        _runs(rows, col, kernel, dilation, False)
                        _unshift(rows, dx[image, g * cg : (g + 1) * cg], first, kernel[1], stride, pad, dilation)


@kernel
def convolution_backward(
    fn, x, w, dy, dx, want_dx, dw, want_dw, space, tile, depth, kernel, stride, pad, dilation, groups
):
    """dx (N, C, H, W) and, per thread, dw (T, M·C/g·kh·kw), which the caller adds up in order. The rest as in
    forward."""
    launch(
        _convolution_backward,
        space.shape[0],
        (fn, x, w, dy, dx, want_dx, dw, want_dw, space, tile, depth, kernel, stride, pad, dilation, groups),
    )


@body
def _add_chunks(first, last, chunks, out, keep):
    for i in range(first, last):
        total = out[i] if keep else chunks.dtype.type(0)
        for t in range(chunks.shape[0]):
            total += chunks[t, i]
        out[i] = total


@kernel
def add_chunks(chunks, out, keep):
    """out (flat) = [out +] the sum over chunks (T, ...) in order."""
    launch(_add_chunks, out.size, (chunks, out, keep))
