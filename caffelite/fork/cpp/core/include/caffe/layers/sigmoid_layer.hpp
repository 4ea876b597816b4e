#pragma once
#include <cmath>
#include <vector>

#include "caffe/layers/neuron_layer.hpp"

namespace caffe {

template <typename Dtype>
class SigmoidLayer : public NeuronLayer<Dtype> {
 public:
  explicit SigmoidLayer(const LayerParameter& param) : NeuronLayer<Dtype>(param) {}
  virtual inline const char* type() const { return "Sigmoid"; }

 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    for (int i = 0; i < bottom[0]->count(); ++i) {
      top[0]->mutable_cpu_data()[i] = Dtype(1) / (Dtype(1) + std::exp(-bottom[0]->cpu_data()[i]));
    }
  }
  virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                            const vector<Blob<Dtype>*>& bottom) {
    for (int i = 0; i < top[0]->count(); ++i) {
      const Dtype y = top[0]->cpu_data()[i];
      bottom[0]->mutable_cpu_diff()[i] = top[0]->cpu_diff()[i] * y * (1 - y);
    }
  }
};

}  // namespace caffe
