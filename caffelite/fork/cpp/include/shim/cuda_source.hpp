// What a source in CUDA has without including it: CUDA's functions of mixed arguments.
#pragma once
#include <type_traits>

template <typename A, typename B>
typename std::common_type<A, B>::type max(A a, B b) { return a < b ? b : a; }
template <typename A, typename B>
typename std::common_type<A, B>::type min(A a, B b) { return b < a ? b : a; }
