#pragma once
#include <cuda_runtime.h>
#define CUDA_CHECK(condition) CHECK_EQ(condition, cudaSuccess)
#define CUBLAS_CHECK(condition) CHECK_EQ(condition, CUBLAS_STATUS_SUCCESS)
#define CURAND_CHECK(condition) CHECK_EQ(condition, CURAND_STATUS_SUCCESS)
#define CUDA_KERNEL_LOOP(i, n) \
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define CUDA_POST_KERNEL_CHECK CUDA_CHECK(cudaPeekAtLastError())

namespace caffe {
const int CAFFE_CUDA_NUM_THREADS = 512;
inline int CAFFE_GET_BLOCKS(const int n) { return (n + CAFFE_CUDA_NUM_THREADS - 1) / CAFFE_CUDA_NUM_THREADS; }
}  // namespace caffe
