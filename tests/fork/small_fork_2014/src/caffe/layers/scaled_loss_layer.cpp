#include <vector>

#include "caffe/vision_layers.hpp"

namespace caffe {

template <typename Dtype>
void ScaledLossLayer<Dtype>::SetUp(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top) {
  CHECK_EQ(bottom.size(), 2) << "Loss Layer takes two blobs as input.";
  CHECK_EQ(top->size(), 0) << "Loss Layer takes no output.";
  CHECK_EQ(bottom[0]->count(), bottom[1]->count()) << "The data and label should have the same size.";
}

template <typename Dtype>
Dtype ScaledLossLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top) {
  const Dtype scale = this->layer_param_.scaled_loss_param().scale();
  Dtype loss = 0;
  for (int i = 0; i < bottom[0]->count(); ++i) {
    const Dtype d = bottom[0]->cpu_data()[i] - bottom[1]->cpu_data()[i];
    loss += scale * d * d;
    bottom[0]->mutable_cpu_diff()[i] = 2 * scale * d / bottom[0]->num();
  }
  return loss / bottom[0]->num();
}

template <typename Dtype>
void ScaledLossLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const bool propagate_down,
                                          vector<Blob<Dtype>*>* bottom) {
  // The forward pass has computed it
}

INSTANTIATE_CLASS(ScaledLossLayer);

}  // namespace caffe
