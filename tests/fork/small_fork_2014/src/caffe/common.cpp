#include "caffe/common.hpp"

namespace caffe {

Caffe::Brew Caffe::mode_ = Caffe::CPU;
Caffe::Phase Caffe::phase_ = Caffe::TRAIN;

}  // namespace caffe
