// How alike patches of two images are (N, C, H, W), for each shift (rows, columns). Images are 0 outside.

// A pixel of a plane, 0 outside.
__device__ real pixel_of(const real* plane, idx r, idx c, idx height, idx width) {
  return r >= 0 && r < height && c >= 0 && c < width ? plane[r * width + c] : real(0);
}

// y (N, S, high, wide): the mean over patches of side x side pixels and over channels. row, column: of the first patch of a.
KERNEL correlation_forward(const real* a, const real* b, const int* shifts, real* y, idx subtract, idx side, idx row, idx column, idx stride,
                           idx channels, idx height, idx width, idx images, idx count, idx high, idx wide) {
  EACH(at, images * count * high * wide) {
    const idx j = at % wide, i = at / wide % high, s = at / (wide * high) % count, n = at / (wide * high * count);
    real total = 0;
    for (idx c = 0; c < channels; ++c) {
      const idx plane = (n * channels + c) * height * width;
      for (idx v = 0; v < side; ++v)
        for (idx u = 0; u < side; ++u) {
          const idx r = row + i * stride + v, q = column + j * stride + u;
          const real here = pixel_of(a + plane, r, q, height, width);
          const real there = pixel_of(b + plane, r + shifts[2 * s], q + shifts[2 * s + 1], height, width);
          total += subtract ? fabs(here - there) : here * there;
        }
    }
    y[at] = total / real(side * side * channels);
  }
}

// The gradient of a, or with `second` of b: it gathers what all patches with a pixel add to it, in one order, and needs no atomics. `own` is the
// image of the gradient, `other` the one that it meets.
KERNEL correlation_backward(const real* own, const real* other, const int* shifts, const real* dy, real* gradient, idx second, idx subtract, idx side,
                            idx row, idx column, idx stride, idx channels, idx height, idx width, idx images, idx count, idx high, idx wide) {
  EACH(at, images * channels * height * width) {
    const idx q = at % width, r = at / width % height, n = at / (width * height * channels), plane = at / (width * height) * height * width;
    real total = 0;
    for (idx s = 0; s < count; ++s) {
      const idx down = second ? -shifts[2 * s] : shifts[2 * s], right = second ? -shifts[2 * s + 1] : shifts[2 * s + 1];
      const idx first = (second ? r + down : r) - row, left = (second ? q + right : q) - column;  // of the pixel of a
      real above = 0;
      for (idx v = 0; v < side; ++v) {
        const idx i = first - v;
        if (i < 0 || i % stride || i / stride >= high) continue;
        for (idx u = 0; u < side; ++u) {
          const idx j = left - u;
          if (j < 0 || j % stride || j / stride >= wide) continue;
          above += dy[((n * count + s) * high + i / stride) * wide + j / stride];
        }
      }
      const real there = pixel_of(other + plane, r + down, q + right, height, width), far = own[at] - there;
      total += above * (subtract ? real(far > 0) - real(far < 0) : there);
    }
    gradient[at] = total / real(side * side * channels);
  }
}
