#ifndef CAFFE_SYNCEDMEM_HPP_
#define CAFFE_SYNCEDMEM_HPP_

#include <cstdlib>
#include <vector>

namespace caffe {

class SyncedMemory {
 public:
  explicit SyncedMemory(size_t size) : bytes_(size) {}
  void* mutable_cpu_data() { return bytes_.data(); }

 private:
  std::vector<char> bytes_;
};

}  // namespace caffe

#endif  // CAFFE_SYNCEDMEM_HPP_
