"""The model of what an iteration moves and launches on a GPU: its counts are those of the device's own code."""

import subprocess
import sys
from pathlib import Path

import gpu_traffic as tool
import pytest
import recording_backend
from devices.host.backend import HostBackend

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices.cuda import GPU
from caffelite.errors import NOWHERE
from caffelite.training import build_trainer

ROOT = Path(__file__).parents[2]
NET = """
name: "small"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 8 } shape { dim: 4 } data_filler { type: "constant" value: 1 }
  data_filler { type: "constant" value: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 6 bias_term: false } }
layer { name: "bn" type: "BatchNorm" bottom: "ip" top: "bn" }
layer { name: "scale" type: "Scale" bottom: "bn" top: "bn" scale_param { bias_term: true } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "bn" bottom: "label" top: "loss" }
"""


def net() -> pb.NetParameter:
    return prototxt.parse(NET, pb.NetParameter).message


@pytest.mark.host
def test_launches_are_those_of_the_device():
    """As many as on a backend that runs them."""
    recipe = pb.SolverParameter(
        net_param=net(), lr_policy="fixed", base_lr=0.01, momentum=0.9, max_iter=2, weight_decay=5e-4
    )
    recipe.snapshot_after_train = False
    solver = build_trainer(
        recipe, NOWHERE, "test", GPU(0, "float32", backend := HostBackend(), eager="counted one by one")
    )
    solver.learning.captured.run(1)
    before = backend.launches
    solver.learning.captured.queue(1, 0)
    assert len(tool.iteration(net(), "tf32", {}).launches) == backend.launches - before > 8


def test_bytes_of_each_array_once():
    launches = tool.iteration(net(), "tf32", {}).launches
    (product,) = [x for x in launches if (x.layer, x.way) == ("ip", "forward")]
    assert (product.kernel, product.read, product.written) == ("matrix product", 4 * (4 * 8 + 6 * 8), 4 * 4 * 6)
    gradient = next(x for x in launches if (x.layer, x.way) == ("ip", "backward"))
    assert (gradient.kernel, gradient.read, gradient.written) == ("matrix product", 4 * (4 * 8 + 4 * 6), 4 * 6 * 8)
    moments = next(x for x in launches if x.layer == "bn")
    assert moments.kernel == "formula_channel_sums" and moments.read == 4 * 24 + 8, (
        "x, given twice, and one number of partial sums"
    )
    (update,) = [x for x in launches if x.kernel == "formula_update"]
    assert update.written >= 2 * 4 * 48 and update.read >= 3 * 4 * 48 and update.layer == tool.OUTSIDE


def test_streams_that_fork_count_their_longest_path():
    recorder = tool.RecordingBackend(False)
    aside, main = recorder.new_stream(), recorder.stream
    begun, ended = recorder.new_event(), recorder.new_event()
    recorder.record("a", 0, 0)
    begun.record(main)
    aside.wait_event(begun)
    recorder.use(aside)
    recorder.record("b", 0, int(recording_backend.BANDWIDTH * 1e-3))
    ended.record(aside)
    recorder.use(main)
    recorder.record("c", 0, 0)
    main.wait_event(ended)
    assert main.depth == 2
    assert main.time == pytest.approx(2 * recording_backend.NODE + recording_backend.SHORTEST + 1e-3)
    assert tool.whole(recorder).launches == 3


def test_no_memory_behind_large_arrays():
    recorder = tool.RecordingBackend(False)
    array = recorder.empty((1 << 20, 1 << 16), "float32")
    assert array.nbytes == 1 << 38
    recorder.fill(array, 0)
    assert recorder.launches[-1].written == 1 << 38


def test_tables(tmp_path, capsys):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    assert tool.main([str(path), "-precision", "tf32,fp16", "-batch", "2", "-by", "net"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[2].startswith("| small, 2 | tf32 | ")
    assert lines[3].startswith("| small, 2 | fp16 | ")
    assert tool.main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "small, tf32" and lines[-2].startswith("| all |")
    assert any(line.startswith("| ip | backward | ") for line in lines)
    assert tool.main([str(path), "-by", "kernel"]) == 0
    assert "| formula_update | 1 |" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["-precision", "fp64"], ["-batch", "0"], ["-batch", "x"], ["-batch", "1,2"]])
def test_refuses_words_it_does_not_know(words, capsys):
    with pytest.raises(SystemExit) as ended:
        tool.main(["net.prototxt", *words])
    assert ended.value.code == 2


def test_a_missing_model_is_reported_in_one_error():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/gpu_traffic.py"), "no.prototxt"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "no.prototxt" in done.stderr and "Traceback" not in done.stderr
