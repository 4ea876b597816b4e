#include <vector>

#include "caffe/filler.hpp"
#include "caffe/own_layers.hpp"
#include "caffe/util/math_functions.hpp"

namespace caffe {

template <typename Dtype>
void ChannelMixLayer<Dtype>::LayerSetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const ChannelMixParameter& param = this->layer_param_.channel_mix_param();
  outputs_ = param.num_output();
  CHECK_GT(outputs_, 0) << "num_output must be positive";
  vector<int> shape(2);
  shape[0] = outputs_;
  shape[1] = bottom[0]->shape(1);
  this->blobs_.resize(param.bias_term() ? 2 : 1);
  this->blobs_[0].reset(new Blob<Dtype>(shape));
  shared_ptr<Filler<Dtype> > filler(GetFiller<Dtype>(param.weight_filler()));
  filler->Fill(this->blobs_[0].get());
  if (param.bias_term()) this->blobs_[1].reset(new Blob<Dtype>(vector<int>(1, outputs_)));
  this->param_propagate_down_.resize(this->blobs_.size(), true);
}

template <typename Dtype>
void ChannelMixLayer<Dtype>::Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  vector<int> shape = bottom[0]->shape();
  shape[1] = outputs_;
  top[0]->Reshape(shape);
}

template <typename Dtype>
void ChannelMixLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const int channels = bottom[0]->shape(1), inner = bottom[0]->count(2);
  for (int n = 0; n < bottom[0]->shape(0); ++n) {
    Dtype* y = top[0]->mutable_cpu_data() + n * outputs_ * inner;
    caffe_cpu_gemm<Dtype>(CblasNoTrans, CblasNoTrans, outputs_, inner, channels, (Dtype)1.,
                          this->blobs_[0]->cpu_data(), bottom[0]->cpu_data() + n * channels * inner, (Dtype)0., y);
    if (this->blobs_.size() > 1)
      for (int i = 0; i < outputs_ * inner; ++i) y[i] += this->blobs_[1]->cpu_data()[i / inner];
  }
}

template <typename Dtype>
void ChannelMixLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                          const vector<Blob<Dtype>*>& bottom) {
  const int channels = bottom[0]->shape(1), inner = bottom[0]->count(2);
  for (int n = 0; n < bottom[0]->shape(0); ++n) {
    const Dtype* dy = top[0]->cpu_diff() + n * outputs_ * inner;
    if (this->param_propagate_down_[0])
      caffe_cpu_gemm<Dtype>(CblasNoTrans, CblasTrans, outputs_, channels, inner, (Dtype)1., dy,
                            bottom[0]->cpu_data() + n * channels * inner, (Dtype)1.,
                            this->blobs_[0]->mutable_cpu_diff());
    if (this->blobs_.size() > 1 && this->param_propagate_down_[1])
      for (int i = 0; i < outputs_ * inner; ++i) this->blobs_[1]->mutable_cpu_diff()[i / inner] += dy[i];
    if (propagate_down[0])
      caffe_cpu_gemm<Dtype>(CblasTrans, CblasNoTrans, channels, inner, outputs_, (Dtype)1.,
                            this->blobs_[0]->cpu_data(), dy, (Dtype)0.,
                            bottom[0]->mutable_cpu_diff() + n * channels * inner);
  }
}

INSTANTIATE_CLASS(ChannelMixLayer);
REGISTER_LAYER_CLASS(ChannelMix);

}  // namespace caffe
