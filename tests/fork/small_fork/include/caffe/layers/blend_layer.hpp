// A layer in the style of 2018: C++11 throughout, memory owned by unique_ptr.
#pragma once
#include <memory>
#include <vector>

#include "caffe/blob.hpp"
#include "caffe/layer.hpp"
#include "caffe/proto/caffe.pb.h"

namespace caffe {

// y = w[c] x + (1 - w[c]) mean(x over the image), with one weight for each channel
template <typename Dtype>
class BlendLayer final : public Layer<Dtype> {
 public:
  using Blobs = std::vector<Blob<Dtype>*>;
  explicit BlendLayer(const LayerParameter& param) : Layer<Dtype>(param), mean_{new Blob<Dtype>()} {}
  BlendLayer(const BlendLayer&) = delete;
  ~BlendLayer() override = default;

  void LayerSetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->ReshapeLike(*bottom[0]);
    mean_->Reshape({bottom[0]->shape(0), bottom[0]->shape(1)});
  }
  const char* type() const override { return "Blend"; }
  int ExactNumBottomBlobs() const override { return 1; }
  int ExactNumTopBlobs() const override { return 1; }

 protected:
  void Forward_cpu(const Blobs& bottom, const Blobs& top) override;
  void Backward_cpu(const Blobs& top, const std::vector<bool>& propagate_down, const Blobs& bottom) override;

 private:
  template <typename Function>
  void ForEachMap(const Blob<Dtype>& images, Function function) const;

  std::unique_ptr<Blob<Dtype>> mean_;
};

}  // namespace caffe
