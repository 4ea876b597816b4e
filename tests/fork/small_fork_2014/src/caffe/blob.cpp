#include "caffe/blob.hpp"

namespace caffe {

template <typename Dtype>
void Blob<Dtype>::Reshape(int num, int channels, int height, int width) {
  num_ = num;
  channels_ = channels;
  height_ = height;
  width_ = width;
  count_ = num * channels * height * width;
  data_.reset(new SyncedMemory(count_ * sizeof(Dtype)));
  diff_.reset(new SyncedMemory(count_ * sizeof(Dtype)));
}

INSTANTIATE_CLASS(Blob);

}  // namespace caffe
