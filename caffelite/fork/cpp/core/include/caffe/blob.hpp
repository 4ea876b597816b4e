#pragma once
#include <string>
#include <vector>

#include "caffe/common.hpp"
#include "caffe/proto/caffe.pb.h"
#include "caffe/syncedmem.hpp"

const int kMaxBlobAxes = 32;

namespace caffe {

// An array of any shape with its gradient.
template <typename Dtype>
class Blob {
 public:
  Blob() : count_(0), capacity_(0) {}
  Blob(int num, int channels, int height, int width) : Blob() { Reshape(num, channels, height, width); }
  explicit Blob(const vector<int>& shape) : Blob() { Reshape(shape); }

  void Reshape(int num, int channels, int height, int width) { Reshape(vector<int>{num, channels, height, width}); }
  void Reshape(const vector<int>& shape);
  void Reshape(const BlobShape& shape) { Reshape(vector<int>(shape.dim().begin(), shape.dim().end())); }
  void ReshapeLike(const Blob& other) { Reshape(other.shape()); }

  const vector<int>& shape() const { return shape_; }
  int shape(int axis) const { return shape_[CanonicalAxisIndex(axis)]; }
  string shape_string() const;
  int num_axes() const { return shape_.size(); }
  int count() const { return count_; }
  int count(int start, int end) const;
  int count(int start) const { return count(start, num_axes()); }
  int CanonicalAxisIndex(int axis) const;
  int num() const { return LegacyShape(0); }
  int channels() const { return LegacyShape(1); }
  int height() const { return LegacyShape(2); }
  int width() const { return LegacyShape(3); }
  int LegacyShape(int axis) const;
  int offset(int n, int c = 0, int h = 0, int w = 0) const {
    return ((n * channels() + c) * height() + h) * width() + w;
  }
  int offset(const vector<int>& indices) const;

  const Dtype* cpu_data() const { return static_cast<const Dtype*>(data_->cpu_data()); }
  const Dtype* gpu_data() const { return cpu_data(); }
  const Dtype* cpu_diff() const { return static_cast<const Dtype*>(diff_->cpu_data()); }
  const Dtype* gpu_diff() const { return cpu_diff(); }
  Dtype* mutable_cpu_data() { return static_cast<Dtype*>(data_->mutable_cpu_data()); }
  Dtype* mutable_gpu_data() { return mutable_cpu_data(); }
  Dtype* mutable_cpu_diff() { return static_cast<Dtype*>(diff_->mutable_cpu_data()); }
  Dtype* mutable_gpu_diff() { return mutable_cpu_diff(); }
  Dtype data_at(int n, int c, int h, int w) const { return cpu_data()[offset(n, c, h, w)]; }
  Dtype diff_at(int n, int c, int h, int w) const { return cpu_diff()[offset(n, c, h, w)]; }
  Dtype data_at(const vector<int>& index) const { return cpu_data()[offset(index)]; }
  Dtype diff_at(const vector<int>& index) const { return cpu_diff()[offset(index)]; }
  const shared_ptr<SyncedMemory>& data() const { return data_; }
  const shared_ptr<SyncedMemory>& diff() const { return diff_; }
  void set_cpu_data(Dtype* data) { data_->set_cpu_data(data); }

  Dtype asum_data() const;
  Dtype asum_diff() const;
  Dtype sumsq_data() const;
  Dtype sumsq_diff() const;
  void scale_data(Dtype factor);
  void scale_diff(Dtype factor);
  void Update();
  void ShareData(const Blob& other);
  void ShareDiff(const Blob& other);
  void CopyFrom(const Blob& source, bool copy_diff = false, bool reshape = false);
  void FromProto(const BlobProto& proto, bool reshape = true);
  bool ShapeEquals(const BlobProto& other);

 private:
  shared_ptr<SyncedMemory> data_, diff_;
  vector<int> shape_;
  int count_, capacity_;
  DISABLE_COPY_AND_ASSIGN(Blob);
};

}  // namespace caffe
