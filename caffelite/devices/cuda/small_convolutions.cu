// Convolutions of small images, which lie channels first: a thread takes one pixel. Weights (M, C, KH, KW), of G groups.
struct Geometry {
  idx n, c, h, w, m, oh, ow, g, kh, kw, sh, sw, ph, pw, dh, dw;
};

// y = x * w [+ b] [rectified]. K outputs a thread, of one group, which read the same pixels.
template <int K>
__device__ void convolve(const blob* x, const blob* weights, const blob* b, blob* y, bool rectified, const Geometry& g) {
  const idx own = g.m / g.g, each = g.c / g.g, packs = own / K, taps = each * g.kh * g.kw, area = g.oh * g.ow;
  EACH(i, g.n * g.g * packs * area) {
    const idx at = i % area, pack = i / area % packs, group = i / (area * packs) % g.g, image = i / (area * packs * g.g);
    const idx first = group * own + pack * K, r0 = at / g.ow * g.sh - g.ph, c0 = at % g.ow * g.sw - g.pw;
    const blob* from = x + (image * g.c + group * each) * g.h * g.w;
    const blob* of = weights + first * taps;
    real sums[K] = {};
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
