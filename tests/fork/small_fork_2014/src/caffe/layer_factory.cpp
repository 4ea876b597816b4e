#include "caffe/layer.hpp"
#include "caffe/vision_layers.hpp"

namespace caffe {

template <typename Dtype>
Layer<Dtype>* GetLayer(const LayerParameter& param) {
  switch (param.type()) {
    case LayerParameter_LayerType_CHANNEL_SCALE:
      return new ChannelScaleLayer<Dtype>(param);
    case LayerParameter_LayerType_SCALED_LOSS:
      return new ScaledLossLayer<Dtype>(param);
    default:
      LOG(FATAL) << "Unknown layer type: " << param.type();
  }
  return NULL;
}

template Layer<float>* GetLayer(const LayerParameter& param);
template Layer<double>* GetLayer(const LayerParameter& param);

}  // namespace caffe
