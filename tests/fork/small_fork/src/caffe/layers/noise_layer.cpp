#include <vector>

#include "caffe/own_layers.hpp"
#include "caffe/util/math_functions.hpp"

namespace caffe {

template <typename Dtype>
void NoiseLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const int count = bottom[0]->count();
  if (this->phase_ == TEST) {
    caffe_copy(count, bottom[0]->cpu_data(), top[0]->mutable_cpu_data());
    return;
  }
  caffe_rng_gaussian<Dtype>(count, Dtype(0), Dtype(this->layer_param_.noise_param().std()),
                            top[0]->mutable_cpu_data());
  caffe_axpy<Dtype>(count, Dtype(1), bottom[0]->cpu_data(), top[0]->mutable_cpu_data());
}

// Adds the number of its calls: what a new object does not know
template <typename Dtype>
void RememberLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  ++this->calls_;
  for (int i = 0; i < top[0]->count(); ++i) top[0]->mutable_cpu_data()[i] = bottom[0]->cpu_data()[i] + this->calls_;
}

INSTANTIATE_CLASS(NoiseLayer);
REGISTER_LAYER_CLASS(Noise);
INSTANTIATE_CLASS(RememberLayer);
REGISTER_LAYER_CLASS(Remember);

}  // namespace caffe
