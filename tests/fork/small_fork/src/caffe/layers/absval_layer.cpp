#include <cmath>
#include <vector>

#include "caffe/own_layers.hpp"

namespace caffe {

template <typename Dtype>
void AbsValLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const Dtype factor = this->layer_param_.abs_factor();
  for (int i = 0; i < top[0]->count(); ++i) {
    const Dtype x = bottom[0]->cpu_data()[i];
    top[0]->mutable_cpu_data()[i] = factor * std::abs(x);
    bottom[0]->mutable_cpu_diff()[i] = factor * caffe_sign(x);  // for backward
  }
}

template <typename Dtype>
void AbsValLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                      const vector<Blob<Dtype>*>& bottom) {
  for (int i = 0; i < top[0]->count(); ++i) bottom[0]->mutable_cpu_diff()[i] *= top[0]->cpu_diff()[i];
}

INSTANTIATE_CLASS(AbsValLayer);
REGISTER_LAYER_CLASS(AbsVal);

}  // namespace caffe
