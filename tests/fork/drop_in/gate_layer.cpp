#include <vector>

#include "caffe/layers/gate_layer.hpp"
#include "caffe/util/math_functions.hpp"

namespace caffe {

template <typename Dtype>
void GateLayer<Dtype>::LayerSetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  sigmoid_layer_.reset(new SigmoidLayer<Dtype>(this->layer_param_));
  sigmoid_layer_->SetUp(bottom, top);
  LayerParameter softmax_param(this->layer_param_);
  softmax_param.set_type("Softmax");
  softmax_layer_ = LayerRegistry<Dtype>::CreateLayer(softmax_param);
  prob_top_.push_back(&prob_);
  softmax_layer_->SetUp(bottom, prob_top_);
}

template <typename Dtype>
void GateLayer<Dtype>::Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  sigmoid_layer_->Reshape(bottom, top);
  softmax_layer_->Reshape(bottom, prob_top_);
}

template <typename Dtype>
void GateLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  sigmoid_layer_->Forward(bottom, top);
  softmax_layer_->Forward(bottom, prob_top_);
  caffe_axpy<Dtype>(top[0]->count(), 1, prob_.cpu_data(), top[0]->mutable_cpu_data());
}

template <typename Dtype>
void GateLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                    const vector<Blob<Dtype>*>& bottom) {
  caffe_copy(prob_.count(), top[0]->cpu_diff(), prob_.mutable_cpu_diff());
  softmax_layer_->Backward(prob_top_, propagate_down, bottom);
  for (int i = 0; i < top[0]->count(); ++i) {
    const Dtype y = top[0]->cpu_data()[i] - prob_.cpu_data()[i];
    bottom[0]->mutable_cpu_diff()[i] += top[0]->cpu_diff()[i] * y * (1 - y);
  }
}

INSTANTIATE_CLASS(GateLayer);
REGISTER_LAYER_CLASS(Gate);

}  // namespace caffe
