#pragma once
#include <algorithm>
#include <boost/random.hpp>

#include "caffe/common.hpp"

namespace caffe {

typedef boost::mt19937 rng_t;
inline rng_t* caffe_rng() { return static_cast<rng_t*>(Caffe::rng_stream().generator()); }
inline unsigned caffe_rng_rand() { return (*caffe_rng())(); }
template <typename Iterator, typename Generator>
void shuffle(Iterator begin, Iterator end, Generator* generator) { std::shuffle(begin, end, *generator); }
template <typename Iterator>
void shuffle(Iterator begin, Iterator end) { shuffle(begin, end, caffe_rng()); }

}  // namespace caffe
