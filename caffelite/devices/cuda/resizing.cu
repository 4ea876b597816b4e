// Bilinear interpolation and unpooling. A backward pass gathers, so that sums have one order and need no atomics.

// Along an axis two inputs of each output, and the share of the second; the outputs first to last - 1 of each input.
struct Axis {
  const int *low, *high, *first, *last;
  const real* share;

  __device__ Axis(const int* places, const real* share, idx inputs, idx outputs)
      : low(places), high(low + outputs), first(high + outputs), last(first + inputs), share(share) {}

  // How much of an input an output has.
  __device__ real weight(idx output, idx input) const {
    return (low[output] == input ? 1 - share[output] : real(0)) + (high[output] == input ? share[output] : real(0));
  }
};

// x (planes, H, W) -> y (planes, OH, OW)
KERNEL interpolate(const real* x, real* y, const int* row_places, const int* column_places, const real* row_shares, const real* column_shares,
                   idx planes, idx h, idx w, idx oh, idx ow) {
  const Axis rows(row_places, row_shares, h, oh), columns(column_places, column_shares, w, ow);
  EACH(i, planes * oh * ow) {
    idx r = i / ow % oh, c = i % ow, left = columns.low[c], right = columns.high[c];
    const real* plane = x + i / (oh * ow) * h * w;
    const real *above = plane + rows.low[r] * w, *below = plane + rows.high[r] * w;
    real down = rows.share[r], share = columns.share[c];
    y[i] = (1 - down) * ((1 - share) * above[left] + share * above[right]) + down * ((1 - share) * below[left] + share * below[right]);
  }
}

KERNEL interpolate_backward(const real* dy, real* dx, const int* row_places, const int* column_places, const real* row_shares,
                            const real* column_shares, idx planes, idx h, idx w, idx oh, idx ow) {
  const Axis rows(row_places, row_shares, h, oh), columns(column_places, column_shares, w, ow);
  EACH(i, planes * h * w) {
    idx r = i / w % h, c = i % w;
    const real* plane = dy + i / (h * w) * oh * ow;
    real total = 0;
    for (idx u = rows.first[r]; u < rows.last[r]; ++u) {
      real line = 0;
      for (idx v = columns.first[c]; v < columns.last[c]; ++v) line += columns.weight(v, c) * plane[u * ow + v];
      total += rows.weight(u, r) * line;
    }
    dx[i] = total;
  }
}

// winners (planes, Q), 0 before: -(1 + the last index of x that names a place), negative, so that the least is the last one and what is 0 has none.
// first: 1 + the first index that names none.
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
