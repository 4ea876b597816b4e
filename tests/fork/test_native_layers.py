"""Layers of a small fork, compiled and run: their numbers, faults of the code, training and resuming."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from caffelite import TRAIN, Net, Solver
from caffelite.errors import CaffeliteError
from caffelite.fork import build, option

pytestmark = pytest.mark.slow  # a C++ compiler works for half a minute
FORK = Path(__file__).parent / "small_fork"
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } } }\n'
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(2, 3, 2, 2)).astype(np.float32)
SOLVER = (
    'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" momentum: 0.9 max_iter: 20 random_seed: 7 solver_mode: CPU\n'
)
TRAINED = """
layer { name: "data" type: "DummyData" top: "x" top: "t" dummy_data_param {
  shape { dim: 4 dim: 3 dim: 2 dim: 2 } shape { dim: 4 dim: 2 dim: 2 dim: 2 }
  data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 0.3 } } }
layer { name: "noise" type: "Noise" bottom: "x" top: "n" noise_param { std: 0.05 } }
layer { name: "mix" type: "ChannelMix" bottom: "n" top: "y" param { lr_mult: 1 } param { lr_mult: 2 }
  channel_mix_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "wave" type: "Wave" bottom: "y" top: "w" wave_param { frequency: 0.7 } }
layer { name: "loss" type: "HuberLoss" bottom: "w" bottom: "t" top: "loss" huber_loss_param { mean: ALL } }
"""


@pytest.fixture(autouse=True)
def no_fork():
    yield
    option.leave()


def layer(kind, more="", bottoms=("x",), top="y"):
    wired = " ".join(f'bottom: "{name}"' for name in bottoms)
    return f'layer {{ name: "own" type: "{kind}" {wired} top: "{top}" {more} }}\n'


def net(tmp_path, text, fork=FORK, **options):
    path = tmp_path / "net.prototxt"
    path.write_text("force_backward: true\n" + text)
    return Net(path, TRAIN, fork=fork, **options)


def passes(tmp_path, text, fork=FORK, dy=None):
    """The top, the gradient of x for ``dy``, and the net."""
    made = net(tmp_path, INPUT + text, fork)
    made.blobs["x"].data[...] = X
    y = made.forward()["y"].copy()
    made.blobs["y"].diff[...] = np.ones_like(y) if dy is None else dy
    made.backward()
    return y, made.blobs["x"].diff.copy(), made


DOUBLED = """
#include "caffe/layers/bend_layer.hpp"
namespace caffe {
template <typename Dtype> void caffe_gpu_twice(const int n, Dtype* y);
template <typename Dtype>
class DoubledLayer : public BendLayer<Dtype> {
 public:
  explicit DoubledLayer(const LayerParameter& param) : BendLayer<Dtype>(param) {}
  virtual inline const char* type() const { return "Doubled"; }
 protected:
  virtual void Forward_cpu(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
    caffe_copy(bottom[0]->count(), bottom[0]->cpu_data(), top[0]->mutable_cpu_data());
    caffe_gpu_twice(top[0]->count(), top[0]->mutable_cpu_data());
  }
};
INSTANTIATE_CLASS(DoubledLayer);
REGISTER_LAYER_CLASS(Doubled);
}
"""
TWICE = """
#include "caffe/common.hpp"
namespace caffe {
template <typename Dtype>
__global__ void twice_kernel(const int n, Dtype* y) { CUDA_KERNEL_LOOP(i, n) { y[i] *= 2; } }
template <typename Dtype>
void caffe_gpu_twice(const int n, Dtype* y) {
  twice_kernel<Dtype><<<CAFFE_GET_BLOCKS(n), CAFFE_CUDA_NUM_THREADS>>>(n, y);
}
template void caffe_gpu_twice<float>(const int n, float* y);
template void caffe_gpu_twice<double>(const int n, double* y);
}
"""


def test_a_function_on_device_memory_that_a_layer_calls(tmp_path):
    """From code for the CPU, as layers that nobody ran without a GPU do."""
    fork = shutil.copytree(FORK, tmp_path / "fork")
    (fork / "src/caffe/layers/doubled_layer.cpp").write_text(DOUBLED)
    (fork / "src/caffe/util/twice.cu").write_text(TWICE)
    made = net(tmp_path, INPUT + layer("Doubled"), fork)
    made.blobs["x"].data[...] = X
    np.testing.assert_array_equal(made.forward()["y"], 2 * X)


SPARSE = """
#include <cusparse.h>
#include "caffe/layers/bend_layer.hpp"
namespace caffe {
template <typename Dtype>
class SparseLayer : public BendLayer<Dtype> {
 public:
  explicit SparseLayer(const LayerParameter& param) : BendLayer<Dtype>(param) {
    CHECK_EQ(cusparseCreate(&handle_), CUSPARSE_STATUS_SUCCESS);
    CHECK_EQ(cusparseCreateMatDescr(&matrix_), CUSPARSE_STATUS_SUCCESS);
    cusparseSetMatType(matrix_, CUSPARSE_MATRIX_TYPE_GENERAL);
    cusparseSetMatIndexBase(matrix_, CUSPARSE_INDEX_BASE_ZERO);
  }
  virtual ~SparseLayer() { cusparseDestroyMatDescr(matrix_), cusparseDestroy(handle_); }
  virtual inline const char* type() const { return "Sparse"; }
 protected:
  cusparseHandle_t handle_;
  cusparseMatDescr_t matrix_;
};
INSTANTIATE_CLASS(SparseLayer);
REGISTER_LAYER_CLASS(Sparse);
}
"""


def test_a_layer_that_holds_matrices_of_cusparse_runs(tmp_path):
    """On a CPU, where nothing computes with them."""
    fork = shutil.copytree(FORK, tmp_path / "fork")
    (fork / "src/caffe/layers/sparse_layer.cpp").write_text(SPARSE)
    made = net(tmp_path, INPUT + layer("Sparse"), fork)
    made.blobs["x"].data[...] = X
    np.testing.assert_allclose(made.forward()["y"], X / (1 + abs(X)), rtol=1e-5)


ROWS = {
    "Bend": ("bend_param { slope: 2 }", lambda x: x / (1 + 2 * abs(x)), lambda x: (1 + 2 * abs(x)) ** -2.0),
    "Wave": ("wave_param { frequency: 3 }", lambda x: np.sin(3 * x), lambda x: 3 * np.cos(3 * x)),
    "AbsVal": ("abs_factor: 4", lambda x: 4 * abs(x), lambda x: 4 * np.sign(x)),
}


@pytest.mark.parametrize("kind", ROWS)
def test_numbers_are_those_of_the_forks_code(tmp_path, kind):
    """In C++, in CUDA alone beside an empty Forward_cpu, and of a type of Caffe's with another field."""
    fields, y, dy = ROWS[kind]
    top, gradient, _ = passes(tmp_path, layer(kind, fields))
    np.testing.assert_allclose(top, y(X.astype(float)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, dy(X.astype(float)), rtol=1e-5, atol=1e-6)


def test_parameters_are_filled_and_get_gradients(tmp_path):
    fields = 'channel_mix_param { num_output: 4 weight_filler { type: "xavier" } }'
    dy = RANDOM.normal(size=(2, 4, 2, 2)).astype(np.float32)
    top, gradient, made = passes(tmp_path, layer("ChannelMix", fields), dy=dy)
    w, b = (blob.data for blob in made.params["own"])
    assert (w.shape, b.shape) == ((4, 3), (4,)) and 0.1 < abs(w).max() <= 1
    np.testing.assert_allclose(top, np.einsum("oc,nchw->nohw", w, X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, np.einsum("oc,nohw->nchw", w, dy), rtol=1e-5, atol=1e-6)
    dw, db = (blob.diff for blob in made.params["own"])
    np.testing.assert_allclose(dw, np.einsum("nohw,nchw->oc", dy, X), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(db, dy.sum((0, 2, 3)), rtol=1e-5, atol=1e-5)


def test_a_layer_of_2018_runs(tmp_path):
    """With a creator, an engine, unique_ptr, lambdas, override and final."""
    fields = 'blend_param { filler { type: "uniform" min: 0.2 max: 0.9 } engine: %s }'
    dy = RANDOM.normal(size=X.shape).astype(np.float32)
    top, gradient, made = passes(tmp_path, layer("Blend", fields % "CAFFE"), dy=dy)
    weights = made.params["own"][0]
    w = weights.data[:, None, None]
    mean, mean_dy = X.mean((2, 3), keepdims=True), dy.mean((2, 3), keepdims=True)
    assert weights.data.shape == (3,) and 0.2 <= w.min() < w.max() <= 0.9
    np.testing.assert_allclose(top, w * X + (1 - w) * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, w * dy + (1 - w) * mean_dy, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights.diff, (dy * (X - mean)).sum((0, 2, 3)), rtol=1e-4, atol=1e-5)
    option.leave()
    with pytest.raises(CaffeliteError, match="blend_layer.cpp:[0-9]+: Blend has no engine CUDNN"):
        passes(tmp_path, layer("Blend", fields % "CUDNN"))


def test_layers_compute_with_arrays_of_opencv(tmp_path):
    """A layer whose Forward_cpu computes with cv::Mat, beside a function that draws and does not compile."""
    (top, _, _) = passes(tmp_path, layer("Peak"))
    flat = X.reshape(2, 3, 4)
    most = flat.argmax(2)
    np.testing.assert_array_equal(top[..., 0], np.stack([most % 2, most // 2, flat.max(2)], -1).astype(np.float32))


def test_a_folder_of_layers_alone_is_a_fork(tmp_path):
    """Two files, without a caffe.proto and a core, that use layers of Caffe's."""
    dy = RANDOM.normal(size=X.shape).astype(np.float32)
    top, gradient, _ = passes(tmp_path, layer("Gate"), FORK.parent / "drop_in", dy)
    x = X.astype(float)
    gate, soft = 1 / (1 + np.exp(-x)), np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(top, gate + soft, rtol=1e-5)
    wanted = dy * gate * (1 - gate) + soft * (dy - (dy * soft).sum(1, keepdims=True))
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)


def test_a_loss_without_a_top_has_weight_one(tmp_path):
    text = INPUT + INPUT.replace('"x"', '"t"') + layer("HuberLoss", bottoms=("x", "t")).replace('top: "y"', "")
    made = net(tmp_path, text)
    made.blobs["x"].data[...] = X
    made.forward()
    made.backward()
    np.testing.assert_allclose(made.blobs["x"].diff, np.clip(X, -0.5, 0.5) / 2, rtol=1e-6)


FAULTS = {
    "Leave": r"Forward of src/caffe/layers/faulty_layers.cpp: its process ended by exit\(1\)",
    "Crash": "Forward of src/caffe/layers/faulty_layers.cpp: its process was ended by SIGSEGV",
    "Limit": r"src/caffe/util/limits.cpp:8: Check failed: x\[i\] <= most \(.* vs. 1\) a value is too large",
    "Broken": "broken_layer.cpp of the fork does not compile; found src/caffe/layers/broken_layer.cpp:7: .*no_such",
    "Together": "together_layer.cu:9: __shared__: threads that work together",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_names_the_forks_file_and_the_line(tmp_path, kind):
    with pytest.raises(CaffeliteError, match=FAULTS[kind]) as caught:
        passes(tmp_path, layer(kind))
    assert str(caught.value).startswith(f"{tmp_path / 'net.prototxt'}:3:")
    assert passes(tmp_path, layer("Bend"))[0].shape == X.shape  # the next net has a process again


def test_a_state_outside_the_parameters_is_named(tmp_path, caplog):
    passes(tmp_path, layer("Remember"))
    assert [r.message for r in caplog.records if "outside its parameters" in r.message][0].startswith(
        'layer "own" (Remember'
    )
    caplog.clear()
    passes(tmp_path, layer("Noise"))
    assert "outside its parameters" not in caplog.text


def trained(folder, resume=None, steps=20):
    solver = Solver(folder / "solver.prototxt", fork=FORK, resume=resume)
    solver.step(steps)
    return solver


def test_a_resumed_training_is_exact(tmp_path, monkeypatch):
    (tmp_path / "net.prototxt").write_text(TRAINED)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    monkeypatch.chdir(tmp_path)
    whole, half = trained(tmp_path), trained(tmp_path, steps=10)
    half.snapshot()
    rest = trained(tmp_path, resume=next(tmp_path.glob("*.solverstate")), steps=10)
    for a, b in zip(whole.net.params["mix"], rest.net.params["mix"], strict=True):
        np.testing.assert_array_equal(a.data, b.data)
    assert whole.net.blobs["loss"].data < 0.05


def with_core(folder):
    """The small fork as a whole Caffe: with the core that stands for one."""
    shutil.copytree(FORK, folder)
    for each in ("include", "src"):
        shutil.copytree(build.CORE / each, folder / each, dirs_exist_ok=True)
    return folder


def test_a_fork_with_a_core_of_its_own_uses_it(tmp_path):
    fork = with_core(tmp_path / "fork")
    blob = fork / "src/caffe/common.cpp"
    blob.write_text(blob.read_text().replace("generator.seed(seed)", 'LOG(FATAL) << "own core"'))
    (fork / "src/caffe/syncedmem.cpp").write_text('#include "caffe/syncedmem.hpp"\n')
    with pytest.raises(CaffeliteError, match="src/caffe/common.cpp:[0-9]+: own core"):
        passes(tmp_path, layer("Bend"), fork)


def test_a_fork_that_seeds_a_device_draws_numbers(tmp_path):
    """As OpenCL Caffe does, by a generator of 64 bits."""
    fork = with_core(tmp_path / "fork")
    random = fork / "include/caffe/util/rng.hpp"
    random.write_text(random.read_text().replace("boost::mt19937 ", "boost::mt19937_64 "))
    header, source = fork / "include/caffe/common.hpp", fork / "src/caffe/common.cpp"
    old, new = "void set_random_seed(unsigned seed)", "void set_random_seed(const size_t seed, device* on)"
    text = header.read_text().replace(f"static {old};", f"static {new};\n  static device* GetDefaultDevice();")
    header.write_text(text.replace("class Caffe {", "class device;\nclass Caffe {", 1))
    old, new = (name.replace("void ", "void Caffe::") for name in (old, new))
    new = f"device* Caffe::GetDefaultDevice() {{ return 0; }}\n{new}"
    source.write_text(source.read_text().replace(old, new))
    text = layer("Noise", "noise_param { std: 0.05 }")
    top, _, _ = passes(tmp_path, text, fork)
    assert 0 < abs(top - X).max() < 1
