// Bilinear interpolation and unpooling. A backward pass gathers, so that sums have one order and need no atomics.

// Two inputs of each output along an axis, and the share of the second; the outputs first to last - 1 of each input.
struct Axis {
  const int *low, *high, *first, *last;
  const real* share;
};

__device__ real axis_weight(const Axis& a, idx output, idx input) {
  real share = a.share[output];
  return (a.low[output] == input ? 1 - share : real(0)) + (a.high[output] == input ? share : real(0));
}

// x (planes, H, W) -> y (planes, OH, OW)
KERNEL interpolate(const real* x, real* y, const int* low_rows, const int* high_rows, const real* row_shares, const int* low_columns,
                   const int* high_columns, const real* column_shares, idx planes, idx h, idx w, idx oh, idx ow) {
  EACH(i, planes * oh * ow) {
    idx r = i / ow % oh, c = i % ow;
    const real* plane = x + i / (oh * ow) * h * w;
    const real *above = plane + low_rows[r] * w, *below = plane + high_rows[r] * w;
    idx left = low_columns[c], right = high_columns[c];
    real down = row_shares[r], share = column_shares[c];
    y[i] = (1 - down) * ((1 - share) * above[left] + share * above[right]) + down * ((1 - share) * below[left] + share * below[right]);
  }
}

KERNEL interpolate_backward(const real* dy, real* dx, const int* low_rows, const int* high_rows, const real* row_shares, const int* low_columns,
                            const int* high_columns, const real* column_shares, const int* first_rows, const int* last_rows,
                            const int* first_columns, const int* last_columns, idx planes, idx h, idx w, idx oh, idx ow) {
  Axis rows = {low_rows, high_rows, first_rows, last_rows, row_shares};
  Axis columns = {low_columns, high_columns, first_columns, last_columns, column_shares};
  EACH(i, planes * h * w) {
    idx r = i / w % h, c = i % w;
    const real* plane = dy + i / (h * w) * oh * ow;
    real total = 0;
    for (idx u = rows.first[r]; u < rows.last[r]; ++u) {
      real line = 0;
      for (idx v = columns.first[c]; v < columns.last[c]; ++v) line += axis_weight(columns, v, c) * plane[u * ow + v];
      total += axis_weight(rows, u, r) * line;
    }
    dx[i] = total;
  }
}

// winners (planes, Q), 0 before: -(1 + the last index of x that names a place). first: 1 + the first index that names none.
KERNEL unpool_find(const real* places, int* winners, long long* first, idx planes, idx p, idx q) {
  EACH(i, planes * p) {
    real place = places[i];
    if (place >= 0 && place < q)
      atomicMin(winners + i / p * q + (idx)place, -(int)(i % p) - 1);
    else
      atomicMin(first, (long long)i + 1);
  }
}

KERNEL unpool(const real* x, const int* winners, real* y, long long* first, long long* bad, idx planes, idx p, idx q) {
  if (blockIdx.x == 0 && threadIdx.x == 0) note_bad(first, bad);
  EACH(i, planes * q) y[i] = winners[i] ? x[i / q * p - winners[i] - 1] : real(0);
}

KERNEL unpool_backward(const real* dy, const real* places, real* dx, idx planes, idx p, idx q) {
  EACH(i, planes * p) {
    real place = places[i];
    dx[i] = place >= 0 && place < q ? dy[i / p * q + (idx)place] : real(0);
  }
}
