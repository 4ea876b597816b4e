// The part of Thrust that layers use, over memory of the processor.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace thrust {
template <typename T>
using device_vector = std::vector<T>;
template <typename T>
using host_vector = std::vector<T>;
template <typename T>
using device_ptr = T*;
template <typename T>
T* device_pointer_cast(T* pointer) { return pointer; }
template <typename T>
T* raw_pointer_cast(T* pointer) { return pointer; }
using std::plus;
using std::multiplies;
using std::less;
using std::greater;
template <typename T = void>
struct maximum {
  T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <typename T = void>
struct minimum {
  T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
using std::copy;
using std::fill;
using std::sort;
using std::transform;
template <typename I, typename T, typename F>
T reduce(I first, I last, T initial, F operation) { return std::accumulate(first, last, initial, operation); }
template <typename I, typename T>
T reduce(I first, I last, T initial) { return std::accumulate(first, last, initial); }
template <typename I>
auto reduce(I first, I last) { return std::accumulate(first, last, typename std::iterator_traits<I>::value_type()); }
template <typename I, typename J>
void sort_by_key(I first, I last, J values) {
  std::vector<std::pair<typename std::iterator_traits<I>::value_type, typename std::iterator_traits<J>::value_type>> pairs;
  for (I key = first; key != last; ++key) pairs.emplace_back(*key, values[key - first]);
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& pair : pairs) *first++ = pair.first, *values++ = pair.second;
}
}  // namespace thrust
