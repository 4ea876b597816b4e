#include <cmath>
#include <vector>

#include "caffe/layers/bend_layer.hpp"

namespace caffe {

template <typename Dtype>
void BendLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const Dtype slope = this->layer_param_.bend_param().slope();
  const Dtype* x = bottom[0]->cpu_data();
  Dtype* y = top[0]->mutable_cpu_data();
  for (int i = 0; i < bottom[0]->count(); ++i) y[i] = x[i] / (1 + slope * std::abs(x[i]));
}

template <typename Dtype>
void BendLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                    const vector<Blob<Dtype>*>& bottom) {
  if (!propagate_down[0]) return;
  const Dtype slope = this->layer_param_.bend_param().slope();
  const Dtype* x = bottom[0]->cpu_data();
  for (int i = 0; i < bottom[0]->count(); ++i) {
    const Dtype d = 1 + slope * std::abs(x[i]);
    bottom[0]->mutable_cpu_diff()[i] = top[0]->cpu_diff()[i] / (d * d);
  }
}

INSTANTIATE_CLASS(BendLayer);
REGISTER_LAYER_CLASS(Bend);

}  // namespace caffe
