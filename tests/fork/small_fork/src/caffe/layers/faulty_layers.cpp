#include <cstdlib>
#include <vector>

#include "caffe/own_layers.hpp"
#include "caffe/util/limits.hpp"

namespace caffe {

template <typename Dtype>
void LeaveLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  LOG(ERROR) << "no file";
  exit(1);
}

template <typename Dtype>
void CrashLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  volatile int* nowhere = reinterpret_cast<int*>(this->calls_);
  *nowhere = 1;
}

template <typename Dtype>
void LimitLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  check_limit<Dtype>(bottom[0]->count(), bottom[0]->cpu_data(), this->layer_param_.limit_param().most());
  caffe_copy(bottom[0]->count(), bottom[0]->cpu_data(), top[0]->mutable_cpu_data());
}

INSTANTIATE_CLASS(LeaveLayer);
REGISTER_LAYER_CLASS(Leave);
INSTANTIATE_CLASS(CrashLayer);
REGISTER_LAYER_CLASS(Crash);
INSTANTIATE_CLASS(LimitLayer);
REGISTER_LAYER_CLASS(Limit);

}  // namespace caffe
