"""Nets for the tests of caffelite.pycaffe."""

import pytest

import caffelite.pycaffe as caffe
from caffelite import user_modules
from caffelite.pycaffe import modes

CONV = """
name: "small" force_backward: true
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 5 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3
  weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 5
  weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    """Each test has the module's settings, the modules of layers and the current folder for itself."""
    monkeypatch.setattr(modes, "_settings", modes._Settings())
    monkeypatch.chdir(tmp_path)
    with user_modules.forbidden():
        user_modules.permit([tmp_path])
        yield


@pytest.fixture
def write(tmp_path):
    """Writes a text into a file of the test's folder; returns its path."""

    def write(text: str, name: str = "net.prototxt") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


@pytest.fixture
def net(write) -> caffe.Net:
    caffe.set_random_seed(3)
    return caffe.Net(write(CONV), caffe.TEST)
