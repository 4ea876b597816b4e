// Pooling over boxes of feature maps: the largest number of each cell (max), the mean of each cell over channels of its own (position), and
// interpolated numbers at the corners of cells (align). A row of rois is (image, x1, y1, x2, y2). A backward pass gathers over the boxes in
// their order, so that sums have one order and need no atomics. Cells of boxes that are not finite are empty.

#define FARTHEST real(1e9)
enum { LARGEST, POSITION, ALIGN };  // methods, as regions.py numbers them

__device__ idx clipped(idx v, idx size) { return v < 0 ? 0 : v > size ? size : v; }

// The number of a box's image; -1: there is none, or the box is not finite.
__device__ idx image_of(const real* roi, idx images) {
  if (!(roi[0] >= 0 && roi[0] < images)) return -1;
  for (int k = 1; k < 5; ++k)
    if (!(roi[k] < FARTHEST && roi[k] > -FARTHEST)) return -1;
  return (idx)roi[0];
}

// The nearest integer, halves away from 0; of values that are too far away, the farthest.
__device__ idx rounded(real v) {
  v = v < FARTHEST ? v > -FARTHEST ? v : -FARTHEST : FARTHEST;
  real whole = v < 0 ? ceil(v) : floor(v), rest = v - whole;
  return (idx)whole + (rest >= real(0.5) ? 1 : rest <= real(-0.5) ? -1 : 0);
}

// The pixels of a cell along an axis: from `low` to `high` - 1.
struct Cell {
  idx low, high;
};
__device__ bool holds(Cell cell, idx at) { return cell.low <= at && at < cell.high; }
__device__ idx area(Cell h, Cell w) { return (h.high - h.low) * (w.high - w.low); }

// A box along an axis on the feature map, for max: from its first pixel on.
struct Pixels {
  idx start, extent;
};
__device__ Pixels pixels(real low, real high, real pad, real scale) {
  real margin = (high - low + 1) * pad;
  idx start = rounded((low - margin) * scale), extent = rounded((high + margin) * scale) - start + 1;
  return {start, extent > 1 ? extent : 1};
}
__device__ Cell cell(Pixels box, idx cells, idx i, idx size) {
  real one = real(box.extent) / real(cells);
  return {clipped((idx)floor(real(i) * one) + box.start, size), clipped((idx)ceil(real(i + 1) * one) + box.start, size)};
}

// The same for position.
struct Span {
  real start, extent;
};
__device__ Span span(real low, real high, real scale) {
  real start = real(rounded(low)) * scale, extent = real(rounded(high) + 1) * scale - start;
  return {start, extent > real(0.1) ? extent : real(0.1)};
}
__device__ Cell cell(Span box, idx cells, idx i, idx size) {
  real one = box.extent / real(cells);
  return {clipped((idx)floor(real(i) * one + box.start), size), clipped((idx)ceil(real(i + 1) * one + box.start), size)};
}

// A corner of the cells of a box along an axis, for align: its two pixels and the weight of the second; low is -1 where there is none.
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
// How much of pixel `at` a point reads.
__device__ real share(Point p, idx at) {
  if (p.low < 0) return 0;
  return (p.low == at ? 1 - p.weight : real(0)) + (p.high == at ? p.weight : real(0));
}

// The largest number of a cell, NaN first; where: its place, -1 in an empty cell.
__device__ real largest(const real* plane, Cell h, Cell w, idx width, idx& where) {
  real best = 0;
  for (idx a = h.low; a < h.high; ++a)
    for (idx b = w.low; b < w.high; ++b) {
      real v = plane[a * width + b];
      if (where < 0 || v > best || v != v) {
        best = v;
        where = a * width + b;
      }
    }
  return best;
}

__device__ real mean(const real* plane, Cell h, Cell w, idx width) {
  if (h.high <= h.low || w.high <= w.low) return 0;
  real total = 0;
  for (idx a = h.low; a < h.high; ++a)
    for (idx b = w.low; b < w.high; ++b) total += plane[a * width + b];
  return total / real(area(h, w));
}

__device__ real interpolated(const real* plane, Point h, Point w, idx width) {
  if (h.low < 0 || w.low < 0) return 0;
  real above = (1 - w.weight) * plane[h.low * width + w.low] + w.weight * plane[h.low * width + w.high];
  real below = (1 - w.weight) * plane[h.high * width + w.low] + w.weight * plane[h.high * width + w.high];
  return (1 - h.weight) * above + h.weight * below;
}

// x (images, channels, height, width) -> y (count, outputs, high, wide). index: the places of the largest; other methods have none.
KERNEL region_pool_forward(const real* x, const real* rois, real* y, int* index, long long* first, unsigned* come, long long* bad, idx method,
                           idx images, idx channels, idx height, idx width, idx count, idx outputs, idx high, idx wide, real scale, real pad) {
  EACH(at, count * outputs * high * wide) {
    const idx j = at % wide, i = at / wide % high, c = at / (wide * high) % outputs, r = at / (wide * high * outputs);
    const real* roi = rois + r * 5;
    const idx n = image_of(roi, images);
    if (at % (outputs * high * wide) == 0 && !(roi[0] >= 0 && roi[0] < images)) atomicMin(first, (long long)r + 1);
    idx where = -1;
    real result = 0;
    if (n >= 0) {
      const idx channel = method == POSITION ? (c * high + i) * wide + j : c;
      const real* plane = x + (n * channels + channel) * height * width;
      if (method == LARGEST) {
        const Pixels rows = pixels(roi[2], roi[4], pad, scale), columns = pixels(roi[1], roi[3], pad, scale);
        result = largest(plane, cell(rows, high, i, height), cell(columns, wide, j, width), width, where);
      } else if (method == POSITION) {
        const Span rows = span(roi[2], roi[4], scale), columns = span(roi[1], roi[3], scale);
        result = mean(plane, cell(rows, high, i, height), cell(columns, wide, j, width), width);
      } else {
        const Point h = point(roi[2], roi[4], pad, scale, high - 1, i, height), w = point(roi[1], roi[3], pad, scale, wide - 1, j, width);
        result = interpolated(plane, h, w, width);
      }
    }
    y[at] = result;
    if (method == LARGEST) index[at] = (int)where;
  }
  if (comes_last(come, gridDim.x) && threadIdx.x == 0) note_bad(first, bad);
}

KERNEL region_pool_backward(const real* dy, const real* rois, const int* index, real* dx, idx method, idx images, idx channels, idx height, idx width,
                            idx count, idx outputs, idx high, idx wide, real scale, real pad) {
  EACH(at, images * channels * height * width) {
    const idx b = at % width, a = at / width % height, k = at / (height * width) % channels, mine = at / (height * width * channels);
    real total = 0;
    for (idx r = 0; r < count; ++r) {
      const real* roi = rois + r * 5;
      if (image_of(roi, images) != mine) continue;
      const idx cells = (r * outputs + (method == POSITION ? k / (wide * high) : k)) * high * wide;
      if (method == LARGEST) {
        const Pixels rows = pixels(roi[2], roi[4], pad, scale), columns = pixels(roi[1], roi[3], pad, scale);
        if (!holds({rows.start, rows.start + rows.extent}, a) || !holds({columns.start, columns.start + columns.extent}, b)) continue;
        for (idx i = 0; i < high; ++i) {
          if (!holds(cell(rows, high, i, height), a)) continue;
          for (idx from = cells + i * wide; from < cells + (i + 1) * wide; ++from)
            if (index[from] == a * width + b) total += dy[from];
        }
      } else if (method == POSITION) {
        const idx j = k % wide, i = k / wide % high;
        const Cell h = cell(span(roi[2], roi[4], scale), high, i, height), w = cell(span(roi[1], roi[3], scale), wide, j, width);
        if (holds(h, a) && holds(w, b)) total += dy[cells + i * wide + j] / real(area(h, w));
      } else
        for (idx i = 0; i < high; ++i) {
          real row = share(point(roi[2], roi[4], pad, scale, high - 1, i, height), a);
          if (row == 0) continue;
          for (idx j = 0; j < wide; ++j) {
            real column = share(point(roi[1], roi[3], pad, scale, wide - 1, j, width), b);
            if (column != 0) total += row * column * dy[cells + i * wide + j];
          }
        }
    }
    dx[at] = total;
  }
}
