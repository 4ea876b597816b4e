#pragma once
#include <cstdlib>

#include "caffe/common.hpp"

namespace caffe {

// Memory that is zero at first; that of the device is that of the processor.
class SyncedMemory {
 public:
  enum SyncedHead { UNINITIALIZED, HEAD_AT_CPU, HEAD_AT_GPU, SYNCED };
  explicit SyncedMemory(size_t size = 0) : size_(size), data_(nullptr), owned_(nullptr) {}
  ~SyncedMemory() { std::free(owned_); }
  const void* cpu_data() { return mutable_cpu_data(); }
  const void* gpu_data() { return mutable_cpu_data(); }
  void* mutable_cpu_data() {
    if (!data_) data_ = owned_ = std::calloc(size_ + 1, 1);
    return data_;
  }
  void* mutable_gpu_data() { return mutable_cpu_data(); }
  void set_cpu_data(void* data) { data_ = data; }
  void set_gpu_data(void* data) { data_ = data; }
  SyncedHead head() const { return SYNCED; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  void *data_, *owned_;
  DISABLE_COPY_AND_ASSIGN(SyncedMemory);
};

}  // namespace caffe
