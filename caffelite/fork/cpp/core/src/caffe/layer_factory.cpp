// The layers of Caffe that losses of forks are made of
#include "caffe/layers/sigmoid_layer.hpp"
#include "caffe/layers/softmax_layer.hpp"

namespace caffe {

REGISTER_LAYER_CLASS(Sigmoid);
REGISTER_LAYER_CLASS(Softmax);

}  // namespace caffe
