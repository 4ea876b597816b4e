#include "caffe/blob.hpp"

#include <algorithm>
#include <cmath>

namespace caffe {

template <typename Dtype>
void Blob<Dtype>::Reshape(const vector<int>& shape) {
  CHECK_LE(int(shape.size()), kMaxBlobAxes);
  long count = 1;
  for (int size : shape) {
    CHECK_GE(size, 0);
    count *= size;
    CHECK_LE(count, long(INT_MAX)) << "blob size exceeds INT_MAX";
  }
  shape_ = shape, count_ = count;
  if (count_ > capacity_ || !data_) {
    capacity_ = count_;
    data_.reset(new SyncedMemory(capacity_ * sizeof(Dtype)));
    diff_.reset(new SyncedMemory(capacity_ * sizeof(Dtype)));
  }
}

template <typename Dtype>
string Blob<Dtype>::shape_string() const {
  ostringstream text;
  for (int size : shape_) text << size << ' ';
  text << '(' << count_ << ')';
  return text.str();
}

template <typename Dtype>
int Blob<Dtype>::count(int start, int end) const {
  CHECK_LE(start, end);
  CHECK_GE(start, 0);
  CHECK_LE(end, num_axes());
  int count = 1;
  for (int axis = start; axis < end; ++axis) count *= shape_[axis];
  return count;
}

template <typename Dtype>
int Blob<Dtype>::CanonicalAxisIndex(int axis) const {
  CHECK_GE(axis, -num_axes()) << "axis " << axis << " is out of range for a blob with shape " << shape_string();
  CHECK_LT(axis, num_axes()) << "axis " << axis << " is out of range for a blob with shape " << shape_string();
  return axis < 0 ? axis + num_axes() : axis;
}

template <typename Dtype>
int Blob<Dtype>::LegacyShape(int axis) const {
  CHECK_LE(num_axes(), 4) << "num, channels, height and width are of blobs with four axes at most";
  return axis < num_axes() && axis >= -num_axes() ? shape(axis) : 1;
}

template <typename Dtype>
int Blob<Dtype>::offset(const vector<int>& indices) const {
  CHECK_LE(int(indices.size()), num_axes());
  int offset = 0;
  for (int axis = 0; axis < num_axes(); ++axis)
    offset = offset * shape_[axis] + (axis < int(indices.size()) ? indices[axis] : 0);
  return offset;
}

template <typename Dtype>
Dtype sum_of(const Dtype* x, int count, bool squares) {
  Dtype sum = 0;
  for (int i = 0; i < count; ++i) sum += squares ? x[i] * x[i] : x[i] < Dtype(0) ? -x[i] : x[i];
  return sum;
}
template <typename Dtype>
Dtype Blob<Dtype>::asum_data() const { return sum_of(cpu_data(), count_, false); }
template <typename Dtype>
Dtype Blob<Dtype>::asum_diff() const { return sum_of(cpu_diff(), count_, false); }
template <typename Dtype>
Dtype Blob<Dtype>::sumsq_data() const { return sum_of(cpu_data(), count_, true); }
template <typename Dtype>
Dtype Blob<Dtype>::sumsq_diff() const { return sum_of(cpu_diff(), count_, true); }
template <typename Dtype>
void Blob<Dtype>::scale_data(Dtype factor) {
  for (int i = 0; i < count_; ++i) mutable_cpu_data()[i] *= factor;
}
template <typename Dtype>
void Blob<Dtype>::scale_diff(Dtype factor) {
  for (int i = 0; i < count_; ++i) mutable_cpu_diff()[i] *= factor;
}
template <typename Dtype>
void Blob<Dtype>::Update() {
  for (int i = 0; i < count_; ++i) mutable_cpu_data()[i] -= cpu_diff()[i];
}
template <typename Dtype>
void Blob<Dtype>::ShareData(const Blob& other) {
  CHECK_EQ(count_, other.count());
  data_ = other.data();
}
template <typename Dtype>
void Blob<Dtype>::ShareDiff(const Blob& other) {
  CHECK_EQ(count_, other.count());
  diff_ = other.diff();
}
template <typename Dtype>
void Blob<Dtype>::CopyFrom(const Blob& source, bool copy_diff, bool reshape) {
  if (source.shape() != shape_) {
    CHECK(reshape) << "blobs of different shapes";
    ReshapeLike(source);
  }
  if (copy_diff) std::copy_n(source.cpu_diff(), count_, mutable_cpu_diff());
  else std::copy_n(source.cpu_data(), count_, mutable_cpu_data());
}
template <typename Dtype>
void Blob<Dtype>::FromProto(const BlobProto& proto, bool reshape) {
  if (reshape) {
    if (proto.has_shape()) Reshape(proto.shape());
    else Reshape(proto.num(), proto.channels(), proto.height(), proto.width());
  }
  CHECK_EQ(count_, proto.data_size());
  for (int i = 0; i < count_; ++i) mutable_cpu_data()[i] = proto.data(i);
}
template <typename Dtype>
bool Blob<Dtype>::ShapeEquals(const BlobProto& other) {
  return shape_ == vector<int>(other.shape().dim().begin(), other.shape().dim().end());
}

INSTANTIATE_CLASS(Blob);
template class Blob<int>;
template class Blob<unsigned int>;

}  // namespace caffe
