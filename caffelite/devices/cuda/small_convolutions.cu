// Convolutions of small images, which lie channels first: a thread takes one pixel. Weights (M, C, KH, KW), of G groups.
struct Geometry {
  idx n, c, h, w, m, oh, ow, g, kh, kw, sh, sw, ph, pw, dh, dw;
};

// sums = those of K outputs of a group in a row, at a place in it. from: the group's first plane of an image; of: the weights of the first output.
template <int K>
__device__ void sums_at(const blob* from, const blob* of, idx row, idx place, idx each, const Geometry& g, real (&sums)[K]) {
  const idx r0 = row * g.sh - g.ph, c0 = place * g.sw - g.pw, taps = each * g.kh * g.kw;
  EACH_OF(j, K) sums[j] = 0;
  for (idx channel = 0; channel < each; ++channel)
    for (idx u = 0; u < g.kh; ++u) {
      const idx r = r0 + u * g.dh;
      if (r < 0 || r >= g.h) continue;
      for (idx v = 0; v < g.kw; ++v) {
        const idx column = c0 + v * g.dw;
        if (column < 0 || column >= g.w) continue;
        const real value = from[(channel * g.h + r) * g.w + column];
        const blob* tap = of + (channel * g.kh + u) * g.kw + v;
        EACH_OF(j, K) sums[j] += value * real(tap[j * taps]);
      }
    }
}

// y = x * w [+ b] [rectified]. K outputs a thread, of one group, which read the same pixels.
template <int K>
__device__ void convolve(const blob* x, const blob* weights, const blob* b, blob* y, bool rectified, const Geometry& g) {
  const idx own = g.m / g.g, each = g.c / g.g, packs = own / K, taps = each * g.kh * g.kw, area = g.oh * g.ow;
  EACH(i, g.n * g.g * packs * area) {
    const idx at = i % area, pack = i / area % packs, group = i / (area * packs) % g.g, image = i / (area * packs * g.g);
    const idx first = group * own + pack * K;
    real sums[K];
    sums_at<K>(x + (image * g.c + group * each) * g.h * g.w, weights + first * taps, at / g.ow, at % g.ow, each, g, sums);
    EACH_OF(j, K) {
      real sum = b ? sums[j] + real(b[first + j]) : sums[j];
      y[(image * g.m + first + j) * area + at] = rectified && sum < 0 ? real(0) : sum;  // NaN stays
    }
  }
}

KERNEL small_forward(const blob* x, const blob* weights, const blob* b, blob* y, idx rectified,
                     idx n, idx c, idx h, idx w, idx m, idx oh, idx ow, idx g,
                     idx kh, idx kw, idx sh, idx sw, idx ph, idx pw, idx dh, idx dw) {
  const Geometry at = {n, c, h, w, m, oh, ow, g, kh, kw, sh, sw, ph, pw, dh, dw};
  if (m / g % 4 == 0)
    convolve<4>(x, weights, b, y, rectified, at);
  else
    convolve<1>(x, weights, b, y, rectified, at);
}

// y = x * w [+ b], and of its windows of rows x columns pixels (high x wide of them, which cover it and do not overlap) the largest number and its
// place in the plane; the first of equals, NaN wins. A window and K outputs a thread: the pooling is one launch less, and reads nothing.
template <int K>
__device__ void convolve_windows(const blob* x, const blob* weights, const blob* b, blob* y, blob* pooled, int* index, idx rows, idx columns, idx high,
                                 idx wide, const Geometry& g) {
  const idx own = g.m / g.g, each = g.c / g.g, packs = own / K, taps = each * g.kh * g.kw, area = high * wide;
  EACH(i, g.n * g.g * packs * area) {
    const idx at = i % area, pack = i / area % packs, group = i / (area * packs) % g.g, image = i / (area * packs * g.g);
    const idx first = group * own + pack * K, r0 = at / wide * rows, c0 = at % wide * columns;
    real best[K];
    idx where[K];
    for (idx r = r0; r < r0 + rows && r < g.oh; ++r)
      for (idx c = c0; c < c0 + columns && c < g.ow; ++c) {
        real sums[K];
        sums_at<K>(x + (image * g.c + group * each) * g.h * g.w, weights + first * taps, r, c, each, g, sums);
        EACH_OF(j, K) {
          const blob out = b ? sums[j] + real(b[first + j]) : sums[j];
          const real value = out;
          y[((image * g.m + first + j) * g.oh + r) * g.ow + c] = out;
          if ((r == r0 && c == c0) || value > best[j] || value != value) {
            best[j] = value;
            where[j] = r * g.ow + c;
          }
        }
      }
    EACH_OF(j, K) {
      pooled[(image * g.m + first + j) * area + at] = best[j];
      index[(image * g.m + first + j) * area + at] = (int)where[j];
    }
  }
}

KERNEL small_pooled(const blob* x, const blob* weights, const blob* b, blob* y, blob* pooled, int* index, idx rows, idx columns, idx high, idx wide,
                    idx n, idx c, idx h, idx w, idx m, idx oh, idx ow, idx g,
                    idx kh, idx kw, idx sh, idx sw, idx ph, idx pw, idx dh, idx dw) {
  const Geometry at = {n, c, h, w, m, oh, ow, g, kh, kw, sh, sw, ph, pw, dh, dw};
  if (m / g % 2 == 0)
    convolve_windows<2>(x, weights, b, y, pooled, index, rows, columns, high, wide, at);
  else
    convolve_windows<1>(x, weights, b, y, pooled, index, rows, columns, high, wide, at);
}

// dx = the gradient of x.
KERNEL small_bottom_gradient(const blob* dy, const blob* weights, blob* dx,
                             idx n, idx c, idx h, idx w, idx m, idx oh, idx ow, idx g,
                             idx kh, idx kw, idx sh, idx sw, idx ph, idx pw, idx dh, idx dw) {
  const idx own = m / g, each = c / g, area = h * w;
  EACH(i, n * c * area) {
    const idx at = i % area, channel = i / area % c, image = i / (area * c), group = channel / each;
    const idx r = at / w + ph, column = at % w + pw;
    real sum = 0;
    for (idx u = 0; u < kh; ++u) {
      const idx down = r - u * dh;
      if (down < 0 || down % sh || down / sh >= oh) continue;
      for (idx v = 0; v < kw; ++v) {
        const idx right = column - v * dw;
        if (right < 0 || right % sw || right / sw >= ow) continue;
        const blob* from = dy + ((image * m + group * own) * oh + down / sh) * ow + right / sw;
        const blob* tap = weights + ((group * own * each + channel % each) * kh + u) * kw + v;
        for (idx o = 0; o < own; ++o) sum += real(from[o * oh * ow]) * real(tap[o * each * kh * kw]);
      }
    }
    dx[i] = sum;
  }
}

// gradient = that of the weights; a block for each: these are few, and each sums over all images and pixels, which no other thread needs.
KERNEL small_weight_gradient(const blob* x, const blob* dy, blob* gradient,
                             idx n, idx c, idx h, idx w, idx m, idx oh, idx ow, idx g,
                             idx kh, idx kw, idx sh, idx sw, idx ph, idx pw, idx dh, idx dw) {
  const idx own = m / g, each = c / g, area = oh * ow;
  for (idx i = blockIdx.x; i < m * each * kh * kw; i += gridDim.x) {
    const idx v = i % kw, u = i / kw % kh, channel = i / (kh * kw) % each, o = i / (each * kh * kw);
    const idx from = o / own * each + channel;
    real sum = 0;
    for (idx j = threadIdx.x; j < n * area; j += blockDim.x) {
      const idx at = j % area, image = j / area;
      const idx r = at / ow * sh - ph + u * dh, column = at % ow * sw - pw + v * dw;
      if (r >= 0 && r < h && column >= 0 && column < w)
        sum += real(x[((image * c + from) * h + r) * w + column]) * real(dy[(image * m + o) * area + at]);
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) gradient[i] = real(total);
  }
}
