// The functions by which a fork's layers are called, for all generations of Caffe: what a class lacks is decided by
// what compiles. Every function returns -1 after an error, whose text fork_error gives.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fork_prelude.hpp"

namespace {

using caffe::Blob;
using caffe::Caffe;
typedef Blob<float> B;
typedef std::vector<B*> Blobs;
typedef caffe::Layer<float> L;

struct Object {  // a layer
  std::shared_ptr<L> layer;
  std::vector<std::vector<int>> shapes;  // of the bottoms for which it was set up, where it has no Reshape
};

std::string error;

template <typename F>
int guarded(F body) {
  try {
    error.clear();
    body();
    return 0;
  } catch (const std::exception& mistake) {
    error = mistake.what();
  } catch (...) {
    error = "an exception of an unknown type";
  }
  if (error.empty()) error = "an exception without a text";
  return -1;
}

// Where a class has the newer of two interfaces, the overload with int is chosen, else the one with long.

template <typename T>
auto reshape(T* blob, const std::vector<int>& shape, int) -> decltype(blob->Reshape(shape), void()) { blob->Reshape(shape); }
template <typename T>
auto reshape_old(T* blob, const int* d, int) -> decltype(blob->length(), void()) { blob->Reshape(d[0], d[1], d[2], d[3], d[4]); }
template <typename T>
void reshape_old(T* blob, const int* d, long) { blob->Reshape(d[0], d[1], d[2], d[3]); }
template <typename T>
void reshape(T* blob, std::vector<int> shape, long) {
  if (shape.size() > 5) throw std::runtime_error("blobs of this fork have fewer axes");
  shape.resize(5, 1);
  reshape_old(blob, shape.data(), 0);
}

template <typename T>
auto shape_of(const T* blob, int) -> decltype(std::vector<int>(blob->shape())) { return blob->shape(); }
template <typename T>
auto shape_old(const T* b, int) -> decltype(b->length(), std::vector<int>()) {
  return {b->num(), b->channels(), b->length(), b->height(), b->width()};
}
template <typename T>
std::vector<int> shape_old(const T* b, long) { return {b->num(), b->channels(), b->height(), b->width()}; }
template <typename T>
std::vector<int> shape_of(const T* blob, long) { return shape_old(blob, 0); }

template <typename P>
auto set_phase(P& param, int phase, int) -> decltype(param.phase(), void()) {
  param.set_phase(static_cast<decltype(param.phase())>(phase));
}
template <typename P>
void set_phase(P&, int, long) {}
template <typename C>
auto set_global_phase(int phase, int) -> decltype(C::set_phase(typename C::Phase(0)), void()) { C::set_phase(typename C::Phase(phase)); }
template <typename C>
void set_global_phase(int, long) {}

std::shared_ptr<L> adopted(L* layer) { return std::shared_ptr<L>(layer); }
std::shared_ptr<L> adopted(const std::shared_ptr<L>& layer) { return layer; }

float last_loss;  // what forward has returned, in forks whose losses have no top

template <typename F>
void note_loss(F call) {
  if constexpr (std::is_void<decltype(call())>::value) call();
  else last_loss = float(call());
}

// Tops by reference or by pointer
template <typename T, typename R>
void call(T* layer, R (T::*f)(const Blobs&, const Blobs&), const Blobs& bottom, Blobs& top) {
  note_loss([&] { return (layer->*f)(bottom, top); });
}
template <typename T, typename R>
void call(T* layer, R (T::*f)(const Blobs&, Blobs*), const Blobs& bottom, Blobs& top) {
  note_loss([&] { return (layer->*f)(bottom, &top); });
}
template <typename T, typename R>
void call(T* layer, R (T::*f)(const Blobs&, const std::vector<bool>&, const Blobs&), const Blobs& top,
          const std::vector<bool>& down, Blobs& bottom) {
  (layer->*f)(top, down, bottom);
}
template <typename T, typename R>
void call(T* layer, R (T::*f)(const Blobs&, const std::vector<bool>&, Blobs*), const Blobs& top,
          const std::vector<bool>& down, Blobs& bottom) {
  (layer->*f)(top, down, &bottom);
}
template <typename T, typename R, typename Flag>
typename std::enable_if<std::is_same<typename std::remove_const<Flag>::type, bool>::value>::type call(
    T* layer, R (T::*f)(const Blobs&, Flag, Blobs*), const Blobs& top, const std::vector<bool>& down, Blobs& bottom) {
  bool any = false;
  for (bool each : down) any = any || each;
  (layer->*f)(top, any, &bottom);
}

std::vector<std::vector<int>> shapes_of(const Blobs& blobs) {
  std::vector<std::vector<int>> shapes;
  for (const B* blob : blobs) shapes.push_back(shape_of(blob, 0));
  return shapes;
}

template <typename T>
auto reshape_layer(Object*, T* layer, const Blobs& bottom, Blobs& top, int) -> decltype(&T::Reshape, void()) { call(layer, &T::Reshape, bottom, top); }
template <typename T>
void reshape_layer(Object* object, T* layer, const Blobs& bottom, Blobs& top, long) {
  if (object->shapes == shapes_of(bottom)) return;
  object->shapes = shapes_of(bottom);
  call(layer, &T::SetUp, bottom, top);
}

#define FORK_COUNT(name)                                                  \
  template <typename T>                                                   \
  auto name##_of(T* layer, int)->decltype(int(layer->name())) {           \
    return layer->name();                                                 \
  }                                                                       \
  template <typename T>                                                   \
  int name##_of(T*, long) {                                               \
    return -1;                                                            \
  }
template <typename P>
auto rate(const P& param, int i, int) -> decltype(float(param.param(i).lr_mult())) {
  return i < param.param_size() ? param.param(i).lr_mult() : 1;
}
template <typename P>
float rate(const P& param, int i, long) { return i < param.blobs_lr_size() ? param.blobs_lr(i) : 1; }

FORK_COUNT(ExactNumBottomBlobs)
FORK_COUNT(MinBottomBlobs)
FORK_COUNT(MaxBottomBlobs)
FORK_COUNT(ExactNumTopBlobs)
FORK_COUNT(MinTopBlobs)
FORK_COUNT(MaxTopBlobs)
FORK_COUNT(AutoTopBlobs)

template <typename T>
auto forced_of(T* layer, int bottom, int) -> decltype(bool(layer->AllowForceBackward(bottom))) {
  return layer->AllowForceBackward(bottom);
}
template <typename T>
bool forced_of(T*, int, long) {
  return true;
}

Blobs blobs(void** pointers, int count) {
  Blobs result;
  for (int i = 0; i < count; ++i) result.push_back(static_cast<B*>(pointers[i]));
  return result;
}

// The memory of a blob's numbers, or its gradients. A class that does not say it takes no memory of others.

template <typename T>
auto room_of(T* blob, int) -> decltype(blob->data()->size(), long()) {
  return blob->data() ? blob->data()->size() / sizeof(float) : 0;
}
template <typename T>
long room_of(T* blob, long) { return blob->count(); }

template <typename T>
auto is_shared(T* blob, bool diff, int) -> decltype(blob->diff().use_count(), bool()) {
  return (diff ? blob->diff() : blob->data()).use_count() > 1;
}
template <typename T>
bool is_shared(T*, bool, long) { return false; }

template <typename T>
auto use(T* blob, bool diff, void* memory, size_t size, bool keep, int)
    -> decltype(blob->diff()->set_cpu_data(memory), blob->diff()->size(), bool()) {
  auto& own = diff ? blob->diff() : blob->data();
  if (!own || own->size() != size) return false;
  if (keep) {
    const void* before = own->cpu_data();
    if (before != memory) std::memcpy(memory, before, size);
  }
  own->set_cpu_data(memory);
  return true;
}
template <typename T>
bool use(T*, bool, void*, size_t, bool, long) { return false; }

template <typename C>
auto seed(unsigned number, int) -> decltype(C::set_random_seed(number), void()) { C::set_random_seed(number); }
template <typename C>  // OpenCL Caffe seeds a device
void seed(unsigned number, long) { C::set_random_seed(number, C::GetDefaultDevice()); }

struct OnGpu {  // the mode in which a layer's kernels are called
  explicit OnGpu(bool gpu) { Caffe::set_mode(gpu ? Caffe::GPU : Caffe::CPU); }
  ~OnGpu() { Caffe::set_mode(Caffe::CPU); }
};

}  // namespace

#define FORK_API extern "C" __attribute__((visibility("default")))

extern "C" [[noreturn]] void fork_missing(const char* name) {
  throw std::runtime_error(std::string("the layer needs ") + name);
}

FORK_API const char* fork_error() { return error.c_str(); }
FORK_API int fork_seed(unsigned number) { return guarded([=] { seed<Caffe>(number, 0); }); }

FORK_API void* fork_create(const char* message, int size, int phase) {
  Object* object = nullptr;
  guarded([&] {
    Caffe::set_mode(Caffe::CPU);
    caffe::LayerParameter param;
    param.ParseFromArray(message, size);
    set_phase(param, phase, 0);
    set_global_phase<Caffe>(phase, 0);
#ifdef FORK_REGISTRY
    std::shared_ptr<L> layer = adopted(caffe::LayerRegistry<float>::CreateLayer(param));
#else
    std::shared_ptr<L> layer = adopted(caffe::GetLayer<float>(param));
#endif
    object = new Object{layer, {}};
  });
  return object;
}
FORK_API void fork_delete(void* object) { delete static_cast<Object*>(object); }

FORK_API void fork_counts(void* object, int* counts) {
  L* layer = static_cast<Object*>(object)->layer.get();
  const int all[] = {ExactNumBottomBlobs_of(layer, 0), MinBottomBlobs_of(layer, 0), MaxBottomBlobs_of(layer, 0),
                     ExactNumTopBlobs_of(layer, 0),    MinTopBlobs_of(layer, 0),    MaxTopBlobs_of(layer, 0),
                     AutoTopBlobs_of(layer, 0)};
  for (int count : all) *counts++ = count;
}

FORK_API int fork_setup(void* object, void** bottoms, int nb, void** tops, int nt) {
  return guarded([=] {
    Object* made = static_cast<Object*>(object);
    Blobs bottom = blobs(bottoms, nb), top = blobs(tops, nt);
    made->shapes = shapes_of(bottom);
    call(made->layer.get(), &L::SetUp, bottom, top);
  });
}
FORK_API int fork_reshape(void* object, void** bottoms, int nb, void** tops, int nt) {
  return guarded([=] {
    Blobs top = blobs(tops, nt);
    Object* made = static_cast<Object*>(object);
    reshape_layer(made, made->layer.get(), blobs(bottoms, nb), top, 0);
  });
}
FORK_API int fork_forward(void* object, void** bottoms, int nb, void** tops, int nt, int phase, int gpu) {
  return guarded([=] {
    L* layer = static_cast<Object*>(object)->layer.get();
    Blobs top = blobs(tops, nt);
    set_global_phase<Caffe>(phase, 0);
    OnGpu mode(gpu);
    if (gpu) call(layer, &L::Forward_gpu, blobs(bottoms, nb), top);
    else call(layer, &L::Forward_cpu, blobs(bottoms, nb), top);
  });
}
FORK_API float fork_loss() { return last_loss; }
FORK_API int fork_backward(void* object, void** tops, int nt, const char* down, void** bottoms, int nb, int phase, int gpu) {
  return guarded([=] {
    L* layer = static_cast<Object*>(object)->layer.get();
    Blobs bottom = blobs(bottoms, nb);
    const std::vector<bool> flags(down, down + nb);
    set_global_phase<Caffe>(phase, 0);
    OnGpu mode(gpu);
    if (gpu) call(layer, &L::Backward_gpu, blobs(tops, nt), flags, bottom);
    else call(layer, &L::Backward_cpu, blobs(tops, nt), flags, bottom);
  });
}
FORK_API int fork_params(void* object, void** params, int most) {
  auto& own = static_cast<Object*>(object)->layer->blobs();
  for (int i = 0; i < int(own.size()) && i < most; ++i) params[i] = own[i].get();
  return own.size();
}

// How a layer multiplies the learning rate of a parameter: 0 where it computes the parameter itself.
FORK_API float fork_rate(void* object, int param) {
  return rate(static_cast<Object*>(object)->layer->layer_param(), param, 0);
}

// Whether a net that computes all gradients computes that of a bottom.
FORK_API int fork_forced(void* object, int bottom) {
  return forced_of(static_cast<Object*>(object)->layer.get(), bottom, 0);
}

FORK_API void* fork_blob() { return new B(); }
FORK_API void fork_blob_delete(void* blob) { delete static_cast<B*>(blob); }
FORK_API int fork_blob_reshape(void* blob, const int* shape, int axes) {
  return guarded([=] { reshape(static_cast<B*>(blob), std::vector<int>(shape, shape + axes), 0); });
}
FORK_API int fork_blob_shape(void* blob, int* shape, int most) {
  const std::vector<int> dims = shape_of(static_cast<B*>(blob), 0);
  for (int i = 0; i < int(dims.size()) && i < most; ++i) shape[i] = dims[i];
  return dims.size();
}
FORK_API long fork_blob_count(void* blob) { return static_cast<B*>(blob)->count(); }
FORK_API float* fork_blob_data(void* blob) {
  B* b = static_cast<B*>(blob);
  return b->count() ? b->mutable_cpu_data() : nullptr;
}
FORK_API float* fork_blob_diff(void* blob) {
  B* b = static_cast<B*>(blob);
  return b->count() ? b->mutable_cpu_diff() : nullptr;
}
FORK_API long fork_blob_room(void* blob) {
  long room = 0;
  guarded([&] { room = room_of(static_cast<B*>(blob), 0); });
  return room;
}
// Whether another blob has the same memory for its numbers, or its gradients.
FORK_API int fork_blob_shared(void* blob, int diff) {
  int shared = 0;
  guarded([&] { shared = is_shared(static_cast<B*>(blob), diff, 0); });
  return shared;
}
// From now on a blob's numbers, or its gradients, are in memory of another, with room for as many as its own. keep: what
// they were is copied there. Returns whether the class can do that.
FORK_API int fork_blob_use(void* blob, int diff, float* memory, long room, int keep) {
  int used = 0;
  guarded([&] { used = use(static_cast<B*>(blob), diff, memory, room * sizeof(float), keep, 0); });
  return used;
}
