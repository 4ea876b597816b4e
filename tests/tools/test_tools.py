"""The maintainer's tools: each answers --help, and does a small piece of its work."""

import argparse
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import bench_inputs
import bench_train
import numpy as np
import pytest

from caffelite.data.writers import write_lmdb
from caffelite.devices.cuda import GPU, count

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(p.name for p in (ROOT / "tools").glob("*.py") if "\nif __name__ == " in p.read_text())

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
    environment = {**os.environ, "PYTHONPATH": str(hide)} if hide else None
    command = [sys.executable, str(ROOT / "tools" / script), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run(script, "--help")
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr


def test_every_tool_is_in_the_list():
    assert set(
        "bench_all.py bench_train.py cold_start.py compile_schema.py make_cli_docs.py mnist_run.py".split()
    ) <= set(SCRIPTS)


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


@pytest.mark.slow
def test_bench_without_torch_says_which_extra(net, without_torch):
    words = [str(net), *"--batch 2 --iterations 2 --rounds 1 --shape 1,8,8 --threads 1 --json".split()]
    done = run("bench_train.py", *words, hide=without_torch)
    assert done.returncode == 0, done.stderr
    assert ".[bench]" in done.stdout
    actual = json.loads(done.stdout.strip().split("\n")[-1])
    assert list(actual["sides"]) == ["caffelite"] and actual["sides"]["caffelite"]["ms"] > 0
    assert actual["batch"] == 2 and actual["shape"] == [1, 8, 8] and actual["ratios"] == {}


def test_bench_of_a_missing_net_is_one_line(tmp_path):
    done = run("bench_train.py", str(tmp_path / "none.prototxt"))
    assert done.returncode and "none.prototxt" in done.stderr and "Traceback" not in done.stderr


def test_bench_of_a_net_without_labels_says_so(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET.replace('top: "label"', "", 1))
    done = run("bench_train.py", str(path))
    assert done.returncode and "tops data and label" in done.stderr


NORMALIZED = NET.replace(
    '{ name: "relu"',
    """{ name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu\"""",
)
FILL = 'weight_filler { type: "uniform" min: -0.5 max: 0.5 }'
CODES = f"""
layer {{ name: "data" type: "HDF5Data" top: "code" top: "cont" top: "target"
  hdf5_data_param {{ source: "none.txt" batch_size: 7 }} }}
layer {{ name: "e" type: "Embed" bottom: "code" top: "e" embed_param {{ num_output: 3 input_dim: 9
  bias_term: false {FILL} }} }}
layer {{ name: "h" type: "LSTM" bottom: "e" bottom: "cont" top: "h" recurrent_param {{ num_output: 4 {FILL} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "h" top: "ip" inner_product_param {{ num_output: 5 axis: 2 {FILL} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "target" top: "loss" softmax_param {{ axis: 2 }} }}
"""


def arguments(**others) -> argparse.Namespace:
    return argparse.Namespace(**{"precision": "fp32", "device": "cpu", "forward": False, "side": "torch", **others})


@pytest.mark.parametrize("forward", [False, True], ids=["train", "test"])
@pytest.mark.parametrize("text", [NET, NORMALIZED, CODES], ids=["plain", "normalized", "codes"])
def test_both_sides_of_the_bench_compute_the_same(tmp_path, text, forward):
    """With the same weights and input, PyTorch's module gives the loss that caffelite gives."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    import torch_peer

    from caffelite import caffelite_pb2 as pb
    from caffelite.devices import open_device
    from caffelite.net import graph
    from caffelite.net.net import Net

    path = tmp_path / "net.prototxt"
    path.write_text(text)
    shape = bench_inputs.guess_shape(str(path)) if text is CODES else (1, 8, 8)
    assert text is not CODES or shape == (7,)
    message, tops = bench_inputs.read(str(path), 4, shape, forward)
    for layer in message.layer if text is not CODES else ():
        layer.convolution_param.weight_filler.type = layer.inner_product_param.weight_filler.type = "xavier"
    batch = bench_inputs.random_batch(message, 4, shape)
    bound = Net.of(graph.build(message, pb.NetState(phase=pb.TEST if forward else pb.TRAIN)), open_device(), seed=1)
    for top, values in zip(tops, batch, strict=True):
        bound.dev.upload(bound.blobs[top], values)
    mine = [
        bound.dev.download(p.data)
        for n in bound.graph.nodes
        if n.layer.spec.type != "BatchNorm"
        for p in n.layer.params
    ]
    for node in bound.graph.nodes:
        for param in node.layer.params[1:3] if node.layer.spec.type == "BatchNorm" else ():
            bound.dev.upload(param.data, np.ones(param.data.shape))
    if text is CODES:  # Caffe's gates are i, f, o, g; PyTorch's i, f, g, o, and it has two biases
        for i in (1, 2, 3):
            mine[i] = np.concatenate([mine[i].reshape(4, 4, -1)[gate] for gate in (0, 1, 3, 2)]).reshape(mine[i].shape)
        mine[2:4] = [mine[3], mine[2], np.zeros(16, np.float32)]
    peer = torch_peer.Peer(message, batch[0].shape).train(not forward)
    with torch.no_grad():
        for values, theirs in zip(mine, peer.parameters(), strict=True):
            theirs.copy_(torch.from_numpy(values))
    bound.forward()
    loss = peer(torch.from_numpy(batch[0]), torch.from_numpy(batch[-1]))
    np.testing.assert_allclose(bound.dev.download(bound.loss)[0], loss.item(), rtol=1e-5)


@pytest.mark.parametrize("forward", [False, True], ids=["train", "test"])
def test_a_step_of_each_side(net, forward, monkeypatch):
    """Training changes the weights, testing does not; bf16 is what both sides are reported to compute in."""
    from caffelite import devices

    opened, open_device = [], devices.open_device
    monkeypatch.setattr(devices, "open_device", lambda gpu, **options: opened.append(options) or open_device(gpu))
    message, _ = bench_inputs.read(str(net), 2, (1, 8, 8), forward)
    batch = bench_inputs.random_batch(message, 2, (1, 8, 8))
    for precision in ("fp32", "bf16"):
        step, wait = bench_train.caffelite_step(arguments(forward=forward, precision=precision), message, batch)
        step()
        wait()
    assert opened == [{}, {"precision": "bf16"}]
    torch = pytest.importorskip("torch", exc_type=ImportError)
    import torch_peer

    seen = []
    module = torch_peer.Peer(message, batch[0].shape)
    module.parts[0].register_forward_hook(
        lambda part, x, y: seen.append((y.dtype, part.training, torch.is_grad_enabled()))
    )
    monkeypatch.setattr(torch_peer, "Peer", lambda *_: module)
    before = [p.clone() for p in module.parameters()]
    for precision in ("fp32", "bf16"):
        step, wait = bench_train.torch_step(arguments(forward=forward, precision=precision), message, batch)
        step()
        wait()
    assert seen == [(kind, not forward, not forward) for kind in (torch.float32, torch.bfloat16)]
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True)) == forward


@pytest.mark.slow
def test_bench_compares_threads_and_a_busy_neighbor(net, without_torch):
    words = [str(net), *"--batch 2 --iterations 1 --rounds 1 --shape 1,8,8 --threads 1,2 --busy --json".split()]
    done = run("bench_train.py", *words, "--forward", hide=without_torch)
    assert done.returncode == 0, done.stderr
    actual = json.loads(done.stdout.strip().split("\n")[-1])
    both = ["caffelite, 1 thread", "caffelite, 2 threads"]
    assert list(actual["sides"]) == [*both, *(f"{side}, busy" for side in both)] and actual["forward"]
    assert "caffelite, 2 threads: " in done.stdout and "of the time that 1 takes" in done.stdout
    assert done.stdout.count("times as long as alone") == 2


@pytest.mark.slow
def test_all_nets_in_one_table(without_torch):
    import bench_all

    done = run("bench_all.py", "lenet", "--rounds", "1", "--iterations", "1", "--forward", "--json", hide=without_torch)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout.strip().split("\n")[-1])["nets"]
    assert line["net"] == "lenet" and line["batch"] == 64 and line["ms"] > 0
    assert run("bench_all.py", "lenin").returncode == 2
    limited = ["lenet", "--rounds", "1", "--iterations", "1", "--forward", "--isa", "avx2"]
    done = run("bench_all.py", *limited, hide=without_torch)
    assert re.search(r"^caffelite used .*, kernels for haswell with AVX2$", done.stdout, re.M), done.stdout
    for name in bench_all.NETS:
        path = str(ROOT / f"models/{name}/train_val.prototxt")
        assert bench_inputs.read(path, 2, bench_inputs.guess_shape(path))
    sides = {
        "caffelite": {"ms": 2.0, "low": 1.9, "high": 2.2, "mb": 50},
        "torch": {"ms": 5.0, "low": 5.0, "high": 5.0, "mb": 99},
        "torch channels-last": {"ms": 3.0, "low": 2.8, "high": 3.1, "mb": 100},
    }
    line = bench_all.row("lenet", {"batch": 64, "sides": sides})
    assert line["ratio"] == 1.5 and line["memory"] == 0.5 and line["PyTorch ms"] == 3
    assert line["its layout"] == "channels-last"


@pytest.mark.slow
def test_cold_start(net):
    """The first run compiles and says so; the one after it does not."""
    done = run("cold_start.py", "--net", str(net), "--batch", "2", "--shape", "1,8,8", "--runs", "1", "--json")
    assert done.returncode == 0, done.stderr
    actual = json.loads(done.stdout.strip().split("\n")[-1])
    assert "Compiling kernels" in actual["reported"] and actual["first"] > actual["later"][0] > 0


@pytest.mark.slow
def test_whole_runs(tmp_path):
    """A run of two iterations on small databases prints a score and its time."""
    for name in ("mnist_train_lmdb", "mnist_test_lmdb"):
        write_lmdb(tmp_path / name, ((np.full((1, 28, 28), i, np.uint8), i % 10) for i in range(10)))
    done = run("mnist_run.py", "--data", str(tmp_path), "--iterations", "2", "--runs", "1", "--json")
    assert done.returncode == 0, done.stderr
    actual = json.loads(done.stdout.strip().split("\n")[-1])
    assert len(actual["accuracy"]) == len(actual["seconds"]) == 1 and 0 <= actual["accuracy"][0] <= 1


def test_whole_runs_without_data_tell_the_command(tmp_path):
    done = run("mnist_run.py", "--data", str(tmp_path), "--iterations", "2", "--runs", "1")
    assert done.returncode and "caffelite dataset mnist" in done.stderr


def test_bench_of_kernels_reports_what_is_missing():
    if count():
        pytest.skip("there is a GPU")
    done = run("bench_kernels.py")
    assert done.returncode == 1
    assert re.match("no usable GPU|-gpu needs cupy|-gpu: this machine has no NVIDIA GPU", done.stderr)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.host
@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_bench_of_kernels_runs_each(monkeypatch, dtype):
    """On small arrays, by the host; nothing is timed."""
    import bench_kernels
    from devices.host.backend import HostBackend

    small = [("small", 8, 5)]
    for name, value in {"CHANNELS": small, "NEIGHBORS": small, "TURNED": small, "PARAMETERS": 5000}.items():
        monkeypatch.setattr(bench_kernels, name, value)
    monkeypatch.setattr(bench_kernels, "POOLS", [("small", method, 8, 5, 3, 2, 0) for method in ("MAX", "AVE")])
    device, ran = GPU(0, "float32", HostBackend()), []
    for last in (True, False):
        for case in bench_kernels.Bench(device, 2, dtype, last).cases():
            case.run()
            ran.append((case.name, sum(array.nbytes for array in case.arrays)))
    assert len(ran) == 2 * 21 and all(count > 0 for _, count in ran)


@pytest.mark.slow
def test_pythons_share(net):
    """What compiled code takes is not Python's, and what is left is."""
    done = run("python_share.py", str(net), "--batch", "2", "--iterations", "5")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split("\n")[-2].split()
    assert words[:1] == ["Python:"] and 0 < float(words[1]) and 0 < float(words[3].rstrip("%")) < 100


def test_kernel_resources_without_cupy_says_what_to_install(tmp_path):
    (tmp_path / "cupy.py").write_text('raise ImportError("hidden")')
    done = run("kernel_resources.py", hide=tmp_path)
    assert done.returncode == 2 and "install the extra cuda12 or cuda13" in done.stderr and not done.stdout


@pytest.mark.parametrize("numbers", ["fp32", "bf16"])
@pytest.mark.parametrize("huge", [False, True])
def test_kernel_resources_collects_every_family(numbers, huge):
    import kernel_resources as tool

    actual = list(tool.every(numbers, huge))
    assert len(actual) == len(tool.FAMILIES) + tool.FORMULAS + (numbers == "fp32" and not huge)
    texts = [path.read_text() for path in [*tool.FAMILIES, *(ROOT / "caffelite/devices/cuda").glob("*.py")]]
    written = {name for text in texts for name in re.findall(r"KERNEL (\w+)\(", text)}
    assert written <= {name for source in actual for name in re.findall(r"^KERNEL (\w+)\(", source, re.M)}


def test_kernel_resources_adds_the_kernels_of_nets():
    import kernel_resources as tool

    lenet = str(ROOT / "models/lenet/train_val.prototxt")
    alone, more = list(tool.every("fp32")), list(tool.every("fp32", nets=[lenet]))
    assert more[: len(alone)] == alone and len(more) > len(alone) + 2
    assert any("pool_forward" in source for source in tool.of_net(lenet, "fp32"))


def test_kernel_resources_refuses_unknown_numbers():
    done = run("kernel_resources.py", "-numbers", "fp32,fp8")
    assert done.returncode == 2 and "no fp8; expected some of fp32, fp64, fp16, bf16" in done.stderr


def test_a_picture_of_a_terminal(tmp_path):
    done = run("terminal_picture.py", "-out", str(tmp_path / "out.svg"), "device_query", "-help")
    assert done.returncode == 0, done.stderr
    lines = [
        "".join(text.itertext()) for text in ET.parse(tmp_path / "out.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert lines[0] == "$ caffelite device_query -help" and any("-test" in line for line in lines[1:])
