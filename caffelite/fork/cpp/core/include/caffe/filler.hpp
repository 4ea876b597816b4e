#pragma once
#include <cmath>
#include <string>

#include "caffe/blob.hpp"
#include "caffe/util/math_functions.hpp"

namespace caffe {

template <typename Dtype>
class Filler {
 public:
  explicit Filler(const FillerParameter& param) : filler_param_(param) {}
  virtual ~Filler() {}
  virtual void Fill(Blob<Dtype>* blob) {
    const string& type = filler_param_.type();
    Dtype* data = blob->mutable_cpu_data();
    const int count = blob->count();
    const Dtype fan_in = count / Dtype(blob->shape(0));
    if (type == "constant") {
      caffe_set(count, Dtype(filler_param_.value()), data);
    } else if (type == "uniform") {
      caffe_rng_uniform(count, Dtype(filler_param_.min()), Dtype(filler_param_.max()), data);
    } else if (type == "gaussian") {
      caffe_rng_gaussian(count, Dtype(filler_param_.mean()), Dtype(filler_param_.std()), data);
    } else if (type == "xavier") {
      const Dtype scale = std::sqrt(Dtype(3) / fan_in);
      caffe_rng_uniform(count, -scale, scale, data);
    } else if (type == "msra") {
      caffe_rng_gaussian(count, Dtype(0), Dtype(std::sqrt(Dtype(2) / fan_in)), data);
    } else {
      LOG(FATAL) << "there is no filler " << type << " without the rest of Caffe";
    }
  }

 protected:
  FillerParameter filler_param_;
};

template <typename Dtype>
Filler<Dtype>* GetFiller(const FillerParameter& param) { return new Filler<Dtype>(param); }

}  // namespace caffe
