#include <vector>

#include "caffe/layers/wave_layer.hpp"
#include "caffe/util/math_functions.hpp"

namespace caffe {

template <typename Dtype>
__global__ void WaveForward(const int n, const Dtype frequency, const Dtype* in, Dtype* out) {
  CUDA_KERNEL_LOOP(index, n) {
    out[index] = sin(frequency * in[index]);
  }
}

template <typename Dtype>
__global__ void WaveBackward(const int n, const Dtype frequency, const Dtype* in, const Dtype* out_diff,
                             Dtype* in_diff) {
  CUDA_KERNEL_LOOP(index, n) {
    in_diff[index] = out_diff[index] * frequency * cos(frequency * in[index]);
  }
}

template <typename Dtype>
void WaveLayer<Dtype>::Forward_gpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  const int count = bottom[0]->count();
  WaveForward<Dtype><<<CAFFE_GET_BLOCKS(count), CAFFE_CUDA_NUM_THREADS>>>(
      count, this->layer_param_.wave_param().frequency(), bottom[0]->gpu_data(), top[0]->mutable_gpu_data());
  CUDA_POST_KERNEL_CHECK;
}

template <typename Dtype>
void WaveLayer<Dtype>::Backward_gpu(const vector<Blob<Dtype>*>& top, const vector<bool>& propagate_down,
                                    const vector<Blob<Dtype>*>& bottom) {
  const int count = bottom[0]->count();
  // NOLINT_NEXT_LINE(whitespace/operators)
  WaveBackward<Dtype><<<CAFFE_GET_BLOCKS(count), CAFFE_CUDA_NUM_THREADS>>>(
      count, this->layer_param_.wave_param().frequency(), bottom[0]->gpu_data(), top[0]->gpu_diff(),
      bottom[0]->mutable_gpu_diff());
}

INSTANTIATE_LAYER_GPU_FUNCS(WaveLayer);

}  // namespace caffe
