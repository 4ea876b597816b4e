#ifndef CAFFE_VISION_LAYERS_HPP_
#define CAFFE_VISION_LAYERS_HPP_

#include "caffe/layer.hpp"

namespace caffe {

// y = w x, with a weight of every channel
template <typename Dtype>
class ChannelScaleLayer : public Layer<Dtype> {
 public:
  explicit ChannelScaleLayer(const LayerParameter& param) : Layer<Dtype>(param) {}
  virtual void SetUp(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top);

 protected:
  virtual Dtype Forward_cpu(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top);
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const bool propagate_down, vector<Blob<Dtype>*>* bottom);
};

// scale |x - t|^2 of a sample
template <typename Dtype>
class ScaledLossLayer : public Layer<Dtype> {
 public:
  explicit ScaledLossLayer(const LayerParameter& param) : Layer<Dtype>(param) {}
  virtual void SetUp(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top);

 protected:
  virtual Dtype Forward_cpu(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top);
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const bool propagate_down, vector<Blob<Dtype>*>* bottom);
};

}  // namespace caffe

#endif  // CAFFE_VISION_LAYERS_HPP_
