"""`caffelite export`: the file, the check, and what a user does wrong."""

import sys
from pathlib import Path

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
