"""Pooling over boxes of feature maps: the largest number of each cell (MAX), the mean of each cell over channels of its
own (POSITION), and interpolated numbers at the corners of cells (ALIGN).

A row of rois is (image, x1, y1, x2, y2). Arithmetic is of the arrays' type, as in Caffe, so that cells end at the same
pixels. Cells of boxes that are not finite are empty.
"""

import numpy as np

from .parallel import loop
from .settings import kernel

FARTHEST = 1e9  # coordinates that fit 32-bit integers


@kernel
def _image_of(roi, images):
    """The number of a box's image; -1: there is none, or the box is not finite."""
    if not (0 <= roi[0] < images):
        return -1
    for k in range(1, 5):
        if not (abs(roi[k]) < FARTHEST):
            return -1
    return int(roi[0])


@kernel
def report(rois, images, bad):
    """bad[0] keeps 1 + the first box that names no image."""
    for r in range(rois.shape[0]):
        if bad[0] == 0 and not (0 <= rois[r, 0] < images):
            bad[0] = 1 + r


@kernel
def _rounded(value):
    """The nearest integer, halves away from 0, as C's round; of values that are too far away, the farthest."""
    value = min(max(value, type(value)(-FARTHEST)), type(value)(FARTHEST))
    whole = np.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return int(whole)


@kernel
def _clipped(value, size):
    return min(max(value, 0), size)


@kernel
def _cell(start, extent, cells, i, size):
    """First pixel of cell i along an axis, and one more than the last, for a box that starts at pixel ``start``."""
    one = extent / cells
    low = int(np.floor(type(one)(i) * one)) + start
    high = int(np.ceil(type(one)(i + 1) * one)) + start
    return _clipped(low, size), _clipped(high, size)


@kernel
def _pixels(low, high, pad, scale):
    """First pixel and number of pixels of a box along an axis, on the feature map, for MAX."""
    margin = (high - low + type(scale)(1)) * pad
    start = _rounded((low - margin) * scale)
    return start, type(scale)(max(_rounded((high + margin) * scale) - start + 1, 1))


@loop("y.shape[0] * y.shape[1]")
def max_forward(first, last, x, rois, y, index, scale, pad):
    """index: the place of each maximum in its plane, the first of equals, NaN wins; -1 for an empty cell, whose y is
    0."""
    images, channels, height, width = x.shape
    count, _, high, wide = y.shape
    kind = x.dtype.type
    for t in range(first, last):
        r, c = t // channels, t % channels
        y[r, c], index[r, c] = 0, -1
        n = _image_of(rois[r], images)
        if n < 0:
            continue
        left, columns = _pixels(rois[r, 1], rois[r, 3], pad, scale)
        top, rows = _pixels(rois[r, 2], rois[r, 4], pad, scale)
        for i in range(high):
            h0, h1 = _cell(top, rows, kind(high), i, height)
            for j in range(wide):
                w0, w1 = _cell(left, columns, kind(wide), j, width)
                if h1 <= h0 or w1 <= w0:
                    continue
                best, where = x[n, c, h0, w0], h0 * width + w0
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        v = x[n, c, h, w]
                        if v > best or v != v:
                            best, where = v, h * width + w
                y[r, c, i, j], index[r, c, i, j] = best, where


@loop("dx.shape[1]")
def max_backward(first, last, dy, rois, index, dx):
    images, channels, height, width = dx.shape
    count, _, high, wide = dy.shape
    flat = dx.reshape(images, channels, height * width)
    for c in range(first, last):
        flat[:, c] = 0
        for r in range(count):
            n = _image_of(rois[r], images)
            if n < 0:
                continue
            for i in range(high):
                for j in range(wide):
                    if index[r, c, i, j] >= 0:
                        flat[n, c, index[r, c, i, j]] += dy[r, c, i, j]


@kernel
def _span(low, high, scale):
    """First position and extent of a box along an axis, on the feature map, for POSITION."""
    kind = type(scale)
    start = kind(_rounded(low)) * scale
    end = kind(_rounded(high) + 1) * scale
    return start, max(end - start, kind(0.1))


@kernel
def _part(start, extent, cells, i, size):
    """First pixel of cell i along an axis, and one more than the last, of a span."""
    kind = type(start)
    one = extent / kind(cells)
    low, high = int(np.floor(kind(i) * one + start)), int(np.ceil(kind(i + 1) * one + start))
    return _clipped(low, size), _clipped(high, size)


@loop("y.shape[0] * y.shape[1]")
def position_forward(first, last, x, rois, y, scale):
    images, _, height, width = x.shape
    count, outputs, group, _ = y.shape
    kind = x.dtype.type
    for t in range(first, last):
        r, c = t // outputs, t % outputs
        y[r, c] = 0
        n = _image_of(rois[r], images)
        if n < 0:
            continue
        left, columns = _span(rois[r, 1], rois[r, 3], scale)
        top, rows = _span(rois[r, 2], rois[r, 4], scale)
        for i in range(group):
            h0, h1 = _part(top, rows, group, i, height)
            for j in range(group):
                w0, w1 = _part(left, columns, group, j, width)
                if h1 <= h0 or w1 <= w0:
                    continue
                plane = x[n, (c * group + i) * group + j]
                total = kind(0)
                for h in range(h0, h1):
                    for w in range(w0, w1):
                        total += plane[h, w]
                y[r, c, i, j] = total / kind((h1 - h0) * (w1 - w0))


@loop("dx.shape[1]")
def position_backward(first, last, dy, rois, dx, scale):
    images, channels, height, width = dx.shape
    count, _, group, _ = dy.shape
    kind = dx.dtype.type
    for k in range(first, last):
        dx[:, k] = 0
        c, i, j = k // (group * group), k // group % group, k % group
        for r in range(count):
            n = _image_of(rois[r], images)
            if n < 0:
                continue
            left, columns = _span(rois[r, 1], rois[r, 3], scale)
            top, rows = _span(rois[r, 2], rois[r, 4], scale)
            h0, h1 = _part(top, rows, group, i, height)
            w0, w1 = _part(left, columns, group, j, width)
            if h1 <= h0 or w1 <= w0:
                continue
            share = dy[r, c, i, j] / kind((h1 - h0) * (w1 - w0))
            for h in range(h0, h1):
                for w in range(w0, w1):
                    dx[n, k, h, w] += share


@kernel
def _point(low, high, pad, scale, cells, i, size):
    """Corner i of the cells of a box along an axis: its two pixels and the weight of the second; a first pixel of -1
    where the box has no extent or the corner is outside of the map."""
    kind = type(scale)
    margin = (high - low + kind(1)) * pad
    start, end = (low - margin) * scale - kind(0.5), (high + margin) * scale - kind(0.5)
    if not end > start:
        return -1, -1, kind(0)
    position = start + kind(i) * ((end - start) / kind(cells))
    if position < kind(-0.5) or position > kind(size) - kind(0.5):
        return -1, -1, kind(0)
    first = int(np.floor(position))
    a, b = min(max(first, 0), size - 1), min(max(first + 1, 0), size - 1)
    return a, b, min(max(position, kind(0)), kind(size - 1)) - kind(a)


@loop("y.shape[0] * y.shape[1]")
def align_forward(first, last, x, rois, y, scale, pad):
    images, channels, height, width = x.shape
    count, _, high, wide = y.shape
    one = x.dtype.type(1)
    for t in range(first, last):
        r, c = t // channels, t % channels
        y[r, c] = 0
        n = _image_of(rois[r], images)
        if n < 0:
            continue
        for i in range(high):
            h0, h1, v = _point(rois[r, 2], rois[r, 4], pad, scale, high - 1, i, height)
            for j in range(wide):
                w0, w1, u = _point(rois[r, 1], rois[r, 3], pad, scale, wide - 1, j, width)
                if h0 < 0 or w0 < 0:
                    continue
                above = (one - u) * x[n, c, h0, w0] + u * x[n, c, h0, w1]
                below = (one - u) * x[n, c, h1, w0] + u * x[n, c, h1, w1]
                y[r, c, i, j] = (one - v) * above + v * below


@loop("dx.shape[1]")
def align_backward(first, last, dy, rois, dx, scale, pad):
    images, channels, height, width = dx.shape
    count, _, high, wide = dy.shape
    one = dx.dtype.type(1)
    for c in range(first, last):
        dx[:, c] = 0
        for r in range(count):
            n = _image_of(rois[r], images)
            if n < 0:
                continue
            for i in range(high):
                h0, h1, v = _point(rois[r, 2], rois[r, 4], pad, scale, high - 1, i, height)
                for j in range(wide):
                    w0, w1, u = _point(rois[r, 1], rois[r, 3], pad, scale, wide - 1, j, width)
                    if h0 < 0 or w0 < 0:
                        continue
                    d = dy[r, c, i, j]
                    dx[n, c, h0, w0] += (one - v) * (one - u) * d
                    dx[n, c, h0, w1] += (one - v) * u * d
                    dx[n, c, h1, w0] += v * (one - u) * d
                    dx[n, c, h1, w1] += v * u * d
