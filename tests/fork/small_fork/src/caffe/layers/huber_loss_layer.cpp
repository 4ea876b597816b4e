#include <cmath>
#include <vector>

#include "caffe/own_layers.hpp"

namespace caffe {

template <typename Dtype>
void HuberLossLayer<Dtype>::Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  LossLayer<Dtype>::Reshape(bottom, top);
  CHECK_EQ(bottom[0]->count(), bottom[1]->count()) << "inputs must have the same size";
  diff_.ReshapeLike(*bottom[0]);
}

template <typename Dtype>
void HuberLossLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const Dtype delta = this->layer_param_.huber_loss_param().delta();
  const int count = bottom[0]->count();
  caffe_sub(count, bottom[0]->cpu_data(), bottom[1]->cpu_data(), diff_.mutable_cpu_data());
  Dtype loss = 0;
  for (int i = 0; i < count; ++i) {
    const Dtype d = std::abs(diff_.cpu_data()[i]);
    loss += d < delta ? d * d / 2 : delta * (d - delta / 2);
  }
  const bool all = this->layer_param_.huber_loss_param().mean() == HuberLossParameter_Mean_ALL;
  top[0]->mutable_cpu_data()[0] = loss / (all ? count : bottom[0]->num());
}

template <typename Dtype>
void HuberLossLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                         const vector<Blob<Dtype>*>& bottom) {
  const Dtype delta = this->layer_param_.huber_loss_param().delta();
  const bool all = this->layer_param_.huber_loss_param().mean() == HuberLossParameter::ALL;
  const int count = bottom[0]->count();
  for (int b = 0; b < 2; ++b) {
    if (!propagate_down[b]) continue;
    const Dtype weight = (b ? -1 : 1) * top[0]->cpu_diff()[0] / (all ? count : bottom[0]->num());
    for (int i = 0; i < count; ++i) {
      const Dtype d = diff_.cpu_data()[i];
      bottom[b]->mutable_cpu_diff()[i] = weight * std::max(-delta, std::min(delta, d));
    }
  }
}

INSTANTIATE_CLASS(HuberLossLayer);
REGISTER_LAYER_CLASS(HuberLoss);

}  // namespace caffe
