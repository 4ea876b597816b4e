#ifndef CAFFE_WAVE_LAYER_HPP_
#define CAFFE_WAVE_LAYER_HPP_

#include <vector>

#include "caffe/layers/neuron_layer.hpp"

namespace caffe {

#define WAVE_LAYER(Name)                                                                             \
  template <typename Dtype>                                                                          \
  class Name##Layer : public NeuronLayer<Dtype> {                                                    \
   public:                                                                                           \
    explicit Name##Layer(const LayerParameter& param) : NeuronLayer<Dtype>(param) {}                 \
    virtual inline const char* type() const { return #Name; }                                        \
                                                                                                     \
   protected:                                                                                        \
    virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);   \
    virtual void Forward_gpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);   \
    virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,   \
                              const vector<Blob<Dtype>*>& bottom);                                   \
    virtual void Backward_gpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,   \
                              const vector<Blob<Dtype>*>& bottom);                                   \
  }
WAVE_LAYER(Wave);
WAVE_LAYER(Together);

}  // namespace caffe

#endif
