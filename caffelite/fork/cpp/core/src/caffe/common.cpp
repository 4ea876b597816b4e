#include "caffe/common.hpp"

#include "caffe/util/rng.hpp"

namespace caffe {

static rng_t generator;

Caffe& Caffe::Get() {
  static Caffe instance;
  return instance;
}
void Caffe::set_random_seed(unsigned seed) { generator.seed(seed); }
void* Caffe::RNG::generator() { return &caffe::generator; }

}  // namespace caffe
