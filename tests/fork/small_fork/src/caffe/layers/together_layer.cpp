#include <vector>

#include "caffe/layers/wave_layer.hpp"

namespace caffe {

template <typename Dtype>
void TogetherLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  NOT_IMPLEMENTED;
}

template <typename Dtype>
void TogetherLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                        const vector<Blob<Dtype>*>& bottom) {
  NOT_IMPLEMENTED;
}

INSTANTIATE_CLASS(TogetherLayer);
REGISTER_LAYER_CLASS(Together);

}  // namespace caffe
