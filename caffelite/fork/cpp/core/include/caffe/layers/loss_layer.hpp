#pragma once
#include <vector>

#include "caffe/layer.hpp"

namespace caffe {

const float kLOG_THRESHOLD = 1e-20;

template <typename Dtype>
class LossLayer : public Layer<Dtype> {
 public:
  explicit LossLayer(const LayerParameter& param) : Layer<Dtype>(param) {}
  virtual void LayerSetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    if (this->layer_param_.loss_weight_size() == 0) this->layer_param_.add_loss_weight(Dtype(1));
  }
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    CHECK_EQ(bottom[0]->shape(0), bottom[1]->shape(0)) << "data and label have another first axis";
    top[0]->Reshape(vector<int>());
  }
  virtual int ExactNumBottomBlobs() const { return 2; }
  virtual int ExactNumTopBlobs() const { return 1; }
  virtual bool AutoTopBlobs() const { return true; }
  virtual bool AllowForceBackward(int bottom) const { return bottom != 1; }
};

}  // namespace caffe
