// A fork's own Net, and the solver that trains it, by functions beside those of driver.cpp.
#include "driver.cpp"

#include "caffe/net.hpp"
#include "caffe/solver.hpp"
#if __has_include("caffe/sgd_solvers.hpp")
#include "caffe/sgd_solvers.hpp"
#endif
#if __has_include("caffe/solver_factory.hpp")
#include "caffe/solver_factory.hpp"
#define FORK_SOLVERS
#endif

namespace caffe {

struct Solved {  // chosen where no GetSolver takes the message itself
  Solved(const SolverParameter& param) : param(param) {}
  const SolverParameter& param;
};
#ifndef FORK_SOLVERS
template <typename P>
auto named(const P& param, int) -> decltype(std::string(param.type())) { return param.type(); }
template <typename P>
std::string named(const P&, long) { return ""; }

template <typename Dtype>
Solver<Dtype>* GetSolver(const Solved& solved) {
  const std::string type = named(solved.param, 0);
  if (type.empty() || type == "SGD") return new SGDSolver<Dtype>(solved.param);
  throw std::runtime_error("the fork makes the solver " + type + " neither by GetSolver nor by a SolverRegistry");
}
#endif

}  // namespace caffe

namespace {

typedef caffe::Net<float> N;
typedef caffe::Solver<float> S;

struct Trained {  // solver: null where the net alone is wanted
  std::shared_ptr<N> net;
  std::shared_ptr<S> solver;
};

template <typename T>
auto forward_prefilled(T* net, int) -> decltype(net->ForwardPrefilled(static_cast<float*>(nullptr)), float()) {
  float loss = 0;
  net->ForwardPrefilled(&loss);
  return loss;
}
template <typename T>
float forward_prefilled(T* net, long) { return net->ForwardPrefilled(), 0; }
template <typename T>
auto forward(T* net, int) -> decltype(net->Forward(static_cast<float*>(nullptr)), float()) {
  float loss = 0;
  net->Forward(&loss);
  return loss;
}
template <typename T>
float forward(T* net, long) { return forward_prefilled(net, 0); }

template <typename T>
auto prepare(T* solver, int) -> decltype(solver->PreSolve(), void()) { solver->PreSolve(); }
template <typename T>
void prepare(T*, long) {}

template <typename T>
auto update(T* solver, N*, int) -> decltype(solver->ApplyUpdate(), void()) { solver->ApplyUpdate(); }
template <typename T>
void update(T* solver, N* net, long) { solver->ComputeUpdateValue(), net->Update(); }

N* net_of(void* object) { return static_cast<Trained*>(object)->net.get(); }

}  // namespace

FORK_API void* fork_net(const char* message, int size, int phase, int solver) {
  Trained* made = nullptr;
  shim::layer_made().clear();
  guarded([&] {
    Caffe::set_mode(Caffe::CPU);
    set_global_phase<Caffe>(phase, 0);
    std::unique_ptr<Trained> object(new Trained());
    if (solver) {
      caffe::SolverParameter param;
      param.ParseFromArray(message, size);
#ifdef FORK_SOLVERS
      object->solver.reset(caffe::SolverRegistry<float>::CreateSolver(param));
#else
      object->solver.reset(caffe::GetSolver<float>(param));
#endif
      prepare(object->solver.get(), 0);
      object->solver->iter_ = 0;
      object->net = object->solver->net_;
    } else {
      caffe::NetParameter param;
      param.ParseFromArray(message, size);
      object->net.reset(new N(param));
    }
    made = object.release();
  });
  if (!made && !shim::layer_made().empty()) error = "layer \"" + shim::layer_made() + "\": " + error;
  return made;
}

FORK_API int fork_net_forward(void* net, float* loss) {
  return guarded([=] { *loss = forward(net_of(net), 0); });
}
FORK_API int fork_net_backward(void* net) {
  return guarded([=] { net_of(net)->Backward(); });
}

// One iteration's change of the parameters, from the gradients in the net.
FORK_API int fork_net_update(void* net) {
  return guarded([=] {
    S* solver = static_cast<Trained*>(net)->solver.get();
    const int iteration = solver->iter_;
    update(solver, net_of(net), 0);
    solver->iter_ = iteration + 1;
  });
}

FORK_API int fork_net_blobs(void* net) { return net_of(net)->blobs().size(); }
FORK_API void* fork_net_blob(void* net, int i) { return net_of(net)->blobs()[i].get(); }
FORK_API const char* fork_net_blob_name(void* net, int i) { return net_of(net)->blob_names()[i].c_str(); }
FORK_API int fork_net_layers(void* net) { return net_of(net)->layers().size(); }
FORK_API const char* fork_net_layer_name(void* net, int i) { return net_of(net)->layer_names()[i].c_str(); }
FORK_API int fork_net_params(void* net, int layer, void** params, int most) {
  auto& own = net_of(net)->layers()[layer]->blobs();
  for (int i = 0; i < int(own.size()) && i < most; ++i) params[i] = own[i].get();
  return own.size();
}
