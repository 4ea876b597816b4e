// The first text of every kernel: numbers of 16 bits, which are float wherever something is computed. Rounded to nearest, ties to even.
typedef unsigned char byte;

struct fp16 {
  unsigned short bits;
  fp16() = default;
  __device__ fp16(float v) {
#ifdef __CUDACC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
#else
    bits = host::half_bits(v);
#endif
  }
  __device__ operator float() const {
#ifdef __CUDACC__
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
#else
    return host::half_value(bits);
#endif
  }
};

struct bf16 {
  unsigned short bits;
  bf16() = default;
  __device__ bf16(float v) {
#ifdef __CUDACC__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
#else
    bits = host::bfloat_bits(v);
#endif
  }
  __device__ operator float() const {
#ifdef __CUDACC__
    return __uint_as_float((unsigned)bits << 16);
#else
    return host::bfloat_value(bits);
#endif
  }
};
