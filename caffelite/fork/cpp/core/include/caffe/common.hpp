// For folders of layers without the rest of Caffe: the classes and functions that layers build on, with Caffe's names.
#pragma once
#include <climits>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/shared_ptr.hpp>
#include <gflags/gflags.h>
#include <glog/logging.h>

#include "caffe/util/device_alternate.hpp"

#define STRINGIFY(m) #m
#define AS_STRING(m) STRINGIFY(m)
#define DISABLE_COPY_AND_ASSIGN(name) \
 private:                             \
  name(const name&);                  \
  name& operator=(const name&)
#define INSTANTIATE_CLASS(name)  \
  char gInstantiationGuard##name; \
  template class name<float>;    \
  template class name<double>
#define INSTANTIATE_LAYER_GPU_FORWARD(name)                                                     \
  template void name<float>::Forward_gpu(const std::vector<Blob<float>*>& bottom,               \
                                         const std::vector<Blob<float>*>& top);                 \
  template void name<double>::Forward_gpu(const std::vector<Blob<double>*>& bottom,             \
                                          const std::vector<Blob<double>*>& top);
#define INSTANTIATE_LAYER_GPU_BACKWARD(name)                                                                 \
  template void name<float>::Backward_gpu(const std::vector<Blob<float>*>& top, const std::vector<bool>& d,  \
                                          const std::vector<Blob<float>*>& bottom);                          \
  template void name<double>::Backward_gpu(const std::vector<Blob<double>*>& top, const std::vector<bool>& d, \
                                           const std::vector<Blob<double>*>& bottom)
#define INSTANTIATE_LAYER_GPU_FUNCS(name) \
  INSTANTIATE_LAYER_GPU_FORWARD(name);    \
  INSTANTIATE_LAYER_GPU_BACKWARD(name)
#define NOT_IMPLEMENTED LOG(FATAL) << "Not Implemented Yet"

namespace caffe {

using boost::make_shared;
using boost::shared_ptr;
using std::fstream;
using std::ios;
using std::isinf;
using std::isnan;
using std::iterator;
using std::make_pair;
using std::map;
using std::ostringstream;
using std::pair;
using std::set;
using std::string;
using std::stringstream;
using std::vector;

// The generator of random numbers and the mode of this process.
class Caffe {
 public:
  enum Brew { CPU, GPU };
  class RNG {
   public:
    void* generator();
  };
  static Caffe& Get();
  static RNG& rng_stream() { return Get().rng_; }
  static Brew mode() { return Get().mode_; }
  static void set_mode(Brew mode) { Get().mode_ = mode; }
  static void set_random_seed(unsigned seed);
  static cublasHandle_t cublas_handle() { return nullptr; }
  static curandGenerator_t curand_generator() { return nullptr; }
  static bool root_solver() { return true; }
  static int solver_count() { return 1; }
  static int solver_rank() { return 0; }
  static bool multiprocess() { return false; }

 private:
  Brew mode_ = CPU;
  RNG rng_;
};

}  // namespace caffe
