#ifndef CAFFE_UTIL_LIMITS_H_
#define CAFFE_UTIL_LIMITS_H_

namespace caffe {

template <typename Dtype>
void check_limit(int count, const Dtype* x, Dtype most);

}  // namespace caffe

#endif
