"""tools/gpu_figures.py: the speed of a net, on the stand-in for a GPU."""

import json
import subprocess
import sys

import gpu_figures
import pytest
from devices.host import installed

TABLE = """layer            forward ms  backward ms  GFLOP/s  GB/s  of a ceiling  algorithms
data                 0.0102                        12             3%
conv1 + ReLU         1.5         2.25      1,203    14.2          31%
ip2                  0.5         0.25         70     1.5          80%
Forward and backward by CUDA graphs: 4.2 ms, 15,238 images/s
"""


def test_layers_of_a_table():
    rows = gpu_figures.timed_layers(TABLE)
    assert [row[0] for row in rows] == ["data", "conv1 + ReLU", "ip2"]
    assert [row[1] for row in rows] == [pytest.approx(0.0102), 3.75, 0.75] and rows[1][2] == "31%"


def test_the_slowest_kernels_of_an_iteration(monkeypatch, capsys):
    """As the profiler counts them over PASSES iterations; the longest come first, and no more than SLOWEST."""
    totals = {f"kernel{i}": (gpu_figures.PASSES * 2, gpu_figures.PASSES * float(i)) for i in range(30)}
    monkeypatch.setattr(gpu_figures, "torch_module", lambda: "torch")
    monkeypatch.setattr("profile_gpu.kernels", lambda torch, step, wait, passes: totals)
    gpu_figures.figures("net", 8, 1, lambda count: None, lambda: None)
    _, kernels = map(json.loads, capsys.readouterr().out.splitlines())
    rows = kernels["detail"].split("; ")
    assert kernels["name"] == "net: slowest kernels" and len(rows) == gpu_figures.SLOWEST
    assert rows[:2] == ["29.0 µs in 2: kernel29", "28.0 µs in 2: kernel28"]


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("net", ["lenet", "faster_rcnn_shapes"])
def test_a_net_on_the_stand_in(net, tmp_path):
    """One on random numbers, and one on a data set."""
    code = "import gpu_figures as g; g.NETS = {'lenet': (2, 2)}; g.WARM = g.PASSES = g.ITERATIONS = 2; g.main()"
    environment = installed.environment(STAND_IN_SMALL="1")
    environment["PYTHONPATH"] += f":{installed.ROOT / 'tools'}"
    words = [sys.executable, "-c", code, net]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    names = [row["name"].partition(": ")[2] for row in rows]
    assert names == ["", "choices", "slowest layers", "forward and backward"]
    assert rows[-1]["ms"] > 0 and "%" in rows[-2]["detail"] and "images/s" in rows[0]["detail"]
    assert net != "lenet" or "conv2" in rows[2]["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("net", gpu_figures.COMMANDS)
def test_data_of_nets_that_have_their_own(net, tmp_path, monkeypatch, capsys):
    """On the CPU: the commands write what the net reads."""
    monkeypatch.setattr(gpu_figures, "PASSES", 1)
    monkeypatch.setattr(gpu_figures, "WARM", 1)
    monkeypatch.setattr(gpu_figures, "ROUNDS", 1)
    monkeypatch.setattr(gpu_figures, "ITERATIONS", 1)
    run = gpu_figures.run
    on_cpu = lambda words, folder: run([w for w in words if w not in ("-gpu", "0")], folder)  # noqa: E731
    monkeypatch.setattr(gpu_figures, "run", on_cpu)
    gpu_figures.layers(net, "fp32", gpu_figures.train_on_data(net, "fp32", tmp_path, None), tmp_path)
    trained, chosen, slowest, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert trained["ms"] > 0 and trained["name"].startswith(f"{net}, fp32, batch ")
    assert chosen["name"] == f"{trained['name']}: choices" and chosen["detail"]
    assert slowest["detail"].count(" ms (") == gpu_figures.SLOWEST and whole["ms"] > 0


def test_a_command_that_fails(tmp_path):
    with pytest.raises(SystemExit, match="nowhere.prototxt: no such file"):
        gpu_figures.run(["time", "-model", "nowhere.prototxt"], tmp_path)


def test_an_unknown_net(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu_figures.py", "nowhere"])
    with pytest.raises(SystemExit):
        gpu_figures.main()
    assert "no net nowhere to time; it is one of " in capsys.readouterr().err
