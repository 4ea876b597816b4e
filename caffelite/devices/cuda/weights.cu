// Weights between Caffe's order (M, C, P), P the kernel's places, and that of convolutions whose blobs lie channels last, (M, P, C).

// packed = w in the other order, and bias (M, or null) in packed_bias.
KERNEL pack_weights(const real* w, const real* bias, blob* packed, blob* packed_bias, idx m, idx c, idx p) {
  EACH(i, m * c * p) packed[i] = w[(i / (c * p) * c + i % c) * p + i / c % p];
  if (bias)
    EACH(i, m) packed_bias[i] = bias[i];
}

// dw = [dw +] the gradient of packed weights; p = 1: of weights in Caffe's order.
KERNEL unpack_weights(const blob* packed, real* dw, idx keep, idx m, idx c, idx p) {
  EACH(i, m * c * p) dw[i] = real(packed[(i / (c * p) * p + i % p) * c + i / p % c]) + (keep ? dw[i] : real(0));
}
