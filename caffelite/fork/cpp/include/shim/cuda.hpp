// Names of CUDA on a processor: memory of the device is memory, a kernel is a function of its block and thread.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

#include "shim/cblas.hpp"

#define CUDA_VERSION 8000
#define CUDART_VERSION 8000
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
  unsigned x, y, z;
};
#define FORK_VECTORS(T, name)           \
  struct name##1 { T x; };              \
  struct name##2 { T x, y; };           \
  struct name##3 { T x, y, z; };        \
  struct name##4 { T x, y, z, w; };     \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FORK_VECTORS(char, char)
FORK_VECTORS(unsigned char, uchar)
FORK_VECTORS(short, short)
FORK_VECTORS(int, int)
FORK_VECTORS(long, long)
FORK_VECTORS(unsigned long, ulong)
FORK_VECTORS(float, float)
FORK_VECTORS(double, double)

// Where in the grid the function that stands for a thread is.
inline thread_local dim3 gridDim, blockDim;
inline thread_local uint3 blockIdx, threadIdx;
enum { warpSize = 32 };

namespace shim {
// Calls a kernel for every thread of every block, in order.
template <typename Kernel, typename... A>
void launch(const dim3& grid, const dim3& block, Kernel kernel, A... arguments) {
  gridDim = grid, blockDim = block;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) kernel(arguments...);
}
}  // namespace shim

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
typedef cudaError_t cudaError;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault };
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
struct cudaDeviceProp {
  char name[256];
  int major, minor, warpSize, maxThreadsPerBlock, clockRate, multiProcessorCount, regsPerBlock, deviceOverlap;
  int kernelExecTimeoutEnabled, maxThreadsDim[3], maxGridSize[3];
  size_t totalGlobalMem, sharedMemPerBlock, memPitch, totalConstMem, textureAlignment;
};
struct cudaPointerAttributes {
  int device;
};
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaSuccess; }
template <typename T>
cudaError_t cudaMalloc(T** pointer, size_t size) { return *pointer = static_cast<T*>(std::malloc(size)), cudaSuccess; }
template <typename T>
cudaError_t cudaMallocHost(T** pointer, size_t size) { return cudaMalloc(pointer, size); }
inline cudaError_t cudaFree(void* pointer) { return std::free(pointer), cudaSuccess; }
inline cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }
inline cudaError_t cudaMemset(void* to, int value, size_t size) { return std::memset(to, value, size), cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return std::memmove(to, from, size), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t = 0) {
  return cudaMemcpy(to, from, size, kind);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t = 0) { return cudaMemset(to, value, size); }
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                size_t height, cudaMemcpyKind kind) {
  for (size_t y = 0; y < height; ++y)
    cudaMemcpy(static_cast<char*>(to) + y * to_pitch, static_cast<const char*>(from) + y * from_pitch, width, kind);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = 0, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, int) { return *stream = 0, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = 0) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) { return *time = 0, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  return std::memset(properties, 0, sizeof(*properties)), cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  return attributes->device = 0, cudaSuccess;
}
enum { cudaStreamNonBlocking = 1, cudaStreamDefault = 0 };

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED,
  CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_MAPPING_ERROR,
  CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_NOT_SUPPORTED,
  CUBLAS_STATUS_LICENSE_ERROR };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
typedef struct cublasContext* cublasHandle_t;
inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return *handle = reinterpret_cast<cublasHandle_t>(1), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetStream(cublasHandle_t, cudaStream_t* stream) { return *stream = 0, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetPointerMode(cublasHandle_t, cublasPointerMode_t* mode) {
  return *mode = CUBLAS_POINTER_MODE_HOST, CUBLAS_STATUS_SUCCESS;
}
inline CBLAS_TRANSPOSE fork_transpose(cublasOperation_t o) { return o == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; }
// cuBLAS is column-major: the product of the transposes, in the other order.
#define FORK_CUBLAS(T, P, p)                                                                                           \
  inline cublasStatus_t cublas##P##gemm(cublasHandle_t, cublasOperation_t a, cublasOperation_t b, int m, int n, int k, \
                                        const T* alpha, const T* A, int lda, const T* B, int ldb, const T* beta, T* C, \
                                        int ldc) {                                                                     \
    cblas_##p##gemm(CblasRowMajor, fork_transpose(b), fork_transpose(a), n, m, k, *alpha, B, ldb, A, lda, *beta, C,    \
                    ldc);                                                                                              \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##gemmBatched(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m, int n, \
                                               int k, const T* alpha, const T** A, int lda, const T** B, int ldb,      \
                                               const T* beta, T** C, int ldc, int count) {                             \
    for (int i = 0; i < count; ++i) cublas##P##gemm(h, a, b, m, n, k, alpha, A[i], lda, B[i], ldb, beta, C[i], ldc);   \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##geam(cublasHandle_t, cublasOperation_t a, cublasOperation_t b, int m, int n,        \
                                        const T* alpha, const T* A, int lda, const T* beta, const T* B, int ldb, T* C, \
                                        int ldc) {                                                                     \
    for (int j = 0; j < n; ++j)                                                                                        \
      for (int i = 0; i < m; ++i)                                                                                      \
        C[j * ldc + i] = (*alpha ? *alpha * (a == CUBLAS_OP_N ? A[j * lda + i] : A[i * lda + j]) : 0) +                \
                         (*beta ? *beta * (b == CUBLAS_OP_N ? B[j * ldb + i] : B[i * ldb + j]) : 0);                   \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##gemv(cublasHandle_t, cublasOperation_t a, int m, int n, const T* alpha, const T* A, \
                                        int lda, const T* x, int incx, const T* beta, T* y, int incy) {                \
    cblas_##p##gemv(CblasRowMajor, a == CUBLAS_OP_N ? CblasTrans : CblasNoTrans, n, m, *alpha, A, lda, x, incx, *beta, \
                    y, incy);                                                                                          \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##axpy(cublasHandle_t, int n, const T* alpha, const T* x, int i, T* y, int j) {       \
    return cblas_##p##axpy(n, *alpha, x, i, y, j), CUBLAS_STATUS_SUCCESS;                                              \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##scal(cublasHandle_t, int n, const T* alpha, T* x, int i) {                          \
    return cblas_##p##scal(n, *alpha, x, i), CUBLAS_STATUS_SUCCESS;                                                    \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##copy(cublasHandle_t, int n, const T* x, int i, T* y, int j) {                       \
    return cblas_##p##copy(n, x, i, y, j), CUBLAS_STATUS_SUCCESS;                                                      \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##dot(cublasHandle_t, int n, const T* x, int i, const T* y, int j, T* result) {       \
    return *result = cblas_##p##dot(n, x, i, y, j), CUBLAS_STATUS_SUCCESS;                                             \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##asum(cublasHandle_t, int n, const T* x, int i, T* result) {                         \
    return *result = cblas_##p##asum(n, x, i), CUBLAS_STATUS_SUCCESS;                                                  \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##nrm2(cublasHandle_t, int n, const T* x, int i, T* result) {                         \
    return *result = cblas_##p##nrm2(n, x, i), CUBLAS_STATUS_SUCCESS;                                                  \
  }
FORK_CUBLAS(float, S, s)
FORK_CUBLAS(double, D, d)

// cuFFT by name alone: headers mention its plans
enum cufftResult { CUFFT_SUCCESS, CUFFT_INVALID_PLAN };
enum cufftType { CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29 };
enum { CUFFT_FORWARD = -1, CUFFT_INVERSE = 1 };
typedef int cufftHandle;
typedef float cufftReal;
typedef float2 cuComplex, cufftComplex;
typedef double2 cuDoubleComplex, cufftDoubleComplex;

// cuSPARSE: handles and descriptions of matrices; what computes with them compiles for a GPU alone
enum cusparseStatus_t { CUSPARSE_STATUS_SUCCESS, CUSPARSE_STATUS_NOT_INITIALIZED, CUSPARSE_STATUS_ALLOC_FAILED,
  CUSPARSE_STATUS_INVALID_VALUE, CUSPARSE_STATUS_ARCH_MISMATCH, CUSPARSE_STATUS_MAPPING_ERROR,
  CUSPARSE_STATUS_EXECUTION_FAILED, CUSPARSE_STATUS_INTERNAL_ERROR, CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED,
  CUSPARSE_STATUS_ZERO_PIVOT };
enum cusparseMatrixType_t { CUSPARSE_MATRIX_TYPE_GENERAL };
enum cusparseIndexBase_t { CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_INDEX_BASE_ONE };
typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusparseMatDescr* cusparseMatDescr_t;
inline cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
  return *handle = reinterpret_cast<cusparseHandle_t>(1), CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroy(cusparseHandle_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetStream(cusparseHandle_t, cudaStream_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t* matrix) {
  return *matrix = reinterpret_cast<cusparseMatDescr_t>(1), CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t, cusparseMatrixType_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t, cusparseIndexBase_t) {
  return CUSPARSE_STATUS_SUCCESS;
}

enum curandStatus_t { CURAND_STATUS_SUCCESS, CURAND_STATUS_VERSION_MISMATCH, CURAND_STATUS_NOT_INITIALIZED,
  CURAND_STATUS_ALLOCATION_FAILED, CURAND_STATUS_TYPE_ERROR, CURAND_STATUS_OUT_OF_RANGE,
  CURAND_STATUS_LENGTH_NOT_MULTIPLE, CURAND_STATUS_DOUBLE_PRECISION_REQUIRED, CURAND_STATUS_LAUNCH_FAILURE,
  CURAND_STATUS_PREEXISTING_FAILURE, CURAND_STATUS_INITIALIZATION_FAILED, CURAND_STATUS_ARCH_MISMATCH,
  CURAND_STATUS_INTERNAL_ERROR };
enum curandRngType_t { CURAND_RNG_PSEUDO_DEFAULT };
typedef struct curandGenerator_st* curandGenerator_t;
inline curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t) {
  return *generator = reinterpret_cast<curandGenerator_t>(1), CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandDestroyGenerator(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }
inline std::mt19937& fork_curand() {  // one generator, seeded before each forward pass
  static std::mt19937 generator;
  return generator;
}
inline curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t, unsigned long long seed) {
  return fork_curand().seed(static_cast<unsigned>(seed)), CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandGenerate(curandGenerator_t, unsigned* to, size_t count) {
  return std::generate_n(to, count, fork_curand()), CURAND_STATUS_SUCCESS;
}
#define FORK_CURAND(T, suffix)                                                                             \
  inline curandStatus_t curandGenerateUniform##suffix(curandGenerator_t, T* to, size_t count) {            \
    std::uniform_real_distribution<T> draw(0, 1); /* curand's intervals have the other end */             \
    std::generate_n(to, count, [&] { return T(1) - draw(fork_curand()); });                                \
    return CURAND_STATUS_SUCCESS;                                                                          \
  }                                                                                                        \
  inline curandStatus_t curandGenerateNormal##suffix(curandGenerator_t, T* to, size_t count, T mean, T deviation) { \
    std::normal_distribution<T> draw(mean, deviation);                                                     \
    std::generate_n(to, count, [&] { return draw(fork_curand()); });                                       \
    return CURAND_STATUS_SUCCESS;                                                                          \
  }
FORK_CURAND(float, )
FORK_CURAND(double, Double)
inline curandStatus_t curandSetGeneratorOffset(curandGenerator_t, unsigned long long) { return CURAND_STATUS_SUCCESS; }

template <typename T, typename V>
T atomicAdd(T* address, V value) {
  const T old = *address;
  *address += static_cast<T>(value);
  return old;
}
template <typename T>
T atomicMax(T* address, T value) {
  const T old = *address;
  *address = std::max(old, value);
  return old;
}
template <typename T>
T atomicMin(T* address, T value) {
  const T old = *address;
  *address = std::min(old, value);
  return old;
}
template <typename T, typename C, typename V>
T atomicCAS(T* address, C compare, V value) {
  const T old = *address;
  if (old == static_cast<T>(compare)) *address = static_cast<T>(value);
  return old;
}
template <typename To, typename From>
To fork_bits(From value) {
  To result;
  return std::memcpy(&result, &value, sizeof(result)), result;
}
inline double __longlong_as_double(long long x) { return fork_bits<double>(x); }
inline long long __double_as_longlong(double x) { return fork_bits<long long>(x); }
inline float __int_as_float(int x) { return fork_bits<float>(x); }
inline int __float_as_int(float x) { return fork_bits<int>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
template <typename T>
T __ldg(const T* pointer) { return *pointer; }
