// Copies that move numbers to other places: layouts, and columns of a matrix.

// target (N, B, A) = source (N, A, B), by tiles of 2^u by 2^v of at most 1,024 numbers, narrow where the array is: both are walked in the order of
// memory, and a row of the tile is one longer, so that its columns lie in different banks.
KERNEL transpose(const blob* source, blob* target, idx u, idx v, idx n, idx a, idx b) {
  __shared__ blob tile[2048];
  const idx rows = 1 << u, columns = 1 << v, high = (a + rows - 1) >> u, across = (b + columns - 1) >> v;
  for (idx t = blockIdx.x; t < n * high * across; t += gridDim.x) {
    const idx image = t / (high * across) * a * b, a0 = (t / across % high) << u, b0 = (t % across) << v;
    for (idx i = threadIdx.x, y, x; y = i >> v, x = i & (columns - 1), i < rows * columns; i += blockDim.x)
      if (a0 + y < a && b0 + x < b) tile[y * (columns + 1) + x] = source[image + (a0 + y) * b + b0 + x];
    __syncthreads();
    for (idx i = threadIdx.x, y, x; y = i >> u, x = i & (rows - 1), i < rows * columns; i += blockDim.x)
      if (b0 + y < b && a0 + x < a) target[image + (b0 + y) * a + a0 + x] = tile[x * (columns + 1) + y];
    __syncthreads();
  }
}

// Copies between part (rows, width) and the columns of whole (rows, total) from `start` on: K numbers at once where all rows lie so.
template <int K>
__device__ void columns(blob* part, blob* whole, bool into, idx start, idx rows, idx width, idx total) {
  EACH(i, rows * (width / K)) {
    blob *here = part + i * K, *there = whole + i / (width / K) * total + start + i % (width / K) * K;
    store(into ? there : here, load<K>(into ? here : there));
  }
}
__device__ void columns(blob* part, blob* whole, bool into, idx start, idx rows, idx width, idx total) {
  const int K = 16 / sizeof(blob);
  if (wide<K>(part) && wide<K>(whole) && width % K == 0 && total % K == 0 && start % K == 0)
    columns<K>(part, whole, into, start, rows, width, total);
  else
    columns<1>(part, whole, into, start, rows, width, total);
}
KERNEL copy_into(blob* part, blob* whole, idx start, idx rows, idx width, idx total) {
  columns(part, whole, true, start, rows, width, total);
}
KERNEL copy_out(blob* part, blob* whole, idx start, idx rows, idx width, idx total) {
  columns(part, whole, false, start, rows, width, total);
}

// part = the sum of such columns of several wholes, in their order; null for those that are not there.
template <int K>
__device__ void sum_columns(blob* part, const blob* const (&wholes)[8], idx start, idx rows, idx width, idx total) {
  EACH(i, rows * (width / K)) {
    const idx at = i / (width / K) * total + start + i % (width / K) * K;
    real sum[K] = {};
    EACH_OF(q, 8) {
      if (!wholes[q]) continue;
      const auto v = load<K>(wholes[q] + at);
      EACH_OF(j, K) sum[j] += real(v.at[j]);
    }
    Pack<blob, K> out;
    EACH_OF(j, K) out.at[j] = sum[j];
    store(part + i * K, out);
  }
}
KERNEL sum_out(blob* part, const blob* a, const blob* b, const blob* c, const blob* d, const blob* e, const blob* f, const blob* g,
               const blob* h, idx start, idx rows, idx width, idx total) {
  const int K = 16 / sizeof(blob);
  const blob* const wholes[8] = {a, b, c, d, e, f, g, h};
  bool packs = wide<K>(part) && width % K == 0 && total % K == 0 && start % K == 0;
  EACH_OF(q, 8) packs = packs && wide<K>(wholes[q]);
  if (packs)
    sum_columns<K>(part, wholes, start, rows, width, total);
  else
    sum_columns<1>(part, wholes, start, rows, width, total);
}
