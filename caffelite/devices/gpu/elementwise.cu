// Kernels that need no barrier and keep shapes: bias, ReLU, dropout, the gradient of a softmax with loss.

KERNEL add(const real* source, real* target, idx n) {
  EACH(i, n) target[i] += source[i];
}

__device__ real biased(real v, const real* bias, idx channel, real slope, idx rectified) {
  if (bias) v += bias[channel];
  return !rectified || v > 0 ? v : slope * v;
}

// y (N, C, P) += bias (C, or null), then leaky ReLU where rectified.
KERNEL bias_relu(real* y, const real* bias, real slope, idx rectified, idx n, idx channels, idx p) {
  EACH(i, n * channels * p) y[i] = biased(y[i], bias, i / p % channels, slope, rectified);
}

// y = x · scale where a random word is at least threshold, else 0. x (N, D); row n draws from sample part · samples + n, four words a counter;
// clock: the seed's two words, the iteration, the part.
KERNEL dropout_forward(const real* x, byte* mask, real* y, const unsigned* clock, unsigned samples, unsigned stream, unsigned threshold,
                       real scale, idx n, idx d) {
  idx quads = (d + 3) / 4;
  EACH(i, n * quads) {
    idx row = i / quads, quad = i % quads;
    unsigned words[4] = {(unsigned)quad, clock[3] * samples + (unsigned)row, clock[2], stream};
    philox(words, clock[0], clock[1]);
    for (idx lane = 0; lane < 4 && 4 * quad + lane < d; ++lane) {
      idx at = row * d + 4 * quad + lane;
      bool kept = words[lane] >= threshold;
      mask[at] = kept;
      y[at] = kept ? x[at] * scale : real(0);
    }
  }
}

KERNEL dropout_backward(const byte* mask, const real* dy, real* dx, real scale, idx n) {
  EACH(i, n) dx[i] = mask[i] ? dy[i] * scale : real(0);
}

// dx = (prob - onehot(label)) · dloss / divisor over (N, C, P); 0 where the label (N, P) is ignored.
KERNEL softmax_loss_backward(const real* prob, const real* label, const real* dloss, const real* divisor, real* dx, real ignore, idx ignoring,
                             idx n, idx c, idx p) {
  real scale = dloss[0] / divisor[0];
  EACH(i, n * c * p) {
    real given = label[i / (c * p) * p + i % p];
    dx[i] = ignoring && given == ignore ? real(0) : (prob[i] - real(i / p % c == given)) * scale;
  }
}

// Row count of ring (rows, width), counted round, becomes source (width) / divisor, and count one more: a block.
KERNEL append(const real* source, real* ring, long long* count, real divisor, idx rows, idx width) {
  idx row = (idx)(count[0] % rows);
  for (idx i = threadIdx.x; i < width; i += blockDim.x) ring[row * width + i] = source[i] / divisor;
  __syncthreads();
  if (threadIdx.x == 0) count[0] += 1;
}
