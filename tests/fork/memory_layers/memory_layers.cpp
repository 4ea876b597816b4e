// Layers that do with the memory of their blobs what layers of forks do.
#include <algorithm>
#include <vector>

#include "caffe/blob.hpp"
#include "caffe/layer.hpp"
#include "caffe/proto/caffe.pb.h"
#include "caffe/util/math_functions.hpp"

namespace caffe {

#define LAYER(Name)                                                                          \
  template <typename Dtype>                                                                         \
  class Name##Layer : public Layer<Dtype> {                                                         \
   public:                                                                                          \
    explicit Name##Layer(const LayerParameter& param) : Layer<Dtype>(param), calls_(0) {}           \
    virtual void LayerSetUp(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);   \
    virtual void Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);      \
    virtual inline const char* type() const { return #Name; }                                       \
                                                                                                    \
   protected:                                                                                       \
    virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top);  \
    virtual void Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,  \
                              const vector<Blob<Dtype>*>& bottom);                                  \
    Blob<Dtype> cache_;                                                                             \
    int calls_;                                                                                     \
  }

#define METHOD(Name, Method)            \
  template <typename Dtype>             \
  void Name##Layer<Dtype>::Method(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top)
#define BACKWARD(Name)                                                                                         \
  template <typename Dtype>                                                                                    \
  void Name##Layer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,   \
                                        const vector<Blob<Dtype>*>& bottom)

LAYER(Twice);  // y = 2 x, in place or not
METHOD(Twice, LayerSetUp) {}
METHOD(Twice, Reshape) { top[0]->ReshapeLike(*bottom[0]); }
METHOD(Twice, Forward_cpu) {
  for (int i = 0; i < top[0]->count(); ++i) top[0]->mutable_cpu_data()[i] = 2 * bottom[0]->cpu_data()[i];
}
BACKWARD(Twice) {
  for (int i = 0; i < top[0]->count(); ++i) bottom[0]->mutable_cpu_diff()[i] = 2 * top[0]->cpu_diff()[i];
}

LAYER(View);  // the top is the bottom, by pointers set in Reshape, as in Caffe's Flatten of 2014
METHOD(View, LayerSetUp) {}
METHOD(View, Reshape) {
  top[0]->ReshapeLike(*bottom[0]);
  top[0]->ShareData(*bottom[0]);
  top[0]->ShareDiff(*bottom[0]);
}
METHOD(View, Forward_cpu) {}
BACKWARD(View) {}

LAYER(Recall);  // y = x; the gradient is dy x, from a blob that Forward makes a view of the bottom
METHOD(Recall, LayerSetUp) {}
METHOD(Recall, Reshape) { top[0]->ReshapeLike(*bottom[0]); }
METHOD(Recall, Forward_cpu) {
  cache_.ReshapeLike(*bottom[0]);
  cache_.ShareData(*bottom[0]);
  caffe_copy(top[0]->count(), bottom[0]->cpu_data(), top[0]->mutable_cpu_data());
}
BACKWARD(Recall) { caffe_mul(top[0]->count(), top[0]->cpu_diff(), cache_.cpu_data(), bottom[0]->mutable_cpu_diff()); }

LAYER(Once);  // the top is made in SetUp alone
METHOD(Once, LayerSetUp) {
  top[0]->ReshapeLike(*bottom[0]);
  for (int i = 0; i < top[0]->count(); ++i) top[0]->mutable_cpu_data()[i] = i;
}
METHOD(Once, Reshape) {}
METHOD(Once, Forward_cpu) { ++calls_; }
BACKWARD(Once) {}

LAYER(Held);  // y = x but for the first number, which is in a blob that had the first top's memory
METHOD(Held, LayerSetUp) {
  top[0]->ReshapeLike(*bottom[0]);
  cache_.ReshapeLike(*bottom[0]);
  cache_.mutable_cpu_data()[0] = 5;
  top[0]->ShareData(cache_);
}
METHOD(Held, Reshape) { top[0]->ReshapeLike(*bottom[0]); }
METHOD(Held, Forward_cpu) {
  for (int i = 0; i < top[0]->count(); ++i)
    top[0]->mutable_cpu_data()[i] = i ? bottom[0]->cpu_data()[i] : cache_.cpu_data()[0];
}
BACKWARD(Held) { caffe_copy(top[0]->count(), top[0]->cpu_diff(), bottom[0]->mutable_cpu_diff()); }

LAYER(Learned);  // the top is the parameter, as in Caffe's Parameter
METHOD(Learned, LayerSetUp) {
  this->blobs_.assign(1, shared_ptr<Blob<Dtype> >(new Blob<Dtype>(vector<int>(1, 4))));
  top[0]->Reshape(vector<int>(1, 4));
}
METHOD(Learned, Reshape) {
  top[0]->ShareData(*this->blobs_[0]);
  top[0]->ShareDiff(*this->blobs_[0]);
}
METHOD(Learned, Forward_cpu) {}
BACKWARD(Learned) {}

LAYER(Alias);  // the top is the bottom, by a pointer set in SetUp
METHOD(Alias, LayerSetUp) {
  top[0]->ReshapeLike(*bottom[0]);
  top[0]->set_cpu_data(bottom[0]->mutable_cpu_data());
}
METHOD(Alias, Reshape) {}
METHOD(Alias, Forward_cpu) {}
BACKWARD(Alias) {}

// The positive numbers of x, as many as there are, and at least one; the parameter counts the passes.
LAYER(Positive);
METHOD(Positive, LayerSetUp) { this->blobs_.assign(1, shared_ptr<Blob<Dtype> >(new Blob<Dtype>(vector<int>(1, 1)))); }
METHOD(Positive, Reshape) {
  if (!calls_++) top[0]->Reshape(vector<int>(1, 1));
}
METHOD(Positive, Forward_cpu) {
  vector<Dtype> found;
  for (int i = 0; i < bottom[0]->count(); ++i)
    if (bottom[0]->cpu_data()[i] > 0) found.push_back(bottom[0]->cpu_data()[i]);
  found.resize(std::max<size_t>(found.size(), 1));
  top[0]->Reshape(vector<int>(1, found.size()));
  caffe_copy(int(found.size()), found.data(), top[0]->mutable_cpu_data());
  this->blobs_[0]->mutable_cpu_data()[0] += 1;
}
BACKWARD(Positive) {
  for (int i = 0, n = 0; i < bottom[0]->count(); ++i) {
    const bool positive = bottom[0]->cpu_data()[i] > 0;
    bottom[0]->mutable_cpu_diff()[i] = positive ? top[0]->cpu_diff()[n++] : 0;
  }
  this->blobs_[0]->mutable_cpu_diff()[0] = 7;
}

INSTANTIATE_CLASS(TwiceLayer);
REGISTER_LAYER_CLASS(Twice);
INSTANTIATE_CLASS(ViewLayer);
REGISTER_LAYER_CLASS(View);
INSTANTIATE_CLASS(RecallLayer);
REGISTER_LAYER_CLASS(Recall);
INSTANTIATE_CLASS(OnceLayer);
REGISTER_LAYER_CLASS(Once);
INSTANTIATE_CLASS(LearnedLayer);
REGISTER_LAYER_CLASS(Learned);
INSTANTIATE_CLASS(AliasLayer);
REGISTER_LAYER_CLASS(Alias);
INSTANTIATE_CLASS(HeldLayer);
REGISTER_LAYER_CLASS(Held);
INSTANTIATE_CLASS(PositiveLayer);
REGISTER_LAYER_CLASS(Positive);

}  // namespace caffe
