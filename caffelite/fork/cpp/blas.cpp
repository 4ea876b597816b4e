// CBLAS over Fortran's BLAS: a row-major matrix is the transpose of a column-major one.
#include "shim/cblas.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace {

struct Function {
  const char* name;
  void* address;
};
Function functions[] = {{"sgemm", 0}, {"dgemm", 0}, {"sgemv", 0}, {"dgemv", 0}, {"sger", 0}, {"dger", 0}, {"ssymm", 0},
                        {"dsymm", 0}, {"ssyrk", 0}, {"dsyrk", 0}, {"sdot", 0},  {"ddot", 0}};

void* address(const char* name) {
  for (const Function& each : functions)
    if (!std::strcmp(each.name, name) && each.address) return each.address;
  throw std::runtime_error(std::string("BLAS has no ") + name);
}

void row_major(CBLAS_ORDER order) {
  if (order != CblasRowMajor) throw std::runtime_error("matrices in the order of columns are not supported");
}

}  // namespace

extern "C" void fork_blas(const char* name, void* function) {
  for (Function& each : functions)
    if (!std::strcmp(each.name, name)) each.address = function;
}

#define FORK_DEFINE(T, p)                                                                                            \
  extern "C" void cblas_##p##gemm(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int M, int N, int K,    \
                                  T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {        \
    typedef void (*F)(const char*, const char*, int*, int*, int*, T*, const T*, int*, const T*, int*, T*, T*, int*); \
    static F f = reinterpret_cast<F>(address(#p "gemm"));                                                            \
    char a = ta == CblasNoTrans ? 'N' : 'T', b = tb == CblasNoTrans ? 'N' : 'T';                                     \
    if (order == CblasRowMajor) f(&b, &a, &N, &M, &K, &alpha, B, &ldb, A, &lda, &beta, C, &ldc);                     \
    else f(&a, &b, &M, &N, &K, &alpha, A, &lda, B, &ldb, &beta, C, &ldc);                                            \
  }                                                                                                                  \
  extern "C" void cblas_##p##gemv(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, int M, int N, T alpha, const T* A, int lda, \
                                  const T* x, int incx, T beta, T* y, int incy) {                                    \
    typedef void (*F)(const char*, int*, int*, T*, const T*, int*, const T*, int*, T*, T*, int*);                    \
    static F f = reinterpret_cast<F>(address(#p "gemv"));                                                            \
    const bool row = order == CblasRowMajor;                                                                         \
    char a = (ta == CblasNoTrans) == row ? 'T' : 'N';                                                                \
    f(&a, row ? &N : &M, row ? &M : &N, &alpha, A, &lda, x, &incx, &beta, y, &incy);                                 \
  }                                                                                                                  \
  extern "C" void cblas_##p##ger(CBLAS_ORDER order, int M, int N, T alpha, const T* x, int incx, const T* y,         \
                                 int incy, T* A, int lda) {                                                          \
    typedef void (*F)(int*, int*, T*, const T*, int*, const T*, int*, T*, int*);                                     \
    static F f = reinterpret_cast<F>(address(#p "ger"));                                                             \
    row_major(order);                                                                                                \
    f(&N, &M, &alpha, y, &incy, x, &incx, A, &lda);                                                                  \
  }                                                                                                                  \
  extern "C" void cblas_##p##symm(CBLAS_ORDER order, CBLAS_SIDE side, CBLAS_UPLO uplo, int M, int N, T alpha,        \
                                  const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {                 \
    typedef void (*F)(const char*, const char*, int*, int*, T*, const T*, int*, const T*, int*, T*, T*, int*);       \
    static F f = reinterpret_cast<F>(address(#p "symm"));                                                            \
    row_major(order);                                                                                                \
    char s = side == CblasLeft ? 'R' : 'L', u = uplo == CblasUpper ? 'L' : 'U';                                      \
    f(&s, &u, &N, &M, &alpha, A, &lda, B, &ldb, &beta, C, &ldc);                                                     \
  }                                                                                                                  \
  extern "C" void cblas_##p##syrk(CBLAS_ORDER order, CBLAS_UPLO uplo, CBLAS_TRANSPOSE ta, int N, int K, T alpha,     \
                                  const T* A, int lda, T beta, T* C, int ldc) {                                      \
    typedef void (*F)(const char*, const char*, int*, int*, T*, const T*, int*, T*, T*, int*);                       \
    static F f = reinterpret_cast<F>(address(#p "syrk"));                                                            \
    row_major(order);                                                                                                \
    char u = uplo == CblasUpper ? 'L' : 'U', a = ta == CblasNoTrans ? 'T' : 'N';                                     \
    f(&u, &a, &N, &K, &alpha, A, &lda, &beta, C, &ldc);                                                              \
  }                                                                                                                  \
  extern "C" T cblas_##p##dot(int n, const T* x, int incx, const T* y, int incy) {                                   \
    typedef T (*F)(int*, const T*, int*, const T*, int*);                                                            \
    static F f = reinterpret_cast<F>(address(#p "dot"));                                                             \
    return f(&n, x, &incx, y, &incy);                                                                                \
  }                                                                                                                  \
  extern "C" void cblas_##p##axpy(int n, T alpha, const T* x, int incx, T* y, int incy) {                            \
    for (int i = 0; i < n; ++i) y[i * incy] += alpha * x[i * incx];                                                  \
  }                                                                                                                  \
  extern "C" void cblas_##p##scal(int n, T alpha, T* x, int incx) {                                                  \
    for (int i = 0; i < n; ++i) x[i * incx] *= alpha;                                                                \
  }                                                                                                                  \
  extern "C" void cblas_##p##copy(int n, const T* x, int incx, T* y, int incy) {                                     \
    for (int i = 0; i < n; ++i) y[i * incy] = x[i * incx];                                                           \
  }                                                                                                                  \
  extern "C" void cblas_##p##swap(int n, T* x, int incx, T* y, int incy) {                                           \
    for (int i = 0; i < n; ++i) std::swap(x[i * incx], y[i * incy]);                                                 \
  }                                                                                                                  \
  extern "C" T cblas_##p##asum(int n, const T* x, int incx) {                                                        \
    T sum = 0;                                                                                                       \
    for (int i = 0; i < n; ++i) sum += std::fabs(x[i * incx]);                                                       \
    return sum;                                                                                                      \
  }                                                                                                                  \
  extern "C" T cblas_##p##nrm2(int n, const T* x, int incx) {                                                        \
    double sum = 0;                                                                                                  \
    for (int i = 0; i < n; ++i) sum += double(x[i * incx]) * x[i * incx];                                            \
    return T(std::sqrt(sum));                                                                                        \
  }                                                                                                                  \
  extern "C" int cblas_i##p##amax(int n, const T* x, int incx) {                                                     \
    int best = 0;                                                                                                    \
    for (int i = 1; i < n; ++i)                                                                                      \
      if (std::fabs(x[i * incx]) > std::fabs(x[best * incx])) best = i;                                              \
    return best;                                                                                                     \
  }

FORK_DEFINE(float, s)
FORK_DEFINE(double, d)
