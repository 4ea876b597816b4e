#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "caffe/blob.hpp"
#include "caffe/common.hpp"
#include "caffe/layer_factory.hpp"
#include "caffe/proto/caffe.pb.h"
#include "caffe/util/math_functions.hpp"

namespace caffe {

template <typename Dtype>
class Layer {
 public:
  explicit Layer(const LayerParameter& param) : layer_param_(param), phase_(param.phase()) {}
  virtual ~Layer() {}
  void SetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    check_counts(bottom.size(), "bottom", ExactNumBottomBlobs(), MinBottomBlobs(), MaxBottomBlobs());
    check_counts(top.size(), "top", ExactNumTopBlobs(), MinTopBlobs(), MaxTopBlobs());
    if (EqualNumBottomTopBlobs()) CHECK_EQ(bottom.size(), top.size()) << type() << " has as many tops as bottoms";
    LayerSetUp(bottom, top);
    Reshape(bottom, top);
  }
  virtual void LayerSetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {}
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) = 0;
  Dtype Forward(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    Reshape(bottom, top);
    Caffe::mode() == Caffe::CPU ? Forward_cpu(bottom, top) : Forward_gpu(bottom, top);
    return 0;
  }
  void Backward(const vector<Blob<Dtype>*>& top, const vector<bool>& down, const vector<Blob<Dtype>*>& bottom) {
    Caffe::mode() == Caffe::CPU ? Backward_cpu(top, down, bottom) : Backward_gpu(top, down, bottom);
  }
  vector<shared_ptr<Blob<Dtype> > >& blobs() { return blobs_; }
  const LayerParameter& layer_param() const { return layer_param_; }
  Dtype loss(int top) const { return top < int(loss_.size()) ? loss_[top] : Dtype(0); }
  void set_loss(int top, Dtype value) {
    if (int(loss_.size()) <= top) loss_.resize(top + 1);
    loss_[top] = value;
  }
  bool param_propagate_down(int param) { return param < int(param_propagate_down_.size()) && param_propagate_down_[param]; }
  void set_param_propagate_down(int param, bool value) {
    if (int(param_propagate_down_.size()) <= param) param_propagate_down_.resize(param + 1, true);
    param_propagate_down_[param] = value;
  }
  virtual const char* type() const { return ""; }
  virtual int ExactNumBottomBlobs() const { return -1; }
  virtual int MinBottomBlobs() const { return -1; }
  virtual int MaxBottomBlobs() const { return -1; }
  virtual int ExactNumTopBlobs() const { return -1; }
  virtual int MinTopBlobs() const { return -1; }
  virtual int MaxTopBlobs() const { return -1; }
  virtual bool EqualNumBottomTopBlobs() const { return false; }
  virtual bool AutoTopBlobs() const { return false; }
  virtual bool AllowForceBackward(int bottom) const { return true; }
  virtual bool ShareInParallel() const { return false; }

 protected:
  LayerParameter layer_param_;
  Phase phase_;
  vector<shared_ptr<Blob<Dtype> > > blobs_;
  vector<bool> param_propagate_down_ = vector<bool>(16, true);
  vector<Dtype> loss_;

  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) = 0;
  virtual void Forward_gpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    Forward_cpu(bottom, top);
  }
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom) = 0;
  virtual void Backward_gpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom) {
    Backward_cpu(top, propagate_down, bottom);
  }

 private:
  void check_counts(int count, const char* kind, int exact, int least, int most) const {
    if (exact >= 0) CHECK_EQ(count, exact) << type() << " has another number of " << kind << " blobs";
    if (least >= 0) CHECK_GE(count, least) << type() << " has another number of " << kind << " blobs";
    if (most >= 0) CHECK_LE(count, most) << type() << " has another number of " << kind << " blobs";
  }
  DISABLE_COPY_AND_ASSIGN(Layer);
};

}  // namespace caffe
