#ifndef CAFFE_BLOB_HPP_
#define CAFFE_BLOB_HPP_

#include "caffe/common.hpp"
#include "caffe/syncedmem.hpp"

namespace caffe {

// An array of four axes with its gradient
template <typename Dtype>
class Blob {
 public:
  Blob() : num_(0), channels_(0), height_(0), width_(0), count_(0) {}
  Blob(int num, int channels, int height, int width) { Reshape(num, channels, height, width); }
  void Reshape(int num, int channels, int height, int width);
  int num() const { return num_; }
  int channels() const { return channels_; }
  int height() const { return height_; }
  int width() const { return width_; }
  int count() const { return count_; }
  const Dtype* cpu_data() const { return static_cast<const Dtype*>(data_->mutable_cpu_data()); }
  const Dtype* cpu_diff() const { return static_cast<const Dtype*>(diff_->mutable_cpu_data()); }
  Dtype* mutable_cpu_data() { return static_cast<Dtype*>(data_->mutable_cpu_data()); }
  Dtype* mutable_cpu_diff() { return static_cast<Dtype*>(diff_->mutable_cpu_data()); }

 protected:
  shared_ptr<SyncedMemory> data_, diff_;
  int num_, channels_, height_, width_, count_;
};

}  // namespace caffe

#endif  // CAFFE_BLOB_HPP_
