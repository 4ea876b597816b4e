#ifndef CAFFE_COMMON_HPP_
#define CAFFE_COMMON_HPP_

#include <boost/shared_ptr.hpp>
#include <glog/logging.h>

#include <vector>

#define INSTANTIATE_CLASS(classname) \
  template class classname<float>;   \
  template class classname<double>

#define NOT_IMPLEMENTED LOG(FATAL) << "Not Implemented Yet"

namespace caffe {

using boost::shared_ptr;
using std::vector;

// The mode and the phase of all layers
class Caffe {
 public:
  enum Brew { CPU, GPU };
  enum Phase { TRAIN, TEST };
  static Brew mode() { return mode_; }
  static Phase phase() { return phase_; }
  static void set_mode(Brew mode) { mode_ = mode; }
  static void set_phase(Phase phase) { phase_ = phase; }
  static void set_random_seed(unsigned int seed) {}

 private:
  static Brew mode_;
  static Phase phase_;
};

}  // namespace caffe

#endif  // CAFFE_COMMON_HPP_
