#include "caffe/net.hpp"

namespace caffe {

template <typename Dtype>
Net<Dtype>::Net(const NetParameter& param) {
  for (int i = 0; i < param.input_size(); ++i) {
    const auto& dim = param.input_shape(i).dim();
    top(param.input(i))->Reshape(vector<int>(dim.begin(), dim.end()));
  }
  for (int i = 0; i < param.layer_size(); ++i) {
    const LayerParameter& spec = param.layer(i);
    layers_.push_back(LayerRegistry<Dtype>::CreateLayer(spec));
    layer_names_.push_back(spec.name());
    bottoms_.push_back(vector<Blob<Dtype>*>());
    tops_.push_back(vector<Blob<Dtype>*>());
    for (int j = 0; j < spec.bottom_size(); ++j) {
      CHECK(index_.count(spec.bottom(j))) << "unknown bottom " << spec.bottom(j);
      bottoms_[i].push_back(blobs_[index_[spec.bottom(j)]].get());
    }
    for (int j = 0; j < spec.top_size(); ++j) tops_[i].push_back(top(spec.top(j)));
    layers_[i]->SetUp(bottoms_[i], tops_[i]);
  }
}

template <typename Dtype>
Blob<Dtype>* Net<Dtype>::top(const string& name) {
  index_[name] = blobs_.size();
  blob_names_.push_back(name);
  blobs_.push_back(shared_ptr<Blob<Dtype> >(new Blob<Dtype>()));
  return blobs_.back().get();
}

template <typename Dtype>
const vector<Blob<Dtype>*>& Net<Dtype>::ForwardPrefilled(Dtype* loss) {
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->Forward(bottoms_[i], tops_[i]);
  tops_.back()[0]->mutable_cpu_diff()[0] = 1;
  if (loss) *loss = tops_.back()[0]->cpu_data()[0];
  return outputs_;
}

template <typename Dtype>
void Net<Dtype>::Backward() {
  for (size_t i = layers_.size(); i-- > 0;)
    layers_[i]->Backward(tops_[i], vector<bool>(bottoms_[i].size(), true), bottoms_[i]);
}

template <typename Dtype>
void Net<Dtype>::Update() {
  for (size_t i = 0; i < layers_.size(); ++i)
    for (size_t j = 0; j < layers_[i]->blobs().size(); ++j) layers_[i]->blobs()[j]->Update();
}

INSTANTIATE_CLASS(Net);

}  // namespace caffe
