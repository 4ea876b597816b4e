#include "caffe/util/limits.hpp"
#include "caffe/common.hpp"

namespace caffe {

template <typename Dtype>
void check_limit(int count, const Dtype* x, Dtype most) {
  for (int i = 0; i < count; ++i) CHECK_LE(x[i], most) << "a value is too large";
}

template void check_limit<float>(int count, const float* x, float most);
template void check_limit<double>(int count, const double* x, double most);

}  // namespace caffe
