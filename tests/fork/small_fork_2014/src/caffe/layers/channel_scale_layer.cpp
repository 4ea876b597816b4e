#include <vector>

#include "caffe/vision_layers.hpp"

namespace caffe {

template <typename Dtype>
void ChannelScaleLayer<Dtype>::SetUp(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top) {
  CHECK_EQ(bottom.size(), 1) << "ChannelScale takes a single blob as input.";
  (*top)[0]->Reshape(bottom[0]->num(), bottom[0]->channels(), bottom[0]->height(), bottom[0]->width());
  if (this->blobs_.size() > 0) return;
  this->blobs_.resize(1);
  this->blobs_[0].reset(new Blob<Dtype>(1, 1, 1, bottom[0]->channels()));
  for (int c = 0; c < bottom[0]->channels(); ++c) {
    this->blobs_[0]->mutable_cpu_data()[c] = this->layer_param_.channel_scale_param().start();
  }
}

template <typename Dtype>
Dtype ChannelScaleLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top) {
  const int size = bottom[0]->height() * bottom[0]->width();
  for (int i = 0; i < bottom[0]->count(); ++i) {
    const Dtype w = this->blobs_[0]->cpu_data()[i / size % bottom[0]->channels()];
    (*top)[0]->mutable_cpu_data()[i] = w * bottom[0]->cpu_data()[i];
  }
  return Dtype(0);
}

template <typename Dtype>
void ChannelScaleLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const bool propagate_down,
                                            vector<Blob<Dtype>*>* bottom) {
  const int size = (*bottom)[0]->height() * (*bottom)[0]->width();
  for (int i = 0; i < top[0]->count(); ++i) {
    const int c = i / size % (*bottom)[0]->channels();
    this->blobs_[0]->mutable_cpu_diff()[c] += top[0]->cpu_diff()[i] * (*bottom)[0]->cpu_data()[i];
    if (propagate_down) (*bottom)[0]->mutable_cpu_diff()[i] = top[0]->cpu_diff()[i] * this->blobs_[0]->cpu_data()[c];
  }
}

INSTANTIATE_CLASS(ChannelScaleLayer);

}  // namespace caffe
