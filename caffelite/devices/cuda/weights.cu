// Weights between Caffe's order (M, C, P), P the kernel's places, and that of convolutions whose blobs lie channels last, (M, P, C).

// The place in (M, B, A) of number i of (M, A, B).
__device__ idx turned(idx i, idx a, idx b) { return (i / (a * b) * b + i % b) * a + i / b % a; }

// packed = w in the other order, and bias (M, or null) in packed_bias.
KERNEL pack_weights(const real* w, const real* bias, blob* packed, blob* packed_bias, idx m, idx c, idx p) {
  EACH(i, m * c * p) packed[i] = w[turned(i, p, c)];
  if (bias)
    EACH(i, m) packed_bias[i] = bias[i];
}

// The weights of several convolutions, a tile a block. w, packed: of the first; a row of table (tiles, 6): how far from there those of the tile's
// convolution are, its C and P, the tile's first weight and the one behind its last.
KERNEL pack_all(const real* w, blob* packed, const long long* table, idx tiles) {
  for (idx t = blockIdx.x; t < tiles; t += gridDim.x) {
    const long long* row = table + t * 6;
    const real* from = w + row[0];
    blob* to = packed + row[1];
    const idx c = (idx)row[2], p = (idx)row[3];
    for (idx i = (idx)row[4] + threadIdx.x; i < row[5]; i += blockDim.x) to[i] = from[turned(i, p, c)];
  }
}

// dw = [dw +] the gradients of packed weights, with such a table.
KERNEL unpack_all(real* dw, const blob* packed, const long long* table, idx keep, idx tiles) {
  for (idx t = blockIdx.x; t < tiles; t += gridDim.x) {
    const long long* row = table + t * 6;
    real* to = dw + row[0];
    const blob* from = packed + row[1];
    const idx c = (idx)row[2], p = (idx)row[3];
    for (idx i = (idx)row[4] + threadIdx.x; i < row[5]; i += blockDim.x)
      to[i] = real(from[turned(i, c, p)]) + (keep ? to[i] : real(0));
  }
}

// dw = [dw +] the gradient of packed weights; p = 1: of weights in Caffe's order.
KERNEL unpack_weights(const blob* packed, real* dw, idx keep, idx m, idx c, idx p) {
  EACH(i, m * c * p) dw[i] = real(packed[turned(i, c, p)]) + (keep ? dw[i] : real(0));
}
