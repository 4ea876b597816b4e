"""The maintainer's tools: each answers --help, and does a small piece of its work."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(p.name for p in (ROOT / "tools").glob("*.py") if "__main__" in p.read_text())

NET = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "no_such_lmdb" batch_size: 2 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def run(script: str, *words: str, hide: Path | None = None, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    """hide: a folder that comes first on the path, whose modules stand in for those that are installed."""
    import os

    environment = {**os.environ, "PYTHONPATH": str(hide)} if hide else None
    command = [sys.executable, str(ROOT / "tools" / script), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run(script, "--help")
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr


def test_every_tool_is_in_the_list():
    assert {"bench_train.py", "compile_schema.py", "make_cli_docs.py", "mnist_run.py"} <= set(SCRIPTS)


def test_check_of_the_command_pages():
    assert run("make_cli_docs.py", "--check").returncode == 0


@pytest.fixture
def net(tmp_path) -> Path:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return path


@pytest.fixture
def without_torch(tmp_path) -> Path:
    """A folder whose sitecustomize makes torch look as if it were not installed."""
    folder = tmp_path / "hide"
    folder.mkdir()
    lines = [
        "import importlib.util as u",
        "find = u.find_spec",
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)",
    ]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    return folder


def test_bench_without_torch_says_which_extra(net, without_torch):
    words = str(net), "--batch", "2", "--iterations", "2", "--rounds", "1", "--shape", "1,8,8", "--threads", "1", "--json"
    done = run("bench_train.py", *words, hide=without_torch)
    assert done.returncode == 0, done.stderr
    assert ".[bench]" in done.stdout
    found = json.loads(done.stdout.strip().split("\n")[-1])
    assert list(found["sides"]) == ["caffelite"] and found["sides"]["caffelite"]["ms"] > 0
    assert found["batch"] == 2 and found["shape"] == [1, 8, 8] and found["ratios"] == {}


def test_bench_of_a_missing_net_is_one_line(tmp_path):
    done = run("bench_train.py", str(tmp_path / "none.prototxt"))
    assert done.returncode and "none.prototxt" in done.stderr and "Traceback" not in done.stderr


def test_bench_of_a_net_without_labels_says_so(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET.replace('top: "label"', "", 1))
    done = run("bench_train.py", str(path))
    assert done.returncode and "tops data and label" in done.stderr


def test_both_sides_of_the_bench_compute_the_same(net):
    """With the same weights, images and labels, PyTorch's module gives the loss that caffelite gives."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    sys.path.insert(0, str(ROOT / "tools"))
    import bench_train
    import torch_peer

    from caffelite import caffelite_pb2 as pb
    from caffelite import graph
    from caffelite.devices import open_device
    from caffelite.net import Net

    message, tops = bench_train.read(str(net), 4, (1, 8, 8))
    for layer in message.layer:
        layer.convolution_param.weight_filler.type = layer.inner_product_param.weight_filler.type = "xavier"
    images, labels = bench_train.random_batch(message, 4, (1, 8, 8))
    bound = Net(graph.build(message, pb.NetState(phase=pb.TRAIN)), open_device(), seed=1)
    for top, values in zip(tops, (images, labels), strict=True):
        bound.dev.upload(bound.blobs[top], values)
    peer = torch_peer.Peer(message, (4, 1, 8, 8))
    weights = [torch.from_numpy(bound.dev.download(blob)) for blob in bound.params.blobs]
    with torch.no_grad():
        for mine, theirs in zip(weights, peer.parameters(), strict=True):
            theirs.copy_(mine)
    bound.forward()
    loss = peer(torch.from_numpy(images), torch.from_numpy(labels))
    np.testing.assert_allclose(bound.dev.download(bound.loss)[0], loss.item(), rtol=1e-5)


def test_whole_runs(tmp_path):
    """A run of two iterations on small databases prints a score and its time."""
    from caffelite.data.writers import write_lmdb

    for name in ("mnist_train_lmdb", "mnist_test_lmdb"):
        write_lmdb(tmp_path / name, ((np.full((1, 28, 28), i, np.uint8), i % 10) for i in range(10)))
    done = run("mnist_run.py", "--data", str(tmp_path), "--iterations", "2", "--runs", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.strip().split("\n")[-1])
    assert len(found["accuracy"]) == len(found["seconds"]) == 1 and 0 <= found["accuracy"][0] <= 1


def test_whole_runs_without_data_tell_the_command(tmp_path):
    done = run("mnist_run.py", "--data", str(tmp_path), "--iterations", "2", "--runs", "1")
    assert done.returncode and "caffelite dataset mnist" in done.stderr
