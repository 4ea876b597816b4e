"""The oracle: what the operations mean, in float64, by the plainest NumPy and Python. Slow, and easy to believe."""

import itertools
import math

import numpy as np


def _taps(padded, w, shape, window, groups):
    """For each group and position in the kernel: the index of its weights (M/g, C/g), its outputs, and the pixels
    (N, C/g, OH, OW) of ``padded`` that it reads."""
    (kh, kw), (sh, sw), _, (dh, dw) = window
    outputs, channels = w.shape[0] // groups, w.shape[1]
    for group, i, j in itertools.product(range(groups), range(kh), range(kw)):
        ours = slice(group * outputs, (group + 1) * outputs)
        theirs = slice(group * channels, (group + 1) * channels)
        rows, columns = (
            slice(at, at + stride * (size - 1) + 1, stride)
            for at, stride, size in ((i * dh, sh, shape[2]), (j * dw, sw, shape[3]))
        )
        yield (ours, slice(None), i, j), ours, padded[:, theirs, rows, columns]


def convolution(x, w, b, window, groups=1):
    """y (N, M, OH, OW) = w (M, C/g, kh, kw) * x (N, C, H, W) + b (M, or None)."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    height, width = padded.shape[2:]
    y = np.zeros((len(x), len(w), (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1))
    for index, outputs, pixels in _taps(padded, w, y.shape, window, groups):
        y[:, outputs] += np.moveaxis(np.tensordot(w[index], pixels, (1, 1)), 0, 1)
    return y if b is None else y + np.reshape(b, (-1, 1, 1))


def convolution_backward(x, w, dy, window, groups=1):
    """dx, dw, db of convolution."""
    x, w, dy = (np.asarray(a, np.float64) for a in (x, w, dy))
    ph, pw = window[2]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    dpadded, dweights = np.zeros_like(padded), np.zeros_like(w)
    for index, outputs, pixels in _taps(padded, w, dy.shape, window, groups):
        dweights[index] = np.tensordot(dy[:, outputs], pixels, ((0, 2, 3), (0, 2, 3)))
    for index, outputs, pixels in _taps(dpadded, w, dy.shape, window, groups):
        pixels += np.moveaxis(np.tensordot(w[index], dy[:, outputs], (0, 1)), 0, 1)
    return dpadded[:, :, ph : ph + x.shape[2], pw : pw + x.shape[3]], dweights, dy.sum((0, 2, 3))


def pooled_size(size: int, kernel: int, stride: int, pad: int) -> int:
    """The ceiling; where it pads, without a last window that starts outside the image plus its left pad."""
    out = math.ceil((size + 2 * pad - kernel) / stride) + 1
    return out - 1 if pad and (out - 1) * stride >= size + pad else out


def _pool_windows(shape, window):
    """For every output place the rows and columns inside the image, and the size of the window clipped to the padded
    image."""
    (kh, kw), (sh, sw), (ph, pw) = window[:3]
    height, width = shape[2:]
    for u, v in itertools.product(range(pooled_size(height, kh, sh, ph)), range(pooled_size(width, kw, sw, pw))):
        top, left = u * sh - ph, v * sw - pw
        size = (min(top + kh, height + ph) - top) * (min(left + kw, width + pw) - left)
        yield u, v, range(max(top, 0), min(top + kh, height)), range(max(left, 0), min(left + kw, width)), size


def pooling(method, x, window):
    """y, and for MAX the place of each winner (first of equals) in its plane."""
    x = np.asarray(x, np.float64)
    size = [pooled_size(x.shape[2 + i], window.kernel[i], window.stride[i], window.pad[i]) for i in (0, 1)]
    y, index = np.zeros((*x.shape[:2], *size)), np.zeros((*x.shape[:2], *size), int)
    for n, c in np.ndindex(*x.shape[:2]):
        for u, v, rows, columns, count in _pool_windows(x.shape, window):
            values = {r * x.shape[3] + s: x[n, c, r, s] for r in rows for s in columns}
            if method == "AVE":
                y[n, c, u, v] = sum(values.values()) / count
            else:
                index[n, c, u, v] = max(values, key=values.get)
                y[n, c, u, v] = values[index[n, c, u, v]]
    return y, index


def pooling_backward(method, x, dy, window):
    _, index = pooling(method, x, window)
    dx = np.zeros(np.shape(x))
    for n, c in np.ndindex(*dx.shape[:2]):
        for u, v, rows, columns, count in _pool_windows(dx.shape, window):
            if method == "AVE":
                for r, s in itertools.product(rows, columns):
                    dx[n, c, r, s] += dy[n, c, u, v] / count
            else:
                dx[n, c].reshape(-1)[index[n, c, u, v]] += dy[n, c, u, v]
    return dx


def leaky(y, slope):
    with np.errstate(invalid="ignore"):  # 0 · ∞ is not taken
        return y if slope is None else np.where(y > 0, y, slope * y)


def softmax(x):
    """Over axis 1 of (N, C, P)."""
    e = np.exp(x - np.max(x, 1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def softmax_backward(y, dy):
    return (dy - (dy * y).sum(1, keepdims=True)) * y


def log_loss(prob, label, ignore=None, divisor=None, weights=None):
    """loss, the divisor, and 1 + the place of the first label that is no class. weights: factors of the losses by
    label, of which the divisor is the sum then."""
    total, counted, bad = 0.0, 0, 0
    for place, given in enumerate(np.ravel(label)):
        n, p = divmod(place, prob.shape[2])
        if ignore is not None and given == ignore:
            continue
        if not 0 <= given < prob.shape[1]:
            bad = bad or place + 1
            continue
        factor = 1 if weights is None else weights[int(given)]
        total -= factor * math.log(max(prob[n, int(given), p], np.finfo(np.float32).tiny))
        counted += factor
    if weights is not None and divisor is None:
        return total / (counted or 1.0), counted or 1.0, bad
    divisor = max(1.0, counted if divisor is None else divisor)
    return total / divisor, divisor, bad


def log_loss_backward(prob, label, dloss, divisor, ignore=None, weights=None):
    dx = np.array(prob, np.float64)
    for n, p in np.ndindex(prob.shape[0], prob.shape[2]):
        given = label[n, p]
        if ignore is not None and given == ignore:
            dx[n, :, p] = 0
        elif 0 <= given < prob.shape[1]:
            dx[n, int(given), p] -= 1
            dx[n, :, p] *= 1 if weights is None else weights[int(given)]
    return dx * dloss / divisor


def accuracy(x, label, top_k=1, ignore=None):
    """The share of labels among the top_k scores, that of each class, and 1 + the place of the first label that is no
    class."""
    hits, counts, bad = np.zeros(x.shape[1]), np.zeros(x.shape[1]), 0
    for place, given in enumerate(np.ravel(label)):
        n, p = divmod(place, x.shape[2])
        if ignore is not None and given == ignore:
            continue
        if not 0 <= given < x.shape[1]:
            bad = bad or place + 1
            continue
        scores = x[n, :, p]
        mine = scores[int(given)]
        rivals = sum(1 for k, s in enumerate(scores) if k != given and not s < mine)  # a tie and a NaN count as wrong
        counts[int(given)] += 1
        hits[int(given)] += rivals < top_k and mine == mine
    return hits.sum() / max(1, counts.sum()), hits / np.maximum(1, counts), bad


def philox(counter, key):
    """Philox 4×32 with 10 rounds, as published: four 32-bit words."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b % 2**32, (a >> 32) ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def dropout_mask(n, d, ratio, seed, stream, iteration, sample):
    """1 where an element of (N, D) is kept."""
    mask = np.zeros((n, d), np.uint8)
    for row, i in np.ndindex(n, d):
        words = philox((i // 4, sample + row, iteration, stream), (seed % 2**32, seed >> 32))
        mask[row, i] = words[i % 4] >= int(ratio * 2**32)
    return mask


def stochastic_pooling(x, window, seed, stream, iteration, sample):
    """y and the winners' places: in each window the first whose running sum reaches u·Σx, u from the first word of the
    output's place."""
    x = np.asarray(x, np.float64)
    y, index = pooling("MAX", x, window)
    for n, c in np.ndindex(*x.shape[:2]):
        for u, v, rows, columns, _ in _pool_windows(x.shape, window):
            place = (c * y.shape[2] + u) * y.shape[3] + v
            word = philox((place, sample + n, iteration, stream), (seed % 2**32, seed >> 32))[0]
            patch = x[n, c, rows.start : rows.stop, columns.start : columns.stop]
            winner = int(np.argmax(np.cumsum(patch) >= (word + 1) / 2**32 * patch.sum()))
            index[n, c, u, v] = (
                (rows.start + winner // len(columns)) * x.shape[3] + columns.start + winner % len(columns)
            )
            y[n, c, u, v] = x[n, c].reshape(-1)[index[n, c, u, v]]
    return y, index


def expected_pooling(x, window):
    """Σx² / Σx over each window, 0 where it is all 0."""
    x = np.asarray(x, np.float64)
    y = pooling("MAX", x, window)[0]
    for n, c in np.ndindex(*x.shape[:2]):
        for u, v, rows, columns, _ in _pool_windows(x.shape, window):
            patch = x[n, c, rows.start : rows.stop, columns.start : columns.stop]
            y[n, c, u, v] = (patch**2).sum() / max(patch.sum(), np.finfo(np.float32).tiny)
    return y


def lrn(x, size, alpha, beta, k):
    """y, and what was raised to -beta."""
    scale = np.full(np.shape(x), float(k))
    for c in range(x.shape[1]):
        first = c - (size - 1) // 2
        scale[:, c] += alpha / size * (x[:, max(0, first) : first + size] ** 2).sum(1)
    return x * scale**-beta, scale


def lrn_backward(x, dy, size, alpha, beta, k):
    scale = lrn(x, size, alpha, beta, k)[1]
    dx = dy * scale**-beta
    for c in range(x.shape[1]):
        first = c - (size - 1) // 2
        seen = slice(max(0, first), first + size)
        dx[:, seen] -= 2 * alpha * beta / size * x[:, seen] * (dy * x * scale ** (-beta - 1))[:, c : c + 1]
    return dx


def im2col(x, window):
    """Columns (N, C·kh·kw, OH, OW): every column the dot products of its window with the identity."""
    c, (kh, kw) = x.shape[1], window.kernel
    identity = np.eye(c * kh * kw).reshape(-1, c, kh, kw)
    return convolution(x, identity, None, window)


def im2col_backward(x, dcolumns, window):
    c, (kh, kw) = x.shape[1], window.kernel
    return convolution_backward(x, np.eye(c * kh * kw).reshape(-1, c, kh, kw), dcolumns, window)[0]


def top_k(x, k):
    """Values and places of the k largest over axis 1 of (N, C, P), the first of equals, NaN last."""
    order = np.argsort(-np.asarray(x, np.float64), axis=1, kind="stable")[:, :k]  # NumPy sorts NaN last
    return np.take_along_axis(x, order, 1), order


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn(x, cont, static, states, params):
    """y (T, N, D) and the last h, step by step: x (T, N, ...), cont (T, N), static (N, S) or None, states [h], params
    as in Caffe."""
    w_x, b, *w_s, w_h, w_o, b_o = params
    h, out = states[0], []
    for step, k in zip(x, cont, strict=True):
        h = np.tanh(step.reshape(len(h), -1) @ w_x.T + b + (static @ w_s[0].T if w_s else 0) + (k[:, None] * h) @ w_h.T)
        out.append(np.tanh(h @ w_o.T + b_o))
    return [np.stack(out), h]


def lstm_unit(c, gates, k):
    """c and h of one step, cont k (..., 1)."""
    i, f, o, g = np.split(gates, 4, -1)
    c = sigmoid(f) * k * c + sigmoid(i) * np.tanh(g)
    return [c, sigmoid(o) * np.tanh(c)]


def lstm(x, cont, static, states, params):
    """h (T, N, D), the last h and c; states [h, c], the rest as in rnn."""
    w_x, b, *w_s, w_h = params
    (h, c), out = states, []
    for step, k in zip(x, cont[..., None], strict=True):
        gates = step.reshape(len(h), -1) @ w_x.T + b + (static @ w_s[0].T if w_s else 0) + (k * h) @ w_h.T
        c, h = lstm_unit(c, gates, k)
        out.append(h)
    return [np.stack(out), h, c]
