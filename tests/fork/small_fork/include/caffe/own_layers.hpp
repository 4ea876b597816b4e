// The layers of 2015, in one header.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <opencv2/core/core.hpp>

#include "caffe/blob.hpp"
#include "caffe/common.hpp"
#include "caffe/layer.hpp"
#include "caffe/loss_layers.hpp"
#include "caffe/proto/caffe.pb.h"

namespace caffe {

template <typename Dtype>
class HuberLossLayer : public LossLayer<Dtype> {
 public:
  explicit HuberLossLayer(const LayerParameter& param) : LossLayer<Dtype>(param), diff_() {}
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual inline const char* type() const { return "HuberLoss"; }

 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom);
  Blob<Dtype> diff_;
};

// y[n, o, ...] = sum over c of W[o, c] x[n, c, ...] + b[o]
template <typename Dtype>
class ChannelMixLayer : public Layer<Dtype> {
 public:
  explicit ChannelMixLayer(const LayerParameter& param) : Layer<Dtype>(param) {}
  virtual void LayerSetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual inline const char* type() const { return "ChannelMix"; }
  virtual inline int ExactNumBottomBlobs() const { return 1; }
  virtual inline int ExactNumTopBlobs() const { return 1; }

 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom);
  int outputs_;
};

// Caffe's AbsVal, with a factor
template <typename Dtype>
class AbsValLayer : public Layer<Dtype> {
 public:
  explicit AbsValLayer(const LayerParameter& param) : Layer<Dtype>(param) {}
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    top[0]->ReshapeLike(*bottom[0]);
  }
  virtual inline const char* type() const { return "AbsVal"; }

 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom);
};

template <typename Dtype>
class PeakLayer : public Layer<Dtype> {
 public:
  explicit PeakLayer(const LayerParameter& param) : Layer<Dtype>(param), calls_(0) {}
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual inline const char* type() const { return "Peak"; }

 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom) {}
  void Show(cv::Mat heat);
  int calls_;
};

// Layers whose tops are like their bottoms
#define OWN_LAYER(Name)                                                                              \
  template <typename Dtype>                                                                          \
  class Name##Layer : public Layer<Dtype> {                                                          \
   public:                                                                                           \
    explicit Name##Layer(const LayerParameter& param) : Layer<Dtype>(param), calls_(0) {}            \
    virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {      \
      top[0]->ReshapeLike(*bottom[0]);                                                               \
    }                                                                                                \
    virtual inline const char* type() const { return #Name; }                                        \
                                                                                                     \
   protected:                                                                                        \
    virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);   \
    virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,   \
                              const vector<Blob<Dtype>*>& bottom) {                                  \
      caffe_copy(top[0]->count(), top[0]->cpu_diff(), bottom[0]->mutable_cpu_diff());                \
    }                                                                                                \
    int calls_;                                                                                      \
  }
OWN_LAYER(Noise);
OWN_LAYER(Remember);
OWN_LAYER(Leave);
OWN_LAYER(Crash);
OWN_LAYER(Limit);
OWN_LAYER(Broken);

}  // namespace caffe
