"""The CPU's kernels: loops that NumPy cannot fuse, compiled by Numba. Arrays are C-contiguous; N, C, H, W and P (outputs) as usual."""

import numpy as np
from numba import njit, prange

from .blas import gemm

PARALLEL = dict(parallel=True, nogil=True, cache=True, error_model="numpy")
SERIAL = dict(nogil=True, cache=True, error_model="numpy")


@njit(**SERIAL)
def _shift(x, rows, first, kw, stride, pad, dilation):
    """x (C, H, W) → rows (C·kw, R, Q, OW): for each kernel column the image shifted by it, its input rows from ``first`` on dealt out
    to R = vertical stride piles of Q. What a kernel row sees of all windows then lies in one run of memory."""
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
                        for w in range(lo, hi):
                            run[w] = x[c, h, w + shift]
                        for w in range(max(lo, hi), out_w):
                            run[w] = 0
                    else:
                        for w in range(out_w):
                            at = w * stride[1] + shift
                            run[w] = x[c, h, at] if 0 <= at < width else 0


@njit(**SERIAL)
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
                        for w in range(max(0, -shift), min(out_w, width - shift)):
                            dx[c, h, w + shift] += run[w]
                    else:
                        for w in range(out_w):
                            at = w * stride[1] + shift
                            if 0 <= at < width:
                                dx[c, h, at] += run[w]


@njit(**SERIAL)
def _runs(rows, col, kernel, dilation, collect):
    """Between rows (C·kw, R, Q, OW) and columns (C·kh·kw, P): copies runs to columns where collect, else adds columns to runs."""
    piles, depth, out_w = rows.shape[1], rows.shape[2], rows.shape[3]
    p = col.shape[1]
    for k in range(col.shape[0]):
        j = k % kernel[1]
        local = (k // kernel[1]) % kernel[0] * dilation[0]
        flat = rows[k // (kernel[0] * kernel[1]) * kernel[1] + j].reshape(piles * depth * out_w)
        start = ((local % piles) * depth + local // piles) * out_w
        if collect:
            for i in range(p):
                col[k, i] = flat[start + i]
        else:
            for i in range(p):
                flat[start + i] += col[k, i]


@njit(**PARALLEL)
def convolution_forward(fn, x, w, bias, biased, slope, rectified, y, space, tile, depth, split, kernel, stride, pad, dilation, groups):
    """y (N, M, OH, OW) = w * x (N, C, H, W) + bias (M), then leaky ReLU where rectified; ``tile`` output rows at a time.

    w is (M, C/g, kh, kw), or where split (kh, M, C/g, kw): then each kernel row is a matrix product of its own on the shifted rows, which
    spares the copy to columns. depth: the Q of a tile's shifted rows. space: workspace, a row a thread.
    """
    n, channels = x.shape[0], x.shape[1]
    m, out_h, out_w = y.shape[1], y.shape[2], y.shape[3]
    cg, mg = channels // groups, m // groups
    k, kr = cg * kernel[0] * kernel[1], cg * kernel[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    threads = space.shape[0]
    size, real = out_h * out_w, x.itemsize
    held = stride[0] * depth * out_w
    for t in prange(threads):
        rows = space[t, : kr * held].reshape(kr, stride[0], depth, out_w)
        for image in range(t * n // threads, (t + 1) * n // threads):
            for g in range(groups):
                for row in range(0, out_h, tile):
                    p = (min(row + tile, out_h) - row) * out_w
                    _shift(x[image, g * cg : (g + 1) * cg], rows, row * stride[0] - pad[0], kernel[1], stride, pad, dilation)
                    out = y[image, g * mg :].ctypes.data + row * out_w * real
                    if split:
                        for i in range(kernel[0]):
                            local = i * dilation[0]
                            run = rows.ctypes.data + ((local % stride[0]) * depth + local // stride[0]) * out_w * real
                            weights = w.ctypes.data + (i * m + g * mg) * kr * real
                            gemm(fn, False, False, mg, p, kr, weights, kr, run, held, one if i else zero, out, size)
                    else:
                        col = space[t, kr * held : kr * held + k * p].reshape(k, p)
                        _runs(rows, col, kernel, dilation, True)
                        gemm(fn, False, False, mg, p, k, w.ctypes.data + g * mg * k * real, k, col.ctypes.data, p, zero, out, size)
            if biased or rectified:
                for c in range(m):
                    b = bias[c] if biased else zero
                    plane = y[image, c].reshape(size)
                    for i in range(size):
                        s = plane[i] + b
                        plane[i] = s if not rectified or s > 0 else slope * s


@njit(**PARALLEL)
def convolution_backward(fn, x, w, dy, dx, want_dx, dw, want_dw, space, tile, depth, split, kernel, stride, pad, dilation, groups):
    """dx (N, C, H, W) and, per thread, dw (T, ...) in the layout of w, which the caller adds up in order. The rest as in forward."""
    n, channels = x.shape[0], x.shape[1]
    m, out_h, out_w = dy.shape[1], dy.shape[2], dy.shape[3]
    cg, mg = channels // groups, m // groups
    k, kr = cg * kernel[0] * kernel[1], cg * kernel[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    threads = space.shape[0]
    size, real = out_h * out_w, x.itemsize
    held = stride[0] * depth * out_w
    for t in prange(threads):
        rows = space[t, : kr * held].reshape(kr, stride[0], depth, out_w)
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
                    col = space[t, kr * held : kr * held + (0 if split else k * p)].reshape(-1, p)
                    if want_dw:
                        _shift(x[image, g * cg : (g + 1) * cg], rows, first, kernel[1], stride, pad, dilation)
                        if split:
                            for i in range(kernel[0]):
                                local = i * dilation[0]
                                run = rows.ctypes.data + ((local % stride[0]) * depth + local // stride[0]) * out_w * real
                                part = dw[t].ctypes.data + (i * m + g * mg) * kr * real
                                gemm(fn, False, True, mg, kr, p, top, size, run, held, one, part, kr)
                        else:
                            _runs(rows, col, kernel, dilation, True)
                            gemm(fn, False, True, mg, k, p, top, size, col.ctypes.data, p, one, dw[t].ctypes.data + g * mg * k * real, k)
                    if want_dx:
                        rows[:] = 0
                        if split:
                            for i in range(kernel[0]):
                                local = i * dilation[0]
                                run = rows.ctypes.data + ((local % stride[0]) * depth + local // stride[0]) * out_w * real
                                weights = w.ctypes.data + (i * m + g * mg) * kr * real
                                gemm(fn, True, False, kr, p, mg, weights, kr, top, size, one, run, held)
                        else:
                            gemm(fn, True, False, k, p, mg, w.ctypes.data + g * mg * k * real, k, top, size, zero, col.ctypes.data, p)
                            _runs(rows, col, kernel, dilation, False)
                        _unshift(rows, dx[image, g * cg : (g + 1) * cg], first, kernel[1], stride, pad, dilation)


@njit(**PARALLEL)
def add_parts(parts, out, keep):
    """out (M, C/g, kh, kw) = [out +] the sum over parts (T, A, M, C/g, B, kw) in order; A·B = kh, one of them 1."""
    for m in prange(out.shape[0]):
        for c in range(out.shape[1]):
            for i in range(out.shape[2]):
                for j in range(out.shape[3]):
                    total = out[m, c, i, j] if keep else parts.dtype.type(0)
                    for t in range(parts.shape[0]):
                        total += parts[t, i, m, c, 0, j] if parts.shape[4] == 1 else parts[t, 0, m, c, i, j]
                    out[m, c, i, j] = total


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _total(run):
    """The sum of a run; letting the order be the compiler's makes it a vector loop, the same on every call."""
    total = run.dtype.type(0)
    for i in range(run.size):
        total += run[i]
    return total


@njit(**PARALLEL)
def channel_sums(dy, out, keep):
    """out (C) = [out +] the sum of dy (N, C, P) over N and P, runs in the array's type and their sum in float64."""
    for c in prange(dy.shape[1]):
        total = 0.0
        for n in range(dy.shape[0]):
            total += _total(dy[n, c])
        out[c] = total + (out[c] if keep else 0)


@njit(**PARALLEL)
def panel_gemm(fn, trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc, threads, by_rows, real):
    """C = op(A) op(B) + beta C, each thread a panel of rows or of columns of C."""
    for t in prange(threads):
        if by_rows:
            lo, hi = t * m // threads, (t + 1) * m // threads
            if hi > lo:
                gemm(fn, trans_a, trans_b, hi - lo, n, k, a + lo * (1 if trans_a else lda) * real, lda, b, ldb, beta, c + lo * ldc * real, ldc)
        else:
            lo, hi = t * n // threads, (t + 1) * n // threads
            if hi > lo:
                gemm(fn, trans_a, trans_b, m, hi - lo, k, a, lda, b + lo * (ldb if trans_b else 1) * real, ldb, beta, c + lo * real, ldc)


@njit(**PARALLEL)
def row_bias(y, bias, biased, slope, rectified):
    """y (M, N) += bias (N), then leaky ReLU where rectified."""
    for i in prange(y.shape[0]):
        for j in range(y.shape[1]):
            s = y[i, j] + (bias[j] if biased else y.dtype.type(0))
            y[i, j] = s if not rectified or s > 0 else slope * s


@njit(**SERIAL)
def _max_pair_row(x, plane, h0, y, index, oh):
    """One row of 2×2 windows at stride 2, the shape that compilers turn into vector instructions."""
    width = x.shape[2]
    above, below = x[plane, h0], x[plane, h0 + 1]
    start = h0 * width
    for ow in range(width // 2):
        best, where = above[2 * ow], start + 2 * ow
        v = above[2 * ow + 1]
        if v > best or v != v:
            best, where = v, start + 2 * ow + 1
        v = below[2 * ow]
        if v > best or v != v:
            best, where = v, start + width + 2 * ow
        v = below[2 * ow + 1]
        if v > best or v != v:
            best, where = v, start + width + 2 * ow + 1
        y[plane, oh, ow] = best
        index[plane, oh, ow] = where


@njit(**PARALLEL)
def max_pool_forward(x, y, index, kernel, stride, pad):
    """x (N·C, H, W) → y (N·C, OH, OW), index: the winner's place in its plane, the first of equals; NaN wins."""
    height, width = x.shape[1], x.shape[2]
    pairs = kernel == (2, 2) and stride == (2, 2) and pad == (0, 0) and width % 2 == 0
    for plane in prange(x.shape[0]):
        for oh in range(y.shape[1]):
            h0 = oh * stride[0] - pad[0]
            if pairs and h0 + 1 < height:
                _max_pair_row(x, plane, h0, y, index, oh)
                continue
            h1 = min(h0 + kernel[0], height)
            h0 = max(h0, 0)
            for ow in range(y.shape[2]):
                w0 = ow * stride[1] - pad[1]
                w1 = min(w0 + kernel[1], width)
                w0 = max(w0, 0)
                best, where = x[plane, h0, w0], h0 * width + w0
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        v = x[plane, h, w]
                        if v > best or v != v:
                            best, where = v, h * width + w
                y[plane, oh, ow] = best
                index[plane, oh, ow] = where


@njit(**PARALLEL)
def max_pool_backward(dy, index, dx):
    """dx (N·C, H, W) from dy and the winners' places (N·C, OH, OW)."""
    width = dx.shape[2]
    for plane in prange(dx.shape[0]):
        dx[plane] = 0
        for oh in range(dy.shape[1]):
            for ow in range(dy.shape[2]):
                at = index[plane, oh, ow]
                dx[plane, at // width, at % width] += dy[plane, oh, ow]


@njit(**SERIAL)
def _average_window(o, kernel, stride, pad, size):
    """First and last input index of a window, and its length clipped to the padded image: what AVE divides by."""
    lo = o * stride - pad
    hi = min(lo + kernel, size + pad)
    return max(lo, 0), min(hi, size), hi - lo


@njit(**PARALLEL)
def average_pool_forward(x, y, kernel, stride, pad):
    """x (N·C, H, W) → y (N·C, OH, OW): sums over the image, divided by the window clipped to the padded image."""
    for plane in prange(x.shape[0]):
        for oh in range(y.shape[1]):
            h0, h1, high = _average_window(oh, kernel[0], stride[0], pad[0], x.shape[1])
            for ow in range(y.shape[2]):
                w0, w1, wide = _average_window(ow, kernel[1], stride[1], pad[1], x.shape[2])
                total = x.dtype.type(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        total += x[plane, h, w]
                y[plane, oh, ow] = total / x.dtype.type(high * wide)


@njit(**PARALLEL)
def average_pool_backward(dy, dx, kernel, stride, pad):
    """dx (N·C, H, W): each dy (N·C, OH, OW) spread evenly over its window."""
    for plane in prange(dx.shape[0]):
        dx[plane] = 0
        for oh in range(dy.shape[1]):
            h0, h1, high = _average_window(oh, kernel[0], stride[0], pad[0], dx.shape[1])
            for ow in range(dy.shape[2]):
                w0, w1, wide = _average_window(ow, kernel[1], stride[1], pad[1], dx.shape[2])
                share = dy[plane, oh, ow] / dx.dtype.type(high * wide)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        dx[plane, h, w] += share


@njit(**PARALLEL)
def softmax_forward(x, y):
    """y = exp(x - max) / sum over axis 1 of (N, C, P)."""
    for n in prange(x.shape[0]):
        for p in range(x.shape[2]):
            top = x[n, 0, p]
            for c in range(1, x.shape[1]):
                top = max(top, x[n, c, p])
            total = x.dtype.type(0)
            for c in range(x.shape[1]):
                e = np.exp(x[n, c, p] - top)
                y[n, c, p] = e
                total += e
            for c in range(x.shape[1]):
                y[n, c, p] /= total


@njit(**PARALLEL)
def softmax_backward(y, dy, dx):
    """dx = (dy - Σ dy·y) y over axis 1 of (N, C, P)."""
    for n in prange(y.shape[0]):
        for p in range(y.shape[2]):
            dot = y.dtype.type(0)
            for c in range(y.shape[1]):
                dot += dy[n, c, p] * y[n, c, p]
            for c in range(y.shape[1]):
                dx[n, c, p] = (dy[n, c, p] - dot) * y[n, c, p]


@njit(**SERIAL)
def log_loss_forward(prob, label, ignore, ignoring, fixed, tiny, loss, divisor, bad):
    """loss[0] = -Σ log max(prob[label], tiny) / divisor[0]; divisor: ``fixed``, or the labels that count where it is negative.

    prob (N, C, P), label (N, P) as floats. bad[0] keeps 1 + the place of the first label that is no class.
    """
    total, counted = 0.0, 0
    for n in range(prob.shape[0]):
        for p in range(prob.shape[2]):
            given = label[n, p]
            if ignoring and given == ignore:
                continue
            if not (0 <= given < prob.shape[1]):
                if bad[0] == 0:
                    bad[0] = 1 + n * prob.shape[2] + p
                continue
            v = prob[n, int(given), p]
            total -= np.log(v if not v < tiny else tiny)
            counted += 1
    divisor[0] = max(1.0, counted if fixed < 0 else fixed)
    loss[0] = total / divisor[0]


@njit(**PARALLEL)
def softmax_loss_backward(prob, label, ignore, ignoring, dloss, divisor, dx):
    """dx = (prob - onehot(label)) · dloss / divisor; 0 where the label is ignored."""
    scale = dloss[0] / divisor[0]
    for n in prange(prob.shape[0]):
        for p in range(prob.shape[2]):
            given = label[n, p]
            if ignoring and given == ignore:
                for c in range(prob.shape[1]):
                    dx[n, c, p] = 0
                continue
            for c in range(prob.shape[1]):
                dx[n, c, p] = (prob[n, c, p] - (1 if c == given else 0)) * scale


@njit(**SERIAL)
def accuracy(x, label, top_k, ignore, ignoring, score, per_class, counts, bad):
    """score[0] = the share of labels among their top_k scores; a tie and a NaN count as wrong. x (N, C, P), label (N, P).

    counts (C) is workspace; per_class (C, or empty) the share for each class, 0 where it has no sample.
    """
    hits, counted = 0, 0
    counts[:] = 0
    per_class[:] = 0
    for n in range(x.shape[0]):
        for p in range(x.shape[2]):
            given = label[n, p]
            if ignoring and given == ignore:
                continue
            if not (0 <= given < x.shape[1]):
                if bad[0] == 0:
                    bad[0] = 1 + n * x.shape[2] + p
                continue
            which = int(given)
            mine = x[n, which, p]
            better = 0
            for c in range(x.shape[1]):
                if c != which and not x[n, c, p] < mine:
                    better += 1
            counted += 1
            counts[which] += 1
            if better < top_k and mine == mine:
                hits += 1
                if per_class.size:
                    per_class[which] += 1
    score[0] = hits / counted if counted else 0
    for c in range(per_class.size):
        per_class[c] = per_class[c] / counts[c] if counts[c] else 0


@njit(**SERIAL)
def _philox(c0, c1, c2, c3, k0, k1):
    """Philox 4×32, 10 rounds (Salmon et al. 2011): four random words from a counter and a key."""
    mask = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    k0, k1 = np.uint64(k0), np.uint64(k1)
    for _ in range(10):
        a = c0 * np.uint64(0xD2511F53)
        b = c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> np.uint64(32)) ^ c1 ^ k0, b & mask, (a >> np.uint64(32)) ^ c3 ^ k1, a & mask
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    return c0, c1, c2, c3


@njit(**PARALLEL)
def dropout_forward(x, mask, y, threshold, scale, key, stream, iteration, sample):
    """y = x · scale where a random 32-bit word is at least threshold, else 0. x (N, D); row n draws from sample + n."""
    zero = x.dtype.type(0)
    for n in prange(x.shape[0]):
        width = x.shape[1]
        for quad in range((width + 3) // 4):
            words = _philox(quad, sample + n, iteration, stream, key & 0xFFFFFFFF, key >> 32)
            for lane in range(min(4, width - 4 * quad)):
                i = 4 * quad + lane
                kept = words[lane] >= threshold
                mask[n, i] = kept
                y[n, i] = x[n, i] * scale if kept else zero


@njit(**PARALLEL)
def dropout_backward(mask, dy, dx, scale):
    """dx = dy · scale where mask, else 0 (flat)."""
    zero = dy.dtype.type(0)
    for i in prange(dx.size):
        dx[i] = dy[i] * scale if mask[i] else zero
