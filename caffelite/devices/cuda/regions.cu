// Pooling over boxes of feature maps: the largest number of each cell (max), the mean of each cell over channels of its own (position), and
// interpolated numbers at the corners of cells (align). A row of rois is (image, x1, y1, x2, y2). A backward pass gathers over the boxes in
// their order, so that sums have one order and need no atomics. Cells of boxes that are not finite are empty.

#define FARTHEST real(1e9)

__device__ idx clipped(idx v, idx size) { return v < 0 ? 0 : v > size ? size : v; }

// The number of a box's image; -1: there is none, or the box is not finite.
__device__ idx image_of(const real* roi, idx images) {
  if (!(roi[0] >= 0 && roi[0] < images)) return -1;
  for (int k = 1; k < 5; ++k)
    if (!(roi[k] < FARTHEST && roi[k] > -FARTHEST)) return -1;
  return (idx)roi[0];
}

// first[0] gets 1 + the first box that names no image.
KERNEL report(const real* rois, long long* first, idx images, idx count) {
  EACH(r, count) {
    if (!(rois[r * 5] >= 0 && rois[r * 5] < images)) atomicMin(first, (long long)r + 1);
  }
}

// The nearest integer, halves away from 0.
__device__ idx rounded(real v) {
  real whole = v < 0 ? ceil(v) : floor(v), rest = v - whole;
  return (idx)whole + (rest >= real(0.5) ? 1 : rest <= real(-0.5) ? -1 : 0);
}

// The pixels of a cell along an axis: from `low` to `high` - 1.
struct Cell {
  idx low, high;
};

// Of a box that starts at pixel `start` and has `extent` pixels, for max.
__device__ Cell cell(idx start, idx extent, idx cells, idx i, idx size) {
  real one = real(extent) / real(cells);
  return {clipped((idx)floor(real(i) * one) + start, size), clipped((idx)ceil(real(i + 1) * one) + start, size)};
}

KERNEL max_forward(const real* x, const real* rois, real* y, int* index, idx images, idx channels, idx height, idx width, idx count, idx outputs,
                   idx high, idx wide, real scale) {
  EACH(at, count * outputs * high * wide) {
    idx j = at % wide, i = at / wide % high, c = at / (wide * high) % outputs, r = at / (wide * high * outputs);
    const real* roi = rois + r * 5;
    idx n = image_of(roi, images), where = -1;
    real best = 0;
    if (n >= 0) {
      idx left = rounded(roi[1] * scale), top = rounded(roi[2] * scale);
      idx columns = rounded(roi[3] * scale) - left + 1, rows = rounded(roi[4] * scale) - top + 1;
      Cell h = cell(top, rows > 1 ? rows : 1, high, i, height), w = cell(left, columns > 1 ? columns : 1, wide, j, width);
      const real* plane = x + (n * channels + c) * height * width;
      for (idx a = h.low; a < h.high; ++a)
        for (idx b = w.low; b < w.high; ++b) {
          real v = plane[a * width + b];
          if (where < 0 || v > best || v != v) {
            best = v;
            where = a * width + b;
          }
        }
    }
    y[at] = best;
    index[at] = (int)where;
  }
}

KERNEL max_backward(const real* dy, const real* rois, const int* index, real* dx, idx images, idx channels, idx height, idx width, idx count,
                    idx outputs, idx high, idx wide, real scale) {
  EACH(at, images * channels * height * width) {
    idx place = at % (height * width), b = place % width, a = place / width, c = at / (height * width) % channels;
    idx mine = at / (height * width * channels);
    real total = 0;
    for (idx r = 0; r < count; ++r) {
      const real* roi = rois + r * 5;
      if (image_of(roi, images) != mine) continue;
      idx left = rounded(roi[1] * scale), top = rounded(roi[2] * scale);
      idx columns = rounded(roi[3] * scale) - left + 1, rows = rounded(roi[4] * scale) - top + 1;
      if (columns < 1) columns = 1;
      if (rows < 1) rows = 1;
      if (a < top || b < left || a >= top + rows || b >= left + columns) continue;
      for (idx i = 0; i < high; ++i) {
        Cell h = cell(top, rows, high, i, height);
        if (a < h.low || a >= h.high) continue;
        for (idx j = 0; j < wide; ++j) {
          idx from = ((r * outputs + c) * high + i) * wide + j;
          if (index[from] == place) total += dy[from];
        }
      }
    }
    dx[at] = total;
  }
}

// A box along an axis on the feature map, for position.
struct Span {
  real start, extent;
};

__device__ Span span(real low, real high, real scale) {
  real start = real(rounded(low)) * scale, extent = real(rounded(high) + 1) * scale - start;
  return {start, extent > real(0.1) ? extent : real(0.1)};
}

__device__ Cell part(Span s, idx cells, idx i, idx size) {
  real one = s.extent / real(cells);
  return {clipped((idx)floor(real(i) * one + s.start), size), clipped((idx)ceil(real(i + 1) * one + s.start), size)};
}

KERNEL position_forward(const real* x, const real* rois, real* y, idx images, idx channels, idx height, idx width, idx count, idx outputs, idx group,
                        idx wide, real scale) {
  EACH(at, count * outputs * group * wide) {
    idx j = at % wide, i = at / wide % group, c = at / (wide * group) % outputs;
    const real* roi = rois + at / (wide * group * outputs) * 5;
    idx n = image_of(roi, images);
    y[at] = 0;
    if (n < 0) continue;
    Cell h = part(span(roi[2], roi[4], scale), group, i, height), w = part(span(roi[1], roi[3], scale), wide, j, width);
    if (h.high <= h.low || w.high <= w.low) continue;
    const real* plane = x + (n * channels + (c * group + i) * wide + j) * height * width;
    real total = 0;
    for (idx a = h.low; a < h.high; ++a)
      for (idx b = w.low; b < w.high; ++b) total += plane[a * width + b];
    y[at] = total / real((h.high - h.low) * (w.high - w.low));
  }
}

KERNEL position_backward(const real* dy, const real* rois, real* dx, idx images, idx channels, idx height, idx width, idx count, idx outputs,
                         idx group, idx wide, real scale) {
  EACH(at, images * channels * height * width) {
    idx b = at % width, a = at / width % height, k = at / (height * width) % channels, mine = at / (height * width * channels);
    idx j = k % wide, i = k / wide % group, c = k / (wide * group);
    real total = 0;
    for (idx r = 0; r < count; ++r) {
      const real* roi = rois + r * 5;
      if (image_of(roi, images) != mine) continue;
      Cell h = part(span(roi[2], roi[4], scale), group, i, height), w = part(span(roi[1], roi[3], scale), wide, j, width);
      if (a < h.low || a >= h.high || b < w.low || b >= w.high) continue;
      total += dy[((r * outputs + c) * group + i) * wide + j] / real((h.high - h.low) * (w.high - w.low));
    }
    dx[at] = total;
  }
}

// A corner of the cells of a box along an axis: its two pixels and the weight of the second; low is -1 where there is none.
struct Point {
  idx low, high;
  real weight;
};

__device__ Point point(real low, real high, real pad, real scale, idx cells, idx i, idx size) {
  real margin = (high - low + 1) * pad, start = (low - margin) * scale - real(0.5), end = (high + margin) * scale - real(0.5);
  if (!(end > start)) return {-1, -1, 0};
  real place = start + real(i) * ((end - start) / real(cells));
  if (place < real(-0.5) || place > real(size) - real(0.5)) return {-1, -1, 0};
  idx first = (idx)floor(place), a = clipped(first, size - 1), b = clipped(first + 1, size - 1);
  real inside = place < 0 ? real(0) : place > real(size - 1) ? real(size - 1) : place;
  return {a, b, inside - real(a)};
}

KERNEL align_forward(const real* x, const real* rois, real* y, idx images, idx channels, idx height, idx width, idx count, idx outputs, idx high,
                     idx wide, real scale, real pad) {
  EACH(at, count * outputs * high * wide) {
    idx j = at % wide, i = at / wide % high, c = at / (wide * high) % outputs;
    const real* roi = rois + at / (wide * high * outputs) * 5;
    idx n = image_of(roi, images);
    y[at] = 0;
    if (n < 0) continue;
    Point h = point(roi[2], roi[4], pad, scale, high - 1, i, height), w = point(roi[1], roi[3], pad, scale, wide - 1, j, width);
    if (h.low < 0 || w.low < 0) continue;
    const real* plane = x + (n * channels + c) * height * width;
    real above = (1 - w.weight) * plane[h.low * width + w.low] + w.weight * plane[h.low * width + w.high];
    real below = (1 - w.weight) * plane[h.high * width + w.low] + w.weight * plane[h.high * width + w.high];
    y[at] = (1 - h.weight) * above + h.weight * below;
  }
}

// How much of pixel `at` a point reads.
__device__ real share(Point p, idx at) {
  if (p.low < 0) return 0;
  return (p.low == at ? 1 - p.weight : real(0)) + (p.high == at ? p.weight : real(0));
}

KERNEL align_backward(const real* dy, const real* rois, real* dx, idx images, idx channels, idx height, idx width, idx count, idx outputs, idx high,
                      idx wide, real scale, real pad) {
  EACH(at, images * channels * height * width) {
    idx b = at % width, a = at / width % height, c = at / (height * width) % channels, mine = at / (height * width * channels);
    real total = 0;
    for (idx r = 0; r < count; ++r) {
      const real* roi = rois + r * 5;
      if (image_of(roi, images) != mine) continue;
      for (idx i = 0; i < high; ++i) {
        real row = share(point(roi[2], roi[4], pad, scale, high - 1, i, height), a);
        if (row == 0) continue;
        for (idx j = 0; j < wide; ++j) {
          real column = share(point(roi[1], roi[3], pad, scale, wide - 1, j, width), b);
          if (column != 0) total += row * column * dy[((r * outputs + c) * high + i) * wide + j];
        }
      }
    }
    dx[at] = total;
  }
}
