// The functions of CBLAS that Caffe's sources use, over the Fortran functions of the BLAS that SciPy has.
#pragma once

enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112, CblasConjTrans = 113 };
enum CBLAS_UPLO { CblasUpper = 121, CblasLower = 122 };
enum CBLAS_DIAG { CblasNonUnit = 131, CblasUnit = 132 };
enum CBLAS_SIDE { CblasLeft = 141, CblasRight = 142 };

#define FORK_CBLAS(T, p)                                                                                          \
  void cblas_##p##gemm(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, int M, int N, int K, T alpha, const T* A,   \
                       int lda, const T* B, int ldb, T beta, T* C, int ldc);                                      \
  void cblas_##p##gemv(CBLAS_ORDER, CBLAS_TRANSPOSE, int M, int N, T alpha, const T* A, int lda, const T* x,      \
                       int incx, T beta, T* y, int incy);                                                         \
  void cblas_##p##ger(CBLAS_ORDER, int M, int N, T alpha, const T* x, int incx, const T* y, int incy, T* A,       \
                      int lda);                                                                                   \
  void cblas_##p##symm(CBLAS_ORDER, CBLAS_SIDE, CBLAS_UPLO, int M, int N, T alpha, const T* A, int lda,           \
                       const T* B, int ldb, T beta, T* C, int ldc);                                               \
  void cblas_##p##syrk(CBLAS_ORDER, CBLAS_UPLO, CBLAS_TRANSPOSE, int N, int K, T alpha, const T* A, int lda,      \
                       T beta, T* C, int ldc);                                                                    \
  void cblas_##p##axpy(int n, T alpha, const T* x, int incx, T* y, int incy);                                     \
  void cblas_##p##scal(int n, T alpha, T* x, int incx);                                                           \
  void cblas_##p##copy(int n, const T* x, int incx, T* y, int incy);                                              \
  void cblas_##p##swap(int n, T* x, int incx, T* y, int incy);                                                    \
  T cblas_##p##dot(int n, const T* x, int incx, const T* y, int incy);                                            \
  T cblas_##p##asum(int n, const T* x, int incx);                                                                 \
  T cblas_##p##nrm2(int n, const T* x, int incx);                                                                 \
  int cblas_i##p##amax(int n, const T* x, int incx);

extern "C" {
FORK_CBLAS(float, s)
FORK_CBLAS(double, d)
}
