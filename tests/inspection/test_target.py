"""The traits of devices that inspection compiles for."""

import pytest

from caffelite.devices import cuda, open_device
from caffelite.errors import CaffeliteError
from caffelite.inspection import summary, target
from caffelite.inspection.nets import inspected_net

NET = """
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 4 kernel_size: 3 } }
"""


@pytest.fixture
def volta(monkeypatch):
    """A machine with one GPU of compute capability 7.0."""
    monkeypatch.setattr(cuda, "count", lambda: 1)
    monkeypatch.setattr(cuda, "describe", lambda number: {"Major revision number": 7, "Minor revision number": 0})


def test_the_gpu_that_is_present_decides(volta):
    assert target.traits(0).precision == "fp32" and not target.traits(0).channels_last
    assert target.traits(0, "fp16").channels_last
    with pytest.raises(CaffeliteError, match="GPU 0 has no bf16"):
        target.traits(0, "bf16")


def test_a_gpu_that_is_not_present_is_an_h100(volta):
    assert target.traits(1).precision == "tf32" and target.traits(1).channels_last
    assert target.traits(1, "bf16").image_dtype == "bfloat16"


def test_precisions_of_the_cpu():
    assert target.traits(None) == target.traits(None, "tf32") == open_device().traits
    assert target.traits(None, "bf16").image_dtype == "bfloat16"


def test_memory_of_a_gpu_holds_no_code_of_the_cpu(tmp_path):
    (tmp_path / "net.prototxt").write_text(NET)
    net = inspected_net(str(tmp_path / "net.prototxt"), None, {})
    on_cpu, on_gpu = (summary.memory(net, train=False, traits=target.traits(gpu)) for gpu in (None, 0))
    assert on_cpu.kernels > summary.KERNELS and on_gpu.kernels == 0
    assert on_gpu.weights == on_cpu.weights
