// Kernels that keep shapes: dropout, random numbers, a ring.

// y = x · scale where a random word is at least threshold, else 0. x (N, D); row n draws from sample micro_batch · samples + n, four words a counter;
// clock: the seed's two words, the iteration, the micro-batch. x is the part of a wider array that begins at row first_row and column first; its first
// numbers may share a counter with those before. It is stored as (N, D / channels, channels), and its words are drawn in the order of
// (N, channels, D / channels).
KERNEL dropout_forward(const blob* x, byte* mask, blob* y, const unsigned* clock, unsigned samples, unsigned stream, unsigned threshold,
                       real scale, idx n, idx d, idx first_row, idx first, idx channels) {
  const idx pixels = d / channels, quads = (first % 4 + d + 3) / 4;
  const bool whole = channels == 1 && first % 4 == 0 && d % 4 == 0 && wide<4>(x) && wide<4>(mask) && wide<4>(y);
  EACH(i, n * quads) {
    const idx row = i / quads, quad = first / 4 + i % quads;
    unsigned words[4] = {(unsigned)quad, clock[3] * samples + (unsigned)(first_row + row), clock[2], stream};
    philox(words, clock[0], clock[1]);
    if (whole) {
      const idx at = row * d + i % quads * 4;
      Pack<blob, 4> v = load<4>(x + at);
      Pack<byte, 4> kept;
      EACH_OF(j, 4) {
        kept.at[j] = words[j] >= threshold;
        v.at[j] = kept.at[j] ? real(v.at[j]) * scale : real(0);
      }
      store(mask + at, kept);
      store(y + at, v);
    } else EACH_OF(j, 4) {
      if (4 * quad + j < first || 4 * quad + j >= first + d) continue;
      idx number = 4 * quad + j - first, at = row * d + number % pixels * channels + number / pixels;
      bool kept = words[j] >= threshold;
      mask[at] = kept;
      y[at] = kept ? real(x[at]) * scale : real(0);
    }
  }
}

KERNEL dropout_backward(const byte* mask, const blob* dy, blob* dx, real scale, idx n) {
  bool whole = wide<4>(mask) && wide<4>(dy) && wide<4>(dx);
  EACH(i, (n + 3) / 4) {
    bool all = whole && 4 * i + 4 <= n;
    Pack<byte, 4> kept = load_some<4>(mask + 4 * i, all, n - 4 * i);
    Pack<blob, 4> v = load_some<4>(dy + 4 * i, all, n - 4 * i);
    for (int j = 0; j < 4; ++j) v.at[j] = kept.at[j] ? real(v.at[j]) * scale : real(0);
    store_some(dx + 4 * i, v, all, n - 4 * i);
  }
}

// Random numbers from start to start + width; out (N, D); row n draws from sample micro_batch · samples + n.
KERNEL uniform(real* out, const unsigned* clock, unsigned samples, unsigned stream, double start, double width, idx n, idx d) {
  idx quads = (d + 3) / 4;
  EACH(i, n * quads) {
    idx row = i / quads, quad = i % quads;
    unsigned words[4] = {(unsigned)quad, clock[3] * samples + (unsigned)row, clock[2], stream};
    philox(words, clock[0], clock[1]);
    for (int j = 0; j < 4 && 4 * quad + j < d; ++j) out[row * d + 4 * quad + j] = real(start + width * ((words[j] + 0.5) / 4294967296.0));
  }
}

// Row count of ring (rows, width), counted round, becomes source (width) / divisor, and count one more; source becomes 0 where asked. A block.
KERNEL append(real* source, real* ring, long long* count, real divisor, idx clear, idx rows, idx width) {
  idx row = (idx)(count[0] % rows);
  for (idx i = threadIdx.x; i < width; i += blockDim.x) {
    ring[row * width + i] = source[i] / divisor;
    if (clear) source[i] = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) count[0] += 1;
}
