#include <vector>

#include "caffe/layers/wave_layer.hpp"

namespace caffe {

template <typename Dtype>
__global__ void Sum(const int n, const Dtype* in, Dtype* out) {
  __shared__ Dtype part[64];
  part[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = part[0];
}

template <typename Dtype>
void TogetherLayer<Dtype>::Forward_gpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  Sum<Dtype><<<1, 64>>>(bottom[0]->count(), bottom[0]->gpu_data(), top[0]->mutable_gpu_data());
}

template <typename Dtype>
void TogetherLayer<Dtype>::Backward_gpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                        const vector<Blob<Dtype>*>& bottom) {
}

INSTANTIATE_LAYER_GPU_FUNCS(TogetherLayer);

}  // namespace caffe
