// Sliding windows: pooling, normalization over neighboring channels, and the unfolding of images for convolutions. A backward pass gathers, so that sums have one order and need no atomics.

__device__ idx least(idx a, idx b) { return a < b ? a : b; }
__device__ idx most(idx a, idx b) { return a > b ? a : b; }

// The windows (of `reach` pixels, `stride` apart) that cover pixel i of the padded axis: from first_window to last_window.
__device__ idx first_window(idx i, idx reach, idx stride) { return i < reach ? 0 : (i - reach) / stride + 1; }
__device__ idx last_window(idx i, idx stride, idx count) { return least(i / stride, count - 1); }

// How many pixels of the padded axis a window that starts at `start` (0 is the first pixel) holds: what AVE divides by.
__device__ idx extent(idx start, idx kernel, idx size, idx pad) { return least(start + kernel, size + pad) - start; }

// x (N, H, W, C) -> y (N, OH, OW, C); of planes C is 1. A thread takes K channels at one place, four where C is a multiple of that.
struct Shape {
  idx n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw;
};

// The mean of each window or, with MAX, its largest number, the first of equals; NaN wins. index: the place of the largest; a byte holds it in its
// window, a·kw + b, an int in its plane, r·W + c.
template <int K, bool MAX, class place>
__device__ void pool(const blob* x, blob* y, place* index, const Shape& g) {
  idx packs = g.c / K;
  EACH(i, g.n * g.oh * g.ow * packs) {
    idx at = i / packs, h0 = at / g.ow % g.oh * g.sh - g.ph, w0 = at % g.ow * g.sw - g.pw;
    idx h1 = least(h0 + g.kh, g.h), w1 = least(w0 + g.kw, g.w);
    const blob* from = x + at / (g.oh * g.ow) * g.h * g.w * g.c + i % packs * K;
    real size = real(extent(h0, g.kh, g.h, g.ph) * extent(w0, g.kw, g.w, g.pw)), result[K] = {};
    Pack<place, K> where;
    bool any = false;
    for (idx r = most(h0, 0); r < h1; ++r)
      for (idx c = most(w0, 0); c < w1; ++c, any = true) {
        Pack<blob, K> v = load<K>(from + (r * g.w + c) * g.c);
        EACH_OF(j, K) {
          real value = v.at[j];
          if (!MAX) {
            result[j] += value;
          } else if (!any || value > result[j] || value != value) {
            result[j] = value;
            where.at[j] = (place)(sizeof(place) == 1 ? (r - h0) * g.kw + c - w0 : r * g.w + c);
          }
        }
      }
    Pack<blob, K> out;
    EACH_OF(j, K) out.at[j] = MAX ? result[j] : result[j] / size;
    store(y + i * K, out);
    if (MAX) store(index + i * K, where);
  }
}

template <int K, bool MAX, class place>
__device__ void pool_gradient(const blob* dy, const place* index, blob* dx, const Shape& g) {
  idx packs = g.c / K;
  EACH(i, g.n * g.h * g.w * packs) {
    idx at = i / packs, r = at / g.w % g.h + g.ph, c = at % g.w + g.pw;
    idx r1 = last_window(r, g.sh, g.oh), c1 = last_window(c, g.sw, g.ow), from = at / (g.h * g.w) * g.oh * g.ow * g.c + i % packs * K;
    real total[K] = {};
    for (idx u = first_window(r, g.kh, g.sh); u <= r1; ++u)
      for (idx v = first_window(c, g.kw, g.sw); v <= c1; ++v) {
        const idx there = from + (u * g.ow + v) * g.c;
        const idx own = sizeof(place) == 1 ? (r - u * g.sh) * g.kw + c - v * g.sw : (r - g.ph) * g.w + c - g.pw;
        const real size = real(extent(u * g.sh - g.ph, g.kh, g.h, g.ph) * extent(v * g.sw - g.pw, g.kw, g.w, g.pw));
        Pack<place, K> where;
        if (MAX) where = load<K>(index + there);
        Pack<blob, K> slope = load<K>(dy + there);
        EACH_OF(j, K)
          if (!MAX || where.at[j] == (place)own) total[j] += MAX ? real(slope.at[j]) : real(slope.at[j]) / size;
      }
    Pack<blob, K> out;
    EACH_OF(j, K) out.at[j] = total[j];
    store(dx + i * K, out);
  }
}

template <bool MAX, class place>
__device__ void pool_fours(const blob* x, blob* y, place* index, const Shape& g) {
  g.c % 4 == 0 && wide<4>(x) && wide<4>(y) && wide<4>(index) ? pool<4, MAX>(x, y, index, g) : pool<1, MAX>(x, y, index, g);
}
template <bool MAX, class place>
__device__ void pool_gradient_fours(const blob* dy, const place* index, blob* dx, const Shape& g) {
  bool fours = g.c % 4 == 0 && wide<4>(dy) && wide<4>(dx) && wide<4>(index);
  fours ? pool_gradient<4, MAX>(dy, index, dx, g) : pool_gradient<1, MAX>(dy, index, dx, g);
}
// The places of the largest are bytes or ints; where both are null, windows have means.
KERNEL pool_forward(const blob* x, blob* y, byte* bytes, int* ints, idx n, idx c, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw,
                    idx ph, idx pw) {
  Shape g = {n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw};
  bytes ? pool_fours<true>(x, y, bytes, g) : ints ? pool_fours<true>(x, y, ints, g) : pool_fours<false>(x, y, bytes, g);
}
KERNEL pool_backward(const blob* dy, const byte* bytes, const int* ints, blob* dx, idx n, idx c, idx h, idx w, idx oh, idx ow, idx kh, idx kw,
                     idx sh, idx sw, idx ph, idx pw) {
  Shape g = {n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw};
  if (bytes) pool_gradient_fours<true>(dy, bytes, dx, g);
  else if (ints) pool_gradient_fours<true>(dy, ints, dx, g);
  else pool_gradient_fours<false>(dy, bytes, dx, g);
}

// Of every window the place (index) where its running sum reaches u · sum, u in (0, 1]; NaN wins, or the last where rounding lets none reach.
// u is the first word that belongs to the output's place in its sample. Without a clock what that gives on average: the sum of squares over the
// sum, which starts at float's least number.
KERNEL stochastic_pool_forward(const blob* x, blob* y, int* index, const unsigned* clock, unsigned samples, unsigned stream, idx channels,
                               idx planes, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph,
                               idx pw) {
  idx each = channels * oh * ow;
  EACH(i, planes * oh * ow) {
    idx h0 = i / ow % oh * sh - ph, w0 = i % ow * sw - pw;
    idx h1 = least(h0 + kh, h), w1 = least(w0 + kw, w);
    h0 = most(h0, 0);
    w0 = most(w0, 0);
    const blob* plane = x + i / (oh * ow) * h * w;
    real total = clock ? 0 : real(1.17549435e-38), squares = 0, seen = 0;
    for (idx r = h0; r < h1; ++r)
      for (idx c = w0; c < w1; ++c) {
        real v = plane[r * w + c];
        total += v;
        squares += v * v;
      }
    if (!clock) {
      y[i] = squares / total;
      continue;
    }
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

// scale^-beta; two roots where beta is everyone's.
__device__ real inverse_power(real scale, real beta) {
  return beta == real(0.75) ? real(1) / (sqrt(scale) * sqrt(sqrt(scale))) : pow(scale, -beta);
}

// Channel c of number i of (N, C, P). A thread takes RUN channels in turn: neighbors lie far apart, and are then still in the cache.
#define RUN 16
#define EACH_IN_RUNS(i, c)                                                                                                       \
  for (idx s = blockIdx.x * (idx)blockDim.x + threadIdx.x, runs = (channels + RUN - 1) / RUN; s < n * runs * p;                 \
       s += gridDim.x * (idx)blockDim.x)                                                                                        \
    for (idx c = s / p % runs * RUN, end = least(c + RUN, channels), i = (s / (p * runs) * channels + c) * p + s % p; c < end; \
         ++c, i += p)

// scale = k + share · the sum of x² over `size` channels around each of (N, C, P), y = x · scale^-beta.
KERNEL lrn_forward(const blob* x, real* scale, blob* y, idx size, real share, real k, real beta, idx n, idx channels, idx p) {
  EACH_IN_RUNS(i, c) {
    idx first = c - (size - 1) / 2, stop = least(first + size, channels);
    real total = k;
    for (idx d = most(first, 0); d < stop; ++d) {
      real v = x[i + (d - c) * p];
      total += share * v * v;
    }
    scale[i] = total;
    y[i] = real(x[i]) * inverse_power(total, beta);
  }
}

// dx = dy · scale^-beta - factor · x · the sum of dy·y / scale over the channels that see each.
KERNEL lrn_backward(const blob* x, const blob* y, const real* scale, const blob* dy, blob* dx, idx size, real factor, real beta, idx n,
                    idx channels, idx p) {
  EACH_IN_RUNS(i, c) {
    idx last = c + (size - 1) / 2, stop = least(last + 1, channels);
    real total = 0;
    for (idx d = most(last - size + 1, 0); d < stop; ++d) {
      idx at = i + (d - c) * p;
      total += real(dy[at]) * real(y[at]) / scale[at];
    }
    dx[i] = real(dy[i]) * inverse_power(scale[i], beta) - factor * real(x[i]) * total;
  }
}

// The same of rows (N, C), whose neighbors are channels: a block computes what windows share once, in shared memory, for TILE numbers and those
// that their windows reach beyond. size <= 1 + REACH.
#define TILE 1024
#define REACH 32
#define EACH_TILE(start, count) for (idx start = blockIdx.x * (idx)TILE; start < (count); start += gridDim.x * (idx)TILE)
#define EACH_IN_TILE(i, start, count) for (idx i = start + threadIdx.x; i < start + TILE && i < (count); i += blockDim.x)

KERNEL lrn_rows_forward(const blob* x, real* scale, blob* y, idx size, real share, real k, real beta, idx n, idx channels) {
  __shared__ real squares[TILE + REACH];
  const idx before = (size - 1) / 2, count = n * channels;
  EACH_TILE(start, count) {
    __syncthreads();  // the last tile's readers are done
    for (idx j = threadIdx.x; j < TILE + size - 1; j += blockDim.x) {
      const idx i = start - before + j;
      const real v = i < 0 || i >= count ? real(0) : real(x[i]);
      squares[j] = share * v * v;
    }
    __syncthreads();
    EACH_IN_TILE(i, start, count) {
      const idx c = i % channels, from = i - start;  // squares[from] is that of channel c - before
      const idx last = least(size, channels - c + before);
      real total = k;
      for (idx d = most(before - c, 0); d < last; ++d) total += squares[from + d];
      scale[i] = total;
      y[i] = real(x[i]) * inverse_power(total, beta);
    }
  }
}

KERNEL lrn_rows_backward(const blob* x, const blob* y, const real* scale, const blob* dy, blob* dx, idx size, real factor, real beta, idx n,
                         idx channels) {
  __shared__ real ratios[TILE + REACH];
  const idx before = size - 1 - (size - 1) / 2, count = n * channels;
  EACH_TILE(start, count) {
    __syncthreads();
    for (idx j = threadIdx.x; j < TILE + size - 1; j += blockDim.x) {
      const idx i = start - before + j;
      ratios[j] = i < 0 || i >= count ? real(0) : real(dy[i]) * real(y[i]) / scale[i];
    }
    __syncthreads();
    EACH_IN_TILE(i, start, count) {
      const idx c = i % channels, from = i - start, last = least(size, channels - c + before);
      real total = 0;
      for (idx d = most(before - c, 0); d < last; ++d) total += ratios[from + d];
      dx[i] = real(dy[i]) * inverse_power(scale[i], beta) - factor * real(x[i]) * total;
    }
  }
}

// x (C, H, W) -> col (C·kh·kw, OH·OW): a column for every window.
KERNEL im2col(const blob* x, blob* col, idx channels, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw, idx dh, idx dw) {
  idx p = oh * ow;
  EACH(i, channels * kh * kw * p) {
    idx q = i % p, k = i / p;
    idx r = q / ow * sh - ph + k / kw % kh * dh, c = q % ow * sw - pw + k % kw * dw;
    col[i] = r < 0 || r >= h || c < 0 || c >= w ? blob(0) : x[(k / (kh * kw) * h + r) * w + c];
  }
}

// The transpose: every pixel of dx adds up the numbers of col that came from it.
KERNEL col2im(const blob* col, blob* dx, idx channels, idx h, idx w, idx oh, idx ow, idx kh, idx kw, idx sh, idx sw, idx ph, idx pw, idx dh, idx dw) {
  EACH(i, channels * h * w) {
    idx c = i % w + pw, r = i / w % h + ph, channel = i / (w * h);
    real total = 0;
    for (idx a = 0; a < kh; ++a) {
      idx u = r - a * dh;
      if (u < 0 || u % sh || u / sh >= oh) continue;
      for (idx b = 0; b < kw; ++b) {
        idx v = c - b * dw;
        if (v < 0 || v % sw || v / sw >= ow) continue;
        total += col[(((channel * kh + a) * kw + b) * oh + u / sh) * ow + v / sw];
      }
    }
    dx[i] = total;
  }
}
