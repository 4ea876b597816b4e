#pragma once
#include <vector>

#include "caffe/net.hpp"

namespace caffe {

template <typename Dtype>
class Solver {
 public:
  explicit Solver(const SolverParameter& param);
  virtual ~Solver() {}

 protected:
  virtual void PreSolve() {}
  virtual void ComputeUpdateValue() = 0;
  SolverParameter param_;
  int iter_;
  shared_ptr<Net<Dtype> > net_;
};

template <typename Dtype>
class SGDSolver : public Solver<Dtype> {
 public:
  explicit SGDSolver(const SolverParameter& param) : Solver<Dtype>(param) {}

 protected:
  virtual void PreSolve();
  virtual void ComputeUpdateValue();
  vector<vector<Dtype> > history_;
};

}  // namespace caffe
