#pragma once
#include <cmath>
#include <vector>

#include "caffe/layer.hpp"

namespace caffe {

// y = exp(x) / sum of exp(x) over an axis
template <typename Dtype>
class SoftmaxLayer : public Layer<Dtype> {
 public:
  explicit SoftmaxLayer(const LayerParameter& param) : Layer<Dtype>(param) {}
  virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    const int axis = bottom[0]->CanonicalAxisIndex(this->layer_param_.softmax_param().axis());
    classes_ = bottom[0]->shape(axis);
    inner_ = bottom[0]->count(axis + 1);
    top[0]->ReshapeLike(*bottom[0]);
  }
  virtual inline const char* type() const { return "Softmax"; }

 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    for (int i = 0; i < bottom[0]->count() / classes_; ++i) {
      const int start = i / inner_ * inner_ * classes_ + i % inner_;
      const Dtype* x = bottom[0]->cpu_data() + start;
      Dtype* y = top[0]->mutable_cpu_data() + start;
      Dtype most = x[0], sum = 0;
      for (int c = 1; c < classes_; ++c) most = std::max(most, x[c * inner_]);
      for (int c = 0; c < classes_; ++c) sum += y[c * inner_] = std::exp(x[c * inner_] - most);
      for (int c = 0; c < classes_; ++c) y[c * inner_] /= sum;
    }
  }
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom) {
    for (int i = 0; i < top[0]->count() / classes_; ++i) {
      const int start = i / inner_ * inner_ * classes_ + i % inner_;
      const Dtype *y = top[0]->cpu_data() + start, *dy = top[0]->cpu_diff() + start;
      Dtype* dx = bottom[0]->mutable_cpu_diff() + start;
      Dtype sum = 0;
      for (int c = 0; c < classes_; ++c) sum += y[c * inner_] * dy[c * inner_];
      for (int c = 0; c < classes_; ++c) dx[c * inner_] = y[c * inner_] * (dy[c * inner_] - sum);
    }
  }
  int classes_, inner_;
};

}  // namespace caffe
