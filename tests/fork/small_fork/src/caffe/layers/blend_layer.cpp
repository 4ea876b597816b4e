#include <memory>
#include <numeric>
#include <vector>

#include <boost/make_shared.hpp>

#include "caffe/filler.hpp"
#include "caffe/layer_factory.hpp"
#include "caffe/layers/blend_layer.hpp"

namespace caffe {

template <typename Dtype>
void BlendLayer<Dtype>::LayerSetUp(const Blobs& bottom, const Blobs& top) {
  this->blobs_.emplace_back(caffe::make_shared<Blob<Dtype>>(std::vector<int>{bottom[0]->shape(1)}));
  const std::unique_ptr<Filler<Dtype>> filler{GetFiller<Dtype>(this->layer_param_.blend_param().filler())};
  filler->Fill(this->blobs_.front().get());
}

// function(number of the map, its channel, the range of its values)
template <typename Dtype>
template <typename Function>
void BlendLayer<Dtype>::ForEachMap(const Blob<Dtype>& images, Function function) const {
  const int maps = images.count(0, 2), inner = images.count(2);
  for (auto map = 0; map < maps; ++map) function(map, map % images.shape(1), map * inner, (map + 1) * inner);
}

template <typename Dtype>
void BlendLayer<Dtype>::Forward_cpu(const Blobs& bottom, const Blobs& top) {
  const auto* x = bottom[0]->cpu_data();
  const auto* weights = this->blobs_[0]->cpu_data();
  auto* mean = mean_->mutable_cpu_data();
  auto* y = top[0]->mutable_cpu_data();
  ForEachMap(*bottom[0], [=](int map, int channel, int from, int to) {
    mean[map] = std::accumulate(x + from, x + to, Dtype(0)) / (to - from);
    for (auto i = from; i < to; ++i) y[i] = weights[channel] * x[i] + (1 - weights[channel]) * mean[map];
  });
}

template <typename Dtype>
void BlendLayer<Dtype>::Backward_cpu(const Blobs& top, const std::vector<bool>& propagate_down, const Blobs& bottom) {
  const auto* x = bottom[0]->cpu_data();
  const auto* dy = top[0]->cpu_diff();
  const auto* weights = this->blobs_[0]->cpu_data();
  const auto* mean = mean_->cpu_data();
  auto* dw = this->blobs_[0]->mutable_cpu_diff();
  auto* dx = propagate_down[0] ? bottom[0]->mutable_cpu_diff() : nullptr;
  ForEachMap(*bottom[0], [&](int map, int channel, int from, int to) {
    const auto mean_dy = std::accumulate(dy + from, dy + to, Dtype(0)) / (to - from);
    for (auto i = from; i < to; ++i) {
      dw[channel] += dy[i] * (x[i] - mean[map]);
      if (dx != nullptr) dx[i] = weights[channel] * dy[i] + (1 - weights[channel]) * mean_dy;
    }
  });
}

template <typename Dtype>
shared_ptr<Layer<Dtype>> GetBlendLayer(const LayerParameter& param) {
  const auto engine = param.blend_param().engine();
  if (engine == BlendParameter_Engine_CUDNN) LOG(FATAL) << "Blend has no engine CUDNN";
  return shared_ptr<Layer<Dtype>>{new BlendLayer<Dtype>(param)};
}

INSTANTIATE_CLASS(BlendLayer);
REGISTER_LAYER_CREATOR(Blend, GetBlendLayer);

}  // namespace caffe
