"""`caffelite export`: the file, the check, and what a user does wrong."""

import sys
from pathlib import Path

import numpy as np

NET = """
layer { name: "rows" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value" inner_product_param { num_output: 2 } }
"""


def test_export(folder, call):
    call("train", "-solver", "solver.prototxt")
    Path("deploy.prototxt").write_text(NET)
    result = call("export", "-model", "deploy.prototxt", "-weights", "run_iter_20.caffemodel", "-out", "net.onnx").ok
    assert '"value" differs by at most' in result.lines[-2] and result.lines[-1].startswith("Wrote net.onnx: ")
    again = call("export", "-model", "deploy.prototxt", "-weights", "run_iter_20.caffemodel", "-out", "net.onnx")
    assert again.status == 2 and "net.onnx exists" in again.err
    result = call("export -model deploy.prototxt -weights run_iter_20.caffemodel -out net.onnx -force -no_check")
    assert result.status == 0 and "differs" not in result.err
    result = call("export", "-model", "net.prototxt", "-weights", "run_iter_20.caffemodel", "-out", "no.onnx")
    assert result.status == 2 and '"rows" (HDF5Data) reads data; export a deploy net' in result.err
    assert not Path("no.onnx").exists()
    assert call("export", "-model", "deploy.prototxt", "-out", "no.onnx").status == 2


def test_without_onnx(folder, call, monkeypatch):
    call("train", "-solver", "solver.prototxt")
    Path("deploy.prototxt").write_text(NET)
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = call("export", "-model", "deploy.prototxt", "-weights", "run_iter_20.caffemodel", "-out", "net.onnx")
    assert result.status == 2
    assert 'export needs onnx, which is not installed; install it with: pip install "caffelite[onnx]"' in result.err


def test_forms_for_pytorch(folder, call):
    call("train", "-solver", "solver.prototxt")
    Path("deploy.prototxt").write_text(NET)
    words = "export -model deploy.prototxt -weights run_iter_20.caffemodel -to"
    result = call(f"{words} torch -out made").ok
    assert "differs by at most" in result.err or "PyTorch, which is not installed" in result.err
    text = Path("made/net.py").read_text()
    assert "self.value = nn.Linear(5, 2)" in text and "value = self.value(x)" in text
    again = call(f"{words} torch -out made")
    assert again.status == 2 and "net.py exists" in again.err
    assert call(f"{words} safetensors -out net.safetensors").status == 0
    stored = Path("made/net.safetensors").read_bytes()
    assert Path("net.safetensors").read_bytes() == stored and stored[8:9] == b"{"
    assert call(f"{words} npz -out net.npz").status == 0
    with np.load("net.npz") as arrays:
        assert {name: array.shape for name, array in arrays.items()} == {"value.weight": (2, 5), "value.bias": (2,)}
    assert call(f"{words} npz -out other.npz -free_size").status == 2
    assert call("import net.safetensors -model deploy.prototxt -out back.caffemodel").status == 0
