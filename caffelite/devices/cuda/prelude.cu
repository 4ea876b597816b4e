// What every kernel may use. Before this text stand the typedefs `real` (float or double), `idx` (int, or long long for huge arrays) and
// `blob`, what a net's blobs are made of: real, or one of the 16-bit types below, which are numbers in memory only.
#define KERNEL extern "C" __global__ void __launch_bounds__(256, 2)  // two blocks of 256 threads share a multiprocessor's registers
#define EACH_OF(j, k) _Pragma("unroll") for (int j = 0; j < (k); ++j)  // unrolled, so that what it indexes stays in registers
#define EACH(i, n) for (idx i = blockIdx.x * (idx)blockDim.x + threadIdx.x, i##_step = gridDim.x * (idx)blockDim.x; i < (n); i += i##_step)

// K numbers that are read or written at once; `wide` says whether an array lies so that they can be.
template <class T, int K>
struct alignas(sizeof(T) * K < 16 ? sizeof(T) * K : 16) Pack {
  T at[K];
};
template <int K, class T>
__device__ bool wide(const T* p) { return (unsigned long long)p % alignof(Pack<T, K>) == 0; }
template <int K, class T>
__device__ Pack<T, K> load(const T* p) { return *(const Pack<T, K>*)p; }
template <int K, class T>
__device__ void store(T* p, const Pack<T, K>& v) { *(Pack<T, K>*)p = v; }
// The same from anywhere, where `whole` says how: `left` numbers, and zeros.
template <int K, class T>
__device__ Pack<T, K> load_some(const T* p, bool whole, idx left) {
  if (whole) return load<K>(p);
  Pack<T, K> v;
  EACH_OF(j, K) v.at[j] = j < left ? p[j] : T(0);
  return v;
}
template <int K, class T>
__device__ void store_some(T* p, const Pack<T, K>& v, bool whole, idx left) {
  if (whole) return store(p, v);
  EACH_OF(j, K)
    if (j < left) p[j] = v.at[j];
}

// Sums over a block: shuffles within warps, then over the warps, always in one order. Blocks are whole warps; thread 0 gets the result.
__device__ double block_sum(double v) {
  __shared__ double warps[32];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  __syncthreads();  // the last sum's readers are done
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < (blockDim.x >> 5) ? warps[threadIdx.x] : 0;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  }
  return v;
}

// The sum of each of K columns a thread over a block's rows of `across` threads, always in one order. across and across * K are powers of 2, a
// block has at least across * K threads, at most 256; thread t < across * K gets column t % across * K + t / across.
template <int K>
__device__ double block_column_sum(const double* v, int across) {
  __shared__ double others[256 * K];
  const int width = across * K, chunks = blockDim.x / width, rows = blockDim.x / across;
  const double* column = others + threadIdx.x % width / across * 256 + threadIdx.x % across;
  __syncthreads();  // the last sum's readers are done
  EACH_OF(j, K) others[j * 256 + threadIdx.x] = v[j];
  __syncthreads();
  double total = 0;
  for (int row = threadIdx.x / width; row < rows; row += chunks) total += column[row * across];
  __syncthreads();
  others[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x < width)
    for (int chunk = 1; chunk < chunks; ++chunk) total += others[chunk * width + threadIdx.x];
  return total;
}

// The sum of each of `width` columns over `count` rows, `apart` numbers apart, that other blocks wrote: neighbors read neighbors. width is a
// power of 2 and at most a block; thread t < width gets column t.
__device__ double sum_of_rows(const volatile double* rows, idx count, idx apart, int width) {
  double total = 0;
  for (idx r = threadIdx.x / width; r < count; r += blockDim.x / width) total += rows[r * apart + threadIdx.x % width];
  return block_column_sum<1>(&total, width);
}

// Whether this block is the last of `blocks` to come here; what the others wrote before is then there to be read. `come` starts at 0 and is
// put back to it, so that a graph can launch the kernel again. It saves a second launch, which costs more than the sum that waits for it.
__device__ bool comes_last(unsigned* come, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(come, 1u) == blocks - 1;
    if (last) *come = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

// Adds up K sums of `pieces` blocks in one order: true in the block that comes last, whose thread 0 gets them. partial (pieces, K).
template <int K>
__device__ bool block_sums_of_all(double (&sums)[K], volatile double* partial, unsigned* come, idx piece, idx pieces) {
  EACH_OF(s, K) sums[s] = block_sum(sums[s]);
  if (pieces == 1) return true;
  if (threadIdx.x == 0)
    EACH_OF(s, K) partial[piece * K + s] = sums[s];
  if (!comes_last(come, pieces)) return false;
  EACH_OF(s, K) {
    sums[s] = 0;
    for (idx r = threadIdx.x; r < pieces; r += blockDim.x) sums[s] += partial[r * K + s];
    sums[s] = block_sum(sums[s]);
  }
  return true;
}

// The same of columns, thread t < width has column t's: adds up `count` rows of partial (rows, K, width), from `first` on, of which this block
// has `row`.
template <int K>
__device__ bool block_sums_of_rows(double (&sums)[K], double* partial, unsigned* come, idx row, idx first, idx count, int width) {
  if (threadIdx.x < width)
    EACH_OF(s, K) partial[(row * K + s) * width + threadIdx.x] = sums[s];
  if (!comes_last(come, count)) return false;
  EACH_OF(s, K) sums[s] = sum_of_rows(partial + (first * K + s) * width, count, K * width, width);
  return true;
}

// Of the pieces of a group of columns: the last block of each team of TEAM pieces adds up its team's, the last team all teams'.
template <int TEAM, int K>
__device__ bool block_sums_of_columns(double (&sums)[K], double* partial, unsigned* come, idx group, idx piece, idx pieces, int width) {
  if (pieces == 1) return true;
  const idx teams = (pieces + TEAM - 1) / TEAM, team = piece / TEAM, head = team * TEAM;
  const idx size = pieces - head < TEAM ? pieces - head : TEAM;
  partial += group * (pieces + teams) * K * width;
  come += group * (teams + 1);
  return block_sums_of_rows(sums, partial, come + team, piece, head, size, width) &&
         (teams == 1 || block_sums_of_rows(sums, partial, come + teams, pieces + team, pieces, teams, width));
}

// A team is one thread, or a warp where the reduced axis is contiguous (P = 1).
#define EACH_TEAM(s, count)                                                                              \
  for (idx s = (blockIdx.x * (idx)blockDim.x + threadIdx.x) / team, lane = threadIdx.x % team,           \
           s##_step = gridDim.x * (idx)blockDim.x / team; s < (count); s += s##_step)

// The members of a team agree on the result.
template <class T>
__device__ T team_sum(T v, idx team) {
  if (team == 32)
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
template <class T>
__device__ T team_max(T v, idx team) {
  if (team == 32)
    for (int d = 16; d; d >>= 1) {
      T other = __shfl_xor_sync(~0u, v, d);
      v = other > v || other != other ? other : v;
    }
  return v;
}

// Whether a number names one of `count`.
__device__ bool names(real given, idx count) { return given >= 0 && given < count && given == floor(given); }

// bad[0] keeps 1 + the place of the first label ever that was no class; `first` holds this run's candidate and is put back to NONE.
#define NONE 0x7fffffffffffffffLL
__device__ void note_bad(long long* first, long long* bad) {
  if (bad[0] == 0 && first[0] != NONE) bad[0] = first[0];
  first[0] = NONE;
}

// Philox 4x32, 10 rounds (Salmon et al. 2011): four random words from a counter and a key.
__device__ void philox(unsigned* c, unsigned k0, unsigned k1) {
  for (int round = 0; round < 10; ++round) {
    unsigned long long a = c[0] * 0xD2511F53ull, b = c[2] * 0xCD9E8D57ull;
    unsigned c1 = c[1], c3 = c[3];
    c[0] = (unsigned)(b >> 32) ^ c1 ^ k0;
    c[1] = (unsigned)b;
    c[2] = (unsigned)(a >> 32) ^ c3 ^ k1;
    c[3] = (unsigned)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
