#pragma once
#include <cmath>
#include <cstring>

#include <cblas.h>

#include "caffe/common.hpp"
#include "caffe/util/rng.hpp"

namespace caffe {

inline void blas_gemm(CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, int M, int N, int K, float alpha, const float* A, int lda,
                      const float* B, int ldb, float beta, float* C) {
  cblas_sgemm(CblasRowMajor, a, b, M, N, K, alpha, A, lda, B, ldb, beta, C, N);
}
inline void blas_gemm(CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, int M, int N, int K, double alpha, const double* A, int lda,
                      const double* B, int ldb, double beta, double* C) {
  cblas_dgemm(CblasRowMajor, a, b, M, N, K, alpha, A, lda, B, ldb, beta, C, N);
}
inline void blas_gemv(CBLAS_TRANSPOSE a, int M, int N, float alpha, const float* A, const float* x, float beta, float* y) {
  cblas_sgemv(CblasRowMajor, a, M, N, alpha, A, N, x, 1, beta, y, 1);
}
inline void blas_gemv(CBLAS_TRANSPOSE a, int M, int N, double alpha, const double* A, const double* x, double beta,
                      double* y) {
  cblas_dgemv(CblasRowMajor, a, M, N, alpha, A, N, x, 1, beta, y, 1);
}
inline float blas_dot(int n, const float* x, int i, const float* y, int j) { return cblas_sdot(n, x, i, y, j); }
inline double blas_dot(int n, const double* x, int i, const double* y, int j) { return cblas_ddot(n, x, i, y, j); }

template <typename Dtype>
void caffe_cpu_gemm(CBLAS_TRANSPOSE TransA, CBLAS_TRANSPOSE TransB, int M, int N, int K, Dtype alpha, const Dtype* A,
                    const Dtype* B, Dtype beta, Dtype* C) {
  blas_gemm(TransA, TransB, M, N, K, alpha, A, TransA == CblasNoTrans ? K : M, B, TransB == CblasNoTrans ? N : K, beta, C);
}
template <typename Dtype>
void caffe_cpu_gemv(CBLAS_TRANSPOSE TransA, int M, int N, Dtype alpha, const Dtype* A, const Dtype* x, Dtype beta,
                    Dtype* y) {
  blas_gemv(TransA, M, N, alpha, A, x, beta, y);
}
template <typename Dtype>
Dtype caffe_cpu_dot(int n, const Dtype* x, const Dtype* y) { return blas_dot(n, x, 1, y, 1); }
template <typename Dtype>
Dtype caffe_cpu_strided_dot(int n, const Dtype* x, int incx, const Dtype* y, int incy) {
  return blas_dot(n, x, incx, y, incy);
}
template <typename Dtype>
Dtype caffe_cpu_asum(int n, const Dtype* x) {
  Dtype sum = 0;
  for (int i = 0; i < n; ++i) sum += std::abs(x[i]);
  return sum;
}
template <typename Dtype>
void caffe_axpy(int n, Dtype alpha, const Dtype* x, Dtype* y) {
  for (int i = 0; i < n; ++i) y[i] += alpha * x[i];
}
template <typename Dtype>
void caffe_cpu_axpby(int n, Dtype alpha, const Dtype* x, Dtype beta, Dtype* y) {
  for (int i = 0; i < n; ++i) y[i] = alpha * x[i] + beta * y[i];
}
template <typename Dtype>
void caffe_copy(int n, const Dtype* x, Dtype* y) { if (x != y) std::memmove(y, x, sizeof(Dtype) * n); }
template <typename Dtype>
void caffe_set(int n, Dtype alpha, Dtype* y) { std::fill_n(y, n, alpha); }
inline void caffe_memset(size_t n, int alpha, void* x) { std::memset(x, alpha, n); }
template <typename Dtype>
void caffe_scal(int n, Dtype alpha, Dtype* x) {
  for (int i = 0; i < n; ++i) x[i] *= alpha;
}
template <typename Dtype>
void caffe_cpu_scale(int n, Dtype alpha, const Dtype* x, Dtype* y) {
  for (int i = 0; i < n; ++i) y[i] = alpha * x[i];
}
template <typename Dtype>
void caffe_add_scalar(int n, Dtype alpha, Dtype* x) {
  for (int i = 0; i < n; ++i) x[i] += alpha;
}
#define FORK_BINARY(name, expression)                               \
  template <typename Dtype>                                         \
  void name(int n, const Dtype* a, const Dtype* b, Dtype* y) {      \
    for (int i = 0; i < n; ++i) y[i] = expression;                  \
  }
#define FORK_UNARY(name, expression)               \
  template <typename Dtype>                        \
  void name(int n, const Dtype* a, Dtype* y) {     \
    for (int i = 0; i < n; ++i) y[i] = expression; \
  }
FORK_BINARY(caffe_add, a[i] + b[i])
FORK_BINARY(caffe_sub, a[i] - b[i])
FORK_BINARY(caffe_mul, a[i] * b[i])
FORK_BINARY(caffe_div, a[i] / b[i])
FORK_UNARY(caffe_sqr, a[i] * a[i])
FORK_UNARY(caffe_sqrt, std::sqrt(a[i]))
FORK_UNARY(caffe_exp, std::exp(a[i]))
FORK_UNARY(caffe_log, std::log(a[i]))
FORK_UNARY(caffe_abs, std::abs(a[i]))
FORK_UNARY(caffe_cpu_sign, Dtype((a[i] > 0) - (a[i] < 0)))
FORK_UNARY(caffe_cpu_fabs, std::abs(a[i]))
template <typename Dtype>
void caffe_powx(int n, const Dtype* a, Dtype b, Dtype* y) {
  for (int i = 0; i < n; ++i) y[i] = std::pow(a[i], b);
}
template <typename Dtype>
int8_t caffe_sign(Dtype value) { return (value > 0) - (value < 0); }
template <typename Dtype>
void caffe_rng_uniform(int n, Dtype a, Dtype b, Dtype* r) {
  std::uniform_real_distribution<Dtype> distribution(a, b);
  for (int i = 0; i < n; ++i) r[i] = distribution(*caffe_rng());
}
template <typename Dtype>
void caffe_rng_gaussian(int n, Dtype mu, Dtype sigma, Dtype* r) {
  std::normal_distribution<Dtype> distribution(mu, sigma);
  for (int i = 0; i < n; ++i) r[i] = distribution(*caffe_rng());
}
template <typename Dtype, typename Result>
void caffe_rng_bernoulli(int n, Dtype p, Result* r) {
  std::bernoulli_distribution distribution(p);
  for (int i = 0; i < n; ++i) r[i] = distribution(*caffe_rng());
}

// The same on the memory of the device, which is that of the processor
template <typename Dtype>
void caffe_gpu_gemm(CBLAS_TRANSPOSE TransA, CBLAS_TRANSPOSE TransB, int M, int N, int K, Dtype alpha, const Dtype* A,
                    const Dtype* B, Dtype beta, Dtype* C) { caffe_cpu_gemm(TransA, TransB, M, N, K, alpha, A, B, beta, C); }
template <typename Dtype>
void caffe_gpu_gemv(CBLAS_TRANSPOSE TransA, int M, int N, Dtype alpha, const Dtype* A, const Dtype* x, Dtype beta,
                    Dtype* y) { caffe_cpu_gemv(TransA, M, N, alpha, A, x, beta, y); }
template <typename Dtype>
void caffe_gpu_axpy(int n, Dtype alpha, const Dtype* x, Dtype* y) { caffe_axpy(n, alpha, x, y); }
template <typename Dtype>
void caffe_gpu_axpby(int n, Dtype alpha, const Dtype* x, Dtype beta, Dtype* y) { caffe_cpu_axpby(n, alpha, x, beta, y); }
template <typename Dtype>
void caffe_gpu_set(int n, Dtype alpha, Dtype* y) { caffe_set(n, alpha, y); }
template <typename Dtype>
void caffe_gpu_scal(int n, Dtype alpha, Dtype* x) { caffe_scal(n, alpha, x); }
template <typename Dtype>
void caffe_gpu_scale(int n, Dtype alpha, const Dtype* x, Dtype* y) { caffe_cpu_scale(n, alpha, x, y); }
template <typename Dtype>
void caffe_gpu_add_scalar(int n, Dtype alpha, Dtype* x) { caffe_add_scalar(n, alpha, x); }
template <typename Dtype>
void caffe_gpu_dot(int n, const Dtype* x, const Dtype* y, Dtype* result) { *result = caffe_cpu_dot(n, x, y); }
template <typename Dtype>
void caffe_gpu_asum(int n, const Dtype* x, Dtype* result) { *result = caffe_cpu_asum(n, x); }
template <typename Dtype>
void caffe_gpu_powx(int n, const Dtype* a, Dtype b, Dtype* y) { caffe_powx(n, a, b, y); }
inline void caffe_gpu_memcpy(size_t n, const void* x, void* y) { std::memmove(y, x, n); }
inline void caffe_gpu_memset(size_t n, int alpha, void* x) { std::memset(x, alpha, n); }
FORK_BINARY(caffe_gpu_add, a[i] + b[i])
FORK_BINARY(caffe_gpu_sub, a[i] - b[i])
FORK_BINARY(caffe_gpu_mul, a[i] * b[i])
FORK_BINARY(caffe_gpu_div, a[i] / b[i])
FORK_UNARY(caffe_gpu_exp, std::exp(a[i]))
FORK_UNARY(caffe_gpu_log, std::log(a[i]))
FORK_UNARY(caffe_gpu_abs, std::abs(a[i]))
FORK_UNARY(caffe_gpu_sqrt, std::sqrt(a[i]))
FORK_UNARY(caffe_gpu_sign, Dtype((a[i] > 0) - (a[i] < 0)))

}  // namespace caffe
