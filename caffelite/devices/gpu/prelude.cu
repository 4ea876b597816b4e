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
