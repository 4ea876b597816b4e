// CUDA C++ for a host compiler: a launch runs block after block, a block's threads one after the other, or, in kernels that wait for
// each other, as fibers that are switched at barriers and shuffles. First to last or last to first: where that makes a difference, threads
// race. With HOST_THREADS a CUDA thread is a thread of the host, and up to BLOCKS blocks run at the same time: a race detector sees all.
#pragma once
#ifdef HOST_THREADS
#include <pthread.h>

#include <vector>
#else
#include <ucontext.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#define __global__
#define __device__ inline
#define __shared__ static
#define __launch_bounds__(...)
struct dim3 { unsigned x, y, z; };
#ifdef HOST_THREADS
#define PER_THREAD thread_local
#else
#define PER_THREAD
#endif
static PER_THREAD dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
using std::exp; using std::fabs; using std::log; using std::log1p; using std::pow; using std::sqrt; using std::tanh;

static void __threadfence() {}
template <class T> static T atomicAdd(T* at, T v) { return __atomic_fetch_add(at, v, __ATOMIC_ACQ_REL); }
template <class T> static T atomicExch(T* at, T v) { return __atomic_exchange_n(at, v, __ATOMIC_ACQ_REL); }
template <class T> static T atomicMin(T* at, T v) {
  T old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
  while (v < old && !__atomic_compare_exchange_n(at, &old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
  return old;
}

namespace host {
template <class To, class From> static To bits_as(From v) {
  static_assert(sizeof(To) == sizeof v, "");
  To to;
  std::memcpy(&to, &v, sizeof v);
  return to;
}
// The nearest of those with `lost` bits fewer, the even one of two as near.
static uint32_t rounded(uint32_t v, int lost) { return (v + (1u << (lost - 1)) - 1 + (v >> lost & 1)) >> lost; }
static unsigned short bfloat_bits(float v) {
  uint32_t bits = bits_as<uint32_t>(v);
  return v != v ? bits >> 16 | 0x40 : rounded(bits, 16);
}
static float bfloat_value(unsigned short bits) { return bits_as<float>((uint32_t)bits << 16); }
static unsigned short half_bits(float v) {
  uint32_t bits = bits_as<uint32_t>(v), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  if (v != v) return sign | 0x7E00;
  if (size >= 0x47800000) return sign | 0x7C00;  // 2^16 and more
  if (size >= 0x38800000) return sign | rounded(size - 0x38000000, 13);  // rounds up to infinity too
  return sign | (uint32_t)std::nearbyint(std::ldexp(std::fabs(v), 24));  // multiples of 2^-24
}
static float half_value(unsigned short bits) {
  uint32_t exponent = bits >> 10 & 31, part = bits & 1023;
  float size = exponent == 31 ? bits_as<float>(0x7F800000u | part << 13) : exponent ? std::ldexp(1024.f + part, (int)exponent - 25) : std::ldexp((float)part, -24);
  return bits & 0x8000 ? -size : size;
}
const unsigned MOST = 1024;
template <class... A, size_t... I> static void call(void (*kernel)(A...), void** a, std::index_sequence<I...>) { kernel(*(A*)a[I]...); }
static void (*body)(void*);
static void* argument;

#ifdef HOST_THREADS
const unsigned BLOCKS = 3;
static pthread_barrier_t barriers[BLOCKS][1 + MOST / 32];  // of a block, and of its warps
static uint64_t lanes[BLOCKS][MOST];
static unsigned slot() { return blockIdx.x % BLOCKS; }
static void wait_block() { pthread_barrier_wait(&barriers[slot()][0]); }
static void wait_warp() { pthread_barrier_wait(&barriers[slot()][1 + threadIdx.x / 32]); }
static unsigned lane() { return threadIdx.x; }
static uint64_t* lanes_here() { return lanes[slot()]; }
static void* entry(void* which) {
  blockIdx = {unsigned((size_t)which / MOST), 0, 0};
  threadIdx = {unsigned((size_t)which % MOST), 0, 0};
  body(argument);
  return nullptr;
}
template <class... A> static void launch(void (*kernel)(A...), const unsigned* threads, void** a) {
  gridDim = {threads[0], 1, 1};
  blockDim = {threads[1], 1, 1};
  auto one = [&] { call(kernel, a, std::index_sequence_for<A...>{}); };
  body = [](void* f) { (*(decltype(one)*)f)(); };
  argument = &one;
  for (auto& block : barriers) {
    pthread_barrier_init(&block[0], nullptr, blockDim.x);
    for (unsigned warp = 0; warp < (blockDim.x + 31) / 32; ++warp) pthread_barrier_init(&block[1 + warp], nullptr, std::min(32u, blockDim.x));
  }
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 17);
  for (unsigned first = 0; first < gridDim.x; first += BLOCKS) {
    std::vector<pthread_t> made;
    for (size_t block = first; block < std::min(first + BLOCKS, gridDim.x); ++block)
      for (size_t thread = 0; thread < blockDim.x; ++thread) {
        made.emplace_back();
        if (pthread_create(&made.back(), &small, entry, (void*)(block * MOST + thread))) std::abort();
      }
    for (pthread_t thread : made) pthread_join(thread, nullptr);
  }
}
#else
enum State { READY, AT_BLOCK, AT_WARP, DONE };
struct Fiber { ucontext_t context; State state; };
const unsigned STACK = 32768;
static Fiber fibers[MOST];
static char* stacks;
static ucontext_t scheduler;
static unsigned current;
static bool backwards;
static unsigned turn(unsigned i, unsigned n) { return backwards ? n - 1 - i : i; }
static uint64_t lanes[MOST];

static void wait_as(State state) {
  fibers[current].state = state;
  swapcontext(&fibers[current].context, &scheduler);
}
static void entry() {
  body(argument);
  wait_as(DONE);
}
// Lets fibers lo .. hi go on where every one that still runs waits for the others in the same way.
static bool release(unsigned lo, unsigned hi, State state) {
  bool any = false;
  for (unsigned i = lo; i < hi; ++i) {
    if (fibers[i].state == DONE) continue;
    if (fibers[i].state != state) return false;
    any = true;
  }
  for (unsigned i = lo; any && i < hi; ++i)
    if (fibers[i].state != DONE) fibers[i].state = READY;
  return any;
}
static void run_fibers() {
  unsigned n = blockDim.x;
  if (n > MOST || n % 32) { std::fprintf(stderr, "host: a block of %u threads\n", n); std::abort(); }
  if (!stacks) stacks = (char*)std::malloc((size_t)MOST * STACK);
  for (unsigned i = 0; i < n; ++i) {
    Fiber& f = fibers[i];
    f.state = READY;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, entry, 0);
  }
  for (;;) {  // each warp as far ahead of the others as barriers let it go
    for (unsigned w = 0; w < n; w += 32) {
      const unsigned warp = turn(w / 32, n / 32) * 32;
      do {
        for (unsigned i = 0; i < 32; ++i) {
          current = warp + turn(i, 32);
          if (fibers[current].state != READY) continue;
          threadIdx.x = current;
          swapcontext(&scheduler, &fibers[current].context);
        }
      } while (release(warp, warp + 32, AT_WARP));
    }
    bool left = false;
    for (unsigned i = 0; i < n; ++i) left |= fibers[i].state != DONE;
    if (!left) return;
    if (!release(0, n, AT_BLOCK)) { std::fprintf(stderr, "host: threads of block %u wait for each other in different places\n", blockIdx.x); std::abort(); }
  }
}
static void wait_block() { wait_as(AT_BLOCK); }
static void wait_warp() { wait_as(AT_WARP); }
static unsigned lane() { return current; }
static uint64_t* lanes_here() { return lanes; }
// threads: blocks (x), threads of a block (x), whether they are fibers, and whether they run from the last to the first.
template <class... A> static void launch(void (*kernel)(A...), const unsigned* threads, void** a) {
  gridDim = {threads[0], 1, 1};
  blockDim = {threads[1], 1, 1};
  auto one = [&] { call(kernel, a, std::index_sequence_for<A...>{}); };
  body = [](void* f) { (*(decltype(one)*)f)(); };
  argument = &one;
  backwards = threads[3];
  for (unsigned i = 0; i < gridDim.x; ++i) {
    blockIdx.x = turn(i, gridDim.x);
    if (threads[2]) run_fibers();
    else
      for (unsigned j = 0; j < blockDim.x; ++j) {
        threadIdx.x = turn(j, blockDim.x);
        one();
      }
  }
}
#endif
template <class T> static T exchange(T v, unsigned source) {
  std::memcpy(lanes_here() + lane(), &v, sizeof v);
  wait_warp();
  T other;
  std::memcpy(&other, lanes_here() + source, sizeof other);
  wait_warp();
  return other;
}
}  // namespace host

static void __syncthreads() { host::wait_block(); }
static int __syncthreads_or(int v) {
  host::lanes_here()[host::lane()] = v != 0;
  host::wait_block();
  int any = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) any |= (int)host::lanes_here()[i];
  host::wait_block();
  return any;
}
template <class T> static T __shfl_down_sync(unsigned, T v, int d) {
  unsigned c = host::lane();
  return host::exchange(v, (c & 31) + d < 32 ? c + d : c);
}
template <class T> static T __shfl_xor_sync(unsigned, T v, int mask) { return host::exchange(v, host::lane() ^ mask); }
#define HOST_EXPORT(kernel) \
  extern "C" __attribute__((visibility("default"))) void kernel##_on_host(const unsigned* threads, void** a) { host::launch(kernel, threads, a); }
