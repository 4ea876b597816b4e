// The loss of YOLO's predictions (N, A, 5 + K, H, W): x, y, w, h, object and classes of each anchor of each cell. Everything is computed in double, as
// the CPU does: a threshold that one of them passes and the other does not would change a whole gradient. A label has rows (image, class + 1, instance, xmin, ymin, xmax, ymax, difficult), or for each image rows (class, x, y, w, h) up to the
// first without x or w.

struct Truth {
  double kind, at[4];  // class; x, y, w, h
};

// The true box of a row for an image: 1; 0: it has none there; -1: nor has any later row. `first`, or null, gets 1 + a row whose class is none.
__device__ int truth_of(const real* label, idx r, idx image, idx rows, idx wide, idx classes, long long* first, Truth& t) {
  const real* row = label + (wide ? 8 * r : 5 * (image * rows + r));
  if (wide) {
    if (row[0] != image) return 0;
    t = {double(row[1]) - 1, {(double(row[5]) + row[3]) / 2, (double(row[6]) + row[4]) / 2, double(row[5]) - row[3], double(row[6]) - row[4]}};
  } else {
    if (row[1] == 0 || row[3] == 0) return -1;
    t = {row[0], {row[1], row[2], row[3], row[4]}};
  }
  EACH_OF(k, 4)
    if (!(t.at[k] >= 0 && t.at[k] < (k < 2 ? 1 : 1e300)) || (k > 1 && t.at[k] == 0)) return 0;
  if (t.kind >= 0 && t.kind < classes) return 1;
  if (first) atomicMin(first, (long long)(wide ? r : image * rows + r) + 1);
  return 0;
}

__device__ double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// Intersection over union of boxes (x, y, w, h); NaN where both have no area.
__device__ double overlap(const double* a, const double* b) {
  double common = 1;
  EACH_OF(k, 2) {
    double high = a[k] + a[2 + k] / 2, low = a[k] - a[2 + k] / 2, other = b[k] + b[2 + k] / 2, down = b[k] - b[2 + k] / 2;
    double side = (high < other || high != high ? high : other) - (low > down || low != low ? low : down);
    common *= side >= 0 ? side : 0;
  }
  return common / (a[2] * a[3] + b[2] * b[3] - common);
}

// The box of a prediction, whose values lie `area` apart. sizes: of its anchor, in cells.
__device__ void box_of(const real* x, const double* sizes, idx row, idx column, idx height, idx width, double* box) {
  const idx area = height * width;
  box[0] = (column + sigmoid(x[0])) / width;
  box[1] = (row + sigmoid(x[area])) / height;
  box[2] = exp(double(x[2 * area])) * (sizes[0] / width);
  box[3] = exp(double(x[3 * area])) * (sizes[1] / height);
}

// errors: those of predictions that no true box has, of "object" alone, where no true box overlaps them by more than `most`.
KERNEL region_objects(const real* x, const real* label, const double* sizes, real* errors, long long* first, double scale, double most, idx wide, idx rows,
                      idx images, idx anchors, idx values, idx height, idx width) {
  const idx area = height * width;
  EACH(at, images * anchors * area) {
    const idx cell = at % area, image = at / (area * anchors), start = at / area * values * area + cell;
    double box[4], object = sigmoid(x[start + 4 * area]);
    box_of(x + start, sizes + at / area % anchors * 2, cell / width, cell % width, height, width, box);
    bool far = true;
    Truth t;
    for (idx r = 0, is = 0; r < rows && is >= 0; ++r) {
      is = truth_of(label, r, image, rows, wide, values - 5, at % (area * anchors) ? nullptr : first, t);
      if (is > 0 && overlap(box, t.at) > most) far = false;
    }
    for (idx k = 0; k < values; ++k) errors[start + k * area] = 0;
    if (far) errors[start + 4 * area] = real(scale * object * (object * (1 - object)));
  }
}

// errors of the predictions that learn a true box, the last of several: a block an image, in which a thread has channels of its own.
KERNEL region_truths(const real* x, const real* label, const double* sizes, real* errors, long long* first, long long* bad, double of_object, double of_class,
                     double of_box, idx rescore, idx matches_sizes, idx wide, idx rows, idx images, idx anchors, idx values, idx height, idx width) {
  const idx area = height * width;
  if (blockIdx.x == 0 && threadIdx.x == 0) note_bad(first, bad);
  for (idx image = blockIdx.x; image < images; image += gridDim.x) {
    Truth t;
    for (idx r = 0, is = 0; r < rows && is >= 0; ++r) {
      is = truth_of(label, r, image, rows, wide, values - 5, nullptr, t);
      if (is < 1) continue;
      const idx row = (idx)(t.at[1] * height), column = (idx)(t.at[0] * width), cell = row * width + column;
      const double wanted[4] = {0, 0, t.at[2], t.at[3]};
      idx anchor = 0;
      double nearest = 0, box[4];
      for (idx a = 0; a < anchors; ++a) {
        box_of(x + ((image * anchors + a) * values) * area + cell, sizes + 2 * a, row, column, height, width, box);
        const double own[4] = {0, 0, matches_sizes ? sizes[2 * a] / width : box[2], matches_sizes ? sizes[2 * a + 1] / height : box[3]};
        double common = overlap(own, wanted);
        if (common > nearest) {
          nearest = common;
          anchor = a;
        }
      }
      const idx start = (image * anchors + anchor) * values * area + cell;
      box_of(x + start, sizes + 2 * anchor, row, column, height, width, box);
      double top = x[start + 5 * area], total = 0;
      for (idx k = 5; k < values; ++k) top = x[start + k * area] > top || x[start + k * area] != x[start + k * area] ? x[start + k * area] : top;
      for (idx k = 5; k < values; ++k) total += exp(x[start + k * area] - top);
      const double scale = of_box * (rescore ? 1 : 2 - t.at[2] * t.at[3]), object = sigmoid(x[start + 4 * area]);
      for (idx k = threadIdx.x; k < values; k += blockDim.x) {
        double v = x[start + k * area], error;
        if (k < 2) {
          double place = sigmoid(v);
          error = -scale * (t.at[k] * (k ? height : width) - (k ? row : column) - place) * (place * (1 - place));
        } else if (k < 4) {
          error = -scale * (log(t.at[k] * (k > 2 ? height : width) / sizes[2 * anchor + k - 2]) - v);
        } else if (k == 4) {
          error = -of_object * ((rescore ? overlap(box, t.at) : 1) - object) * (object * (1 - object));
        } else {
          error = -of_class * ((k - 5 == (idx)t.kind) - exp(v - top) / total);
        }
        errors[start + k * area] = real(error);
      }
    }
  }
}
