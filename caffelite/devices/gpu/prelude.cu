// What every kernel may use. Before this text stand the typedefs `real` (float or double) and `idx` (int, or long long for huge arrays).
#define KERNEL extern "C" __global__ void
#define EACH(i, n) for (idx i = blockIdx.x * (idx)blockDim.x + threadIdx.x, i##_step = gridDim.x * (idx)blockDim.x; i < (n); i += i##_step)
typedef unsigned char byte;

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

// A team is one thread, or a warp where the reduced axis is contiguous (P = 1).
#define EACH_TEAM(s, count)                                                                              \
  for (idx s = (blockIdx.x * (idx)blockDim.x + threadIdx.x) / team, lane = threadIdx.x % team,           \
           s##_step = gridDim.x * (idx)blockDim.x / team; s < (count); s += s##_step)

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
