// Sliding windows: pooling, normalisation over neighbouring channels, and the unfolding of images for convolutions. A backward pass gathers, so that sums have one order and need no atomics.

__device__ idx least(idx a, idx b) { return a < b ? a : b; }
__device__ idx most(idx a, idx b) { return a > b ? a : b; }

// The windows (of `reach` pixels, `stride` apart) that cover pixel i of the padded axis: from first_window to last_window.
__device__ idx first_window(idx i, idx reach, idx stride) { return i < reach ? 0 : (i - reach) / stride + 1; }
__device__ idx last_window(idx i, idx stride, idx count) { return least(i / stride, count - 1); }

// x (planes, H, W) -> y (planes, OH, OW), index: the winner's place in its plane, the first of equals; NaN wins.
KERNEL max_pool_forward(const real* x, real* y, int* index, idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw) {
  EACH(i, planes * oh * ow) {
    idx h0 = i / ow % oh * sh - ph, w0 = i % ow * sw - pw;
    idx h1 = least(h0 + kh, h), w1 = least(w0 + kw, w);
    h0 = most(h0, 0);
    w0 = most(w0, 0);
    const real* plane = x + i / (oh * ow) * h * w;
    idx where = h0 * w + w0;
    real best = plane[where];
    for (idx r = h0; r < h1; ++r)
      for (idx c = w0; c < w1; ++c) {
        real v = plane[r * w + c];
        if (v > best || v != v) {
          best = v;
          where = r * w + c;
        }
      }
    y[i] = best;
    index[i] = (int)where;
  }
}

KERNEL max_pool_backward(const real* dy, const int* index, real* dx, idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph,
                         idx pw) {
  EACH(i, planes * h * w) {
    idx place = i % (h * w), r = place / w + ph, c = place % w + pw, plane = i / (h * w) * oh * ow;
    idx r1 = last_window(r, sh, oh), c1 = last_window(c, sw, ow);
    real total = 0;
    for (idx u = first_window(r, kh, sh); u <= r1; ++u)
      for (idx v = first_window(c, kw, sw); v <= c1; ++v) {
        idx at = plane + u * ow + v;
        if (index[at] == place) total += dy[at];
      }
    dx[i] = total;
  }
}

// How many pixels of the padded axis a window that starts at `start` (0 is the first pixel) holds: what AVE divides by.
__device__ idx extent(idx start, idx kernel, idx size, idx pad) { return least(start + kernel, size + pad) - start; }

KERNEL average_pool_forward(const real* x, real* y, idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw) {
  EACH(i, planes * oh * ow) {
    idx h0 = i / ow % oh * sh - ph, w0 = i % ow * sw - pw;
    idx h1 = least(h0 + kh, h), w1 = least(w0 + kw, w);
    const real* plane = x + i / (oh * ow) * h * w;
    real total = 0;
    for (idx r = most(h0, 0); r < h1; ++r)
      for (idx c = most(w0, 0); c < w1; ++c) total += plane[r * w + c];
    y[i] = total / real(extent(h0, kh, h, ph) * extent(w0, kw, w, pw));
  }
}

KERNEL average_pool_backward(const real* dy, real* dx, idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw) {
  EACH(i, planes * h * w) {
    idx place = i % (h * w), r = place / w + ph, c = place % w + pw, plane = i / (h * w) * oh * ow;
    idx r1 = last_window(r, sh, oh), c1 = last_window(c, sw, ow);
    real total = 0;
    for (idx u = first_window(r, kh, sh); u <= r1; ++u)
      for (idx v = first_window(c, kw, sw); v <= c1; ++v)
        total += dy[plane + u * ow + v] / real(extent(u * sh - ph, kh, h, ph) * extent(v * sw - pw, kw, w, pw));
    dx[i] = total;
  }
}

// Of every window the place (index) where its running sum reaches u · sum, u in (0, 1]; NaN wins, or the last where rounding lets none reach.
// u is the first word that belongs to the output's place in its sample.
KERNEL stochastic_pool_forward(const real* x, real* y, int* index, const unsigned* clock, unsigned samples, unsigned stream, idx channels, idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph,
                               idx pw) {
  idx each = channels * oh * ow;
  EACH(i, planes * oh * ow) {
    idx h0 = i / ow % oh * sh - ph, w0 = i % ow * sw - pw;
    idx h1 = least(h0 + kh, h), w1 = least(w0 + kw, w);
    h0 = most(h0, 0);
    w0 = most(w0, 0);
    const real* plane = x + i / (oh * ow) * h * w;
    real total = 0, seen = 0;
    for (idx r = h0; r < h1; ++r)
      for (idx c = w0; c < w1; ++c) total += plane[r * w + c];
    unsigned words[4] = {(unsigned)(i % each), clock[3] * samples + (unsigned)(i / each), clock[2], stream};
    philox(words, clock[0], clock[1]);
    real enough = real((words[0] + 1.0) * (1.0 / 4294967296.0)) * total;
    bool found = false;
    for (idx r = h0; r < h1 && !found; ++r)
      for (idx c = w0; c < w1 && !found; ++c) {
        real v = plane[r * w + c];
        seen += v;
        found = seen >= enough || v != v;
        y[i] = v;
        index[i] = (int)(r * w + c);
      }
  }
}

// What stochastic pooling gives on average: the sum of squares over the sum, which starts at float's least number.
KERNEL expected_pool_forward(const real* x, real* y, idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw) {
  EACH(i, planes * oh * ow) {
    idx h0 = i / ow % oh * sh - ph, w0 = i % ow * sw - pw;
    idx h1 = least(h0 + kh, h), w1 = least(w0 + kw, w);
    const real* plane = x + i / (oh * ow) * h * w;
    real total = real(1.17549435e-38), squares = 0;
    for (idx r = most(h0, 0); r < h1; ++r)
      for (idx c = most(w0, 0); c < w1; ++c) {
        real v = plane[r * w + c];
        total += v;
        squares += v * v;
      }
    y[i] = squares / total;
  }
}

// scale = k + share · the sum of x² over `size` channels around each of (N, C, P).
KERNEL lrn_scale(const real* x, real* scale, idx size, real share, real k, idx n, idx channels, idx p) {
  EACH(i, n * channels * p) {
    idx c = i / p % channels, first = c - (size - 1) / 2, stop = least(first + size, channels);
    real total = k;
    for (idx d = most(first, 0); d < stop; ++d) {
      real v = x[i + (d - c) * p];
      total += share * v * v;
    }
    scale[i] = total;
  }
}

KERNEL lrn_output(const real* x, const real* scale, real* y, real beta, idx n) {
  EACH(i, n) y[i] = x[i] * pow(scale[i], -beta);
}

// dx = dy · scale^-beta - factor · x · the sum of dy·y / scale over the channels that see each.
KERNEL lrn_backward(const real* x, const real* y, const real* scale, const real* dy, real* dx, idx size, real factor, real beta, idx n,
                    idx channels, idx p) {
  EACH(i, n * channels * p) {
    idx c = i / p % channels, last = c + (size - 1) / 2, stop = least(last + 1, channels);
    real total = 0;
    for (idx d = most(last - size + 1, 0); d < stop; ++d) {
      idx at = i + (d - c) * p;
      total += dy[at] * y[at] / scale[at];
    }
    dx[i] = dy[i] * pow(scale[i], -beta) - factor * x[i] * total;
  }
}

// Images first .. first + n of x (., C, H, W) -> col (C·kh·kw, n·OH·OW): a column for every window.
KERNEL im2col(const real* x, real* col, idx first, idx n, idx channels, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw,
              idx dh, idx dw) {
  idx p = oh * ow;
  EACH(i, channels * kh * kw * n * p) {
    idx q = i % p, image = first + i / p % n, k = i / (p * n);
    idx r = q / ow * sh - ph + k / kw % kh * dh, c = q % ow * sw - pw + k % kw * dw;
    col[i] = r < 0 || r >= h || c < 0 || c >= w ? real(0) : x[((image * channels + k / (kh * kw)) * h + r) * w + c];
  }
}

// The transpose: every pixel of images first .. first + n of dx adds up the places of col that came from it.
KERNEL col2im(const real* col, real* dx, idx first, idx n, idx channels, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw,
              idx dh, idx dw) {
  EACH(i, n * channels * h * w) {
    idx c = i % w + pw, r = i / w % h + ph, channel = i / (w * h) % channels, image = i / (w * h * channels);
    real total = 0;
    for (idx a = 0; a < kh; ++a) {
      idx u = r - a * dh;
      if (u < 0 || u % sh || u / sh >= oh) continue;
      for (idx b = 0; b < kw; ++b) {
        idx v = c - b * dw;
        if (v < 0 || v % sw || v / sw >= ow) continue;
        total += col[((((channel * kh + a) * kw + b) * n + image) * oh + u / sh) * ow + v / sw];
      }
    }
    dx[first * channels * h * w + i] = total;
  }
}

// Images first .. first + n of dy (., M, P) -> rows (M, n·P), as a matrix product wants them.
KERNEL pack(const real* dy, real* rows, idx first, idx n, idx m, idx p) {
  EACH(i, m * n * p) rows[i] = dy[((first + i / p % n) * m + i / (p * n)) * p + i % p];
}

// The other way, with bias (M, or null) and leaky ReLU on the way.
KERNEL unpack(const real* rows, const real* bias, real* y, real slope, idx rectified, idx first, idx n, idx m, idx p) {
  EACH(i, n * m * p) {
    idx channel = i / p % m;
    real v = rows[(channel * n + i / (p * m)) * p + i % p];
    if (bias) v += bias[channel];
    y[first * m * p + i] = !rectified || v > 0 ? v : slope * v;
  }
}
