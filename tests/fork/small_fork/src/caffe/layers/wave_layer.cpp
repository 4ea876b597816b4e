#include <vector>

#include "caffe/layers/wave_layer.hpp"

namespace caffe {

template <typename Dtype>
void WaveLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  // on GPUs only
}

template <typename Dtype>
void WaveLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                    const vector<Blob<Dtype>*>& bottom) {
  NOT_IMPLEMENTED;
}

#ifdef CPU_ONLY
STUB_GPU(WaveLayer);
#endif

INSTANTIATE_CLASS(WaveLayer);
REGISTER_LAYER_CLASS(Wave);

}  // namespace caffe
