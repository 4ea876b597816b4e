#pragma once
#include <map>
#include <string>

#include "caffe/common.hpp"
#include "caffe/proto/caffe.pb.h"

namespace caffe {

template <typename Dtype>
class Layer;

template <typename Dtype>
class LayerRegistry {
 public:
  typedef shared_ptr<Layer<Dtype> > (*Creator)(const LayerParameter&);
  static std::map<string, Creator>& Registry() {
    static std::map<string, Creator> creators;
    return creators;
  }
  static shared_ptr<Layer<Dtype> > CreateLayer(const LayerParameter& param) {
    CHECK(Registry().count(param.type())) << "there is no layer type " << param.type();
    return Registry()[param.type()](param);
  }
};

template <typename Dtype>
struct LayerRegisterer {
  LayerRegisterer(const string& type, typename LayerRegistry<Dtype>::Creator creator) {
    LayerRegistry<Dtype>::Registry()[type] = creator;
  }
};

}  // namespace caffe

#define REGISTER_LAYER_CREATOR(type, creator)                              \
  static LayerRegisterer<float> g_creator_f_##type(#type, creator<float>); \
  static LayerRegisterer<double> g_creator_d_##type(#type, creator<double>)
#define REGISTER_LAYER_CLASS(type)                                             \
  template <typename Dtype>                                                    \
  shared_ptr<Layer<Dtype> > Creator_##type##Layer(const LayerParameter& param) { \
    return shared_ptr<Layer<Dtype> >(new type##Layer<Dtype>(param));           \
  }                                                                            \
  REGISTER_LAYER_CREATOR(type, Creator_##type##Layer)
