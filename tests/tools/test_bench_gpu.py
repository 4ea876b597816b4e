"""The comparison on a GPU, as far as it goes without one: its sides on a CPU, its talk with their processes, its
table."""

import subprocess
import sys
from pathlib import Path

import bench_gpu as tool
import bench_inputs
import pytest

from caffelite import devices, training
from caffelite.devices import cuda

ROOT = Path(__file__).parents[2]
SWITCHES = "allow_tf32", "benchmark"  # of cuDNN


@pytest.fixture
def lenet():
    """The net, and a batch of two images."""
    path, shape = tool.model("lenet")
    net, _ = bench_inputs.read(path, 2, shape)
    return net, bench_inputs.random_batch(net, 2, shape)


def test_without_a_gpu_it_says_what_is_missing():
    if cuda.count():
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, str(ROOT / "tools/bench_gpu.py"), "--quick"], capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("nothing to time: ") and ("GPU" in line or "cupy" in line)


def test_without_pytorch_it_times_alone(monkeypatch, capsys):
    monkeypatch.setattr(cuda, "count", lambda: 1)
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None)
    assert tool.sides_at_hand() == ("caffelite",)
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("PyTorch is not installed")


@pytest.mark.parametrize("words", [["--nets", "lenin"], ["--precision", "fp64"], ["--precision", "tf32,"]])
def test_words_that_it_does_not_know(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["bench_gpu.py", *words])
    with pytest.raises(SystemExit) as ended:
        tool.main()
    assert ended.value.code == 2 and "known are" in capsys.readouterr().err


def test_every_net_is_read():
    for name in tool.NETS:
        path, shape = tool.model(name)
        net, tops = bench_inputs.read(path, 2, shape)
        assert len(tops) == 2 and net.layer[0].input_param.shape[0].dim[:] == [2, *shape]


def test_our_side_trains(lenet, monkeypatch):
    net, batch = lenet
    made, opened, open_device = [], [], devices.open_device
    monkeypatch.setattr(
        devices, "open_device", lambda number, precision: opened.append((number, precision)) or open_device()
    )
    build = training.build_trainer
    monkeypatch.setattr(training, "build_trainer", lambda *a: made.append(build(*a)) or made[-1])
    run, wait = tool.caffelite_run(net, batch, "fp16")
    run(2)
    wait()
    losses = made[0].loss_window(2)
    assert opened == [(0, "fp16")] and made[0].iteration == 2 and 0 < losses[1] < losses[0]


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_pytorchs_side_trains(lenet, monkeypatch, precision):
    torch = pytest.importorskip("torch")
    import torch_peer

    (net, batch), made, peer = lenet, [], torch_peer.Peer
    monkeypatch.setattr(torch_peer, "Peer", lambda *arguments: made.append(peer(*arguments)) or made[-1])
    for name in SWITCHES:
        monkeypatch.setattr(torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))  # restored at the end
    wanted: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", wanted.append)
    run, wait = tool.torch_run(net, batch, precision, "eager", "cpu")

    def loss() -> float:
        with torch.no_grad():
            return float(made[0](torch.from_numpy(batch[0]), torch.from_numpy(batch[-1])))

    assert wanted == ["high"]
    before = loss()
    run(2)
    wait()
    assert 0 < loss() < before


CHILD = """
import json, sys
if "eager" in sys.argv:
    sys.exit("RuntimeError: out of memory")
print("a library says hello")
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    print(json.dumps(float(line) / 10), flush=True)
    if "graphs" in sys.argv:
        raise ValueError("it ended in its first round")
"""


def test_sides_are_timed_in_turn(monkeypatch, tmp_path):
    """One process a side; what ends early is reported with its last words, and the others go on."""
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    monkeypatch.setattr(tool, "__file__", str(child))
    actual = tool.timed("lenet", "tf32", tool.SIDES, 2, 30)
    assert actual["caffelite"] == actual["compile"] == 3.0
    assert (
        actual["eager"] == "RuntimeError: out of memory"
        and actual["graphs"] == "ValueError: it ended in its first round"
    )
    assert (
        tool.row("lenet", "tf32", {**actual, "caffelite": 2.0})
        == "| lenet, 64 | tf32 | 2.000 | 32,000 | – | – | 3.000 | 1.50 |"
    )
    assert (
        tool.row("alexnet", "fp16", {"caffelite": 2.0}) == "| alexnet, 256 | fp16 | 2.000 | 128,000 | – | – | – | – |"
    )
    assert (
        tool.row("alexnet", "fp16", {"caffelite": "no", "eager": 1.0})
        == "| alexnet, 256 | fp16 | – | – | 1.000 | – | – | – |"
    )
