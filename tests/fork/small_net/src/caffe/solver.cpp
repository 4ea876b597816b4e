#include "caffe/solver.hpp"

namespace caffe {

template <typename Dtype>
Solver<Dtype>::Solver(const SolverParameter& param) : param_(param), net_(new Net<Dtype>(param.train_net_param())) {}

template <typename Dtype>
void SGDSolver<Dtype>::PreSolve() {
  for (const auto& layer : this->net_->layers())
    for (const auto& blob : layer->blobs()) history_.push_back(vector<Dtype>(blob->count()));
}

template <typename Dtype>
void SGDSolver<Dtype>::ComputeUpdateValue() {
  const Dtype rate = this->param_.base_lr(), momentum = this->param_.momentum();
  int k = 0;
  for (const auto& layer : this->net_->layers())
    for (const auto& blob : layer->blobs()) {
      Dtype* gradient = blob->mutable_cpu_diff();
      for (int i = 0; i < blob->count(); ++i) {
        history_[k][i] = rate * gradient[i] + momentum * history_[k][i];
        gradient[i] = history_[k][i];
      }
      ++k;
    }
}

INSTANTIATE_CLASS(Solver);
INSTANTIATE_CLASS(SGDSolver);

}  // namespace caffe
