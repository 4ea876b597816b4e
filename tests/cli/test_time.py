"""`caffelite time` and `device_query`: the lines that Caffe prints."""

import re

import pytest

from caffelite.devices import cuda as gpus
from caffelite.devices.cpu import onednn


def test_lines(folder, call):
    result = call("time", "-model", "net.prototxt", "-iterations", "3").ok
    shape = [re.sub(r"\d+(\.\d+)?(e-\d+)? ms", "x ms", line).strip() for line in result.lines]
    assert shape == [
        *("Use CPU.", "*** Benchmark begins ***", "Testing for 3 iterations.", "Average time per layer:"),
        *("rows\tforward: x ms.", "value\tforward: x ms.", "value\tbackward: x ms."),
        *("loss\tforward: x ms.", "loss\tbackward: x ms."),
        *("Average Forward pass: x ms.", "Average Backward pass: x ms.", "Average Forward-Backward: x ms."),
        *("Total Time: x ms.", "*** Benchmark ends ***"),
    ]


def test_fields_set_for_a_time(folder, call):
    assert call("time -model net.prototxt -iterations=1 -set value.inner_product_param.num_output=3").status == 2
    assert call("time -model net.prototxt -iterations=1 -set rows.hdf5_data_param.batch_size=2").status == 0


def test_times_are_compared_with_the_ceilings(folder, call):
    result = call("time", "-model", "net.prototxt", "-iterations", "3", "-set", "rows.hdf5_data_param.batch_size=8")
    head, *rows = [re.split(r"  +", line.strip()) for line in result.out.splitlines()]
    assert head == ["layer", "forward ms", "backward ms", "GFLOP/s", "GB/s", "of a ceiling", "algorithms"]
    assert [row[0] for row in rows[:3]] == ["rows", "value", "loss"]
    assert all(re.fullmatch(r"\d+%", row[-1]) for row in rows[:3])
    whole, arithmetic, memory = (row[0] for row in rows[3:])
    assert re.fullmatch(r"Forward and backward: [\d.e-]+ ms, [\d,]+ images/s", whole)
    assert re.fullmatch(
        r"Arithmetic: [\d.e-]+ GFLOP/s, \d+% of the [\d,]+ of a large product; a large copy moves [\d.,]+ GB/s",
        arithmetic,
    )
    assert re.fullmatch(
        r'Blobs and gradients: 0.0 MiB of memory, at most 0.0 MiB at once, in "\w+" \w+: "rows" 0.0 MiB.*', memory
    )


def test_weights_and_phase(folder, call):
    call("train", "-solver", "solver.prototxt")
    result = call("time -model net.prototxt -iterations=1 -weights run_iter_20.caffemodel -phase TEST")
    assert result.status == 0 and "Weights from run_iter_20.caffemodel: matched value" in result.lines


@pytest.mark.skipif(gpus.count() > 0, reason="a GPU is at hand")
def test_device_query_without_a_gpu(call):
    result = call("device_query")
    assert result.status == 1 and result.out == "" and result.err.startswith("caffelite: ")
    assert "Traceback" not in call("device_query", "-gpu", "0").refused.err


def test_device_query_with_a_number_that_is_none(call):
    assert '"all", or numbers as in 0,1' in call("device_query", "-gpu", "x").refused.err


NO_DATA = """
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  data_param { source: "absent_lmdb" batch_size: 2 } transform_param { crop_size: 4 } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  data_param { source: "absent_lmdb" batch_size: 3 } transform_param { crop_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }
"""


@pytest.mark.parametrize("command", [("time",), ("plan", "-gpus", "4")])
def test_zeros_replace_missing_data(tmp_path, in_tmp_path, call, command):
    (tmp_path / "net.prototxt").write_text(NO_DATA)
    result = call(*command, "-model", "net.prototxt", "-iterations", "1").ok
    assert any('"data" taken as 3×4×4 by crop_size; zeros replace it' in line for line in result.lines)


def test_all_precisions_side_by_side(folder, call):
    result = call("time", "-model", "net.prototxt", "-iterations", "3", "-precision", "all")
    heading, first, *rest = result.out.splitlines()
    assert result.status == 0 and heading.split()[0] == "precision" and first.split()[0] == "fp32"
    assert first.split()[-1] == "1.00" and all(row.split()[0] == "bf16" for row in rest)
    assert "fp16: fp16 is for GPUs" in result.err


@pytest.mark.parametrize("kind, precision", [("native", "bf16"), ("emulated", "fp32"), (None, "fp32")])
def test_the_log_says_which_precision_auto_is(folder, call, monkeypatch, kind, precision):
    """bf16 where the processor multiplies such numbers itself."""
    if (library := onednn.load()) is None or library.bf16() is None:
        pytest.skip("oneDNN multiplies no bfloat16 here")
    monkeypatch.setattr(type(library), "bf16", lambda self: kind)
    result = call("time", "-model", "net.prototxt", "-iterations", "1", "-precision", "auto")
    assert result.status == 0 and f"Precision: {precision}, by -precision auto" in result.err


def test_what_the_threads_do(folder, call):
    result = call("time", "-model", "net.prototxt", "-iterations", "3", "-threads").ok
    lines = result.out.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("Threads: "))
    assert re.fullmatch(r"Threads: \d+; a pass forward and backward of [\d.e-]+ ms has", lines[begin])
    assert re.fullmatch(r"  [\d.]+ regions of kernels on several threads.*", lines[begin + 1])


@pytest.mark.parametrize("more", [("-precision", "all"), ("-gpu", "0")])
def test_threads_are_those_of_a_cpu(folder, call, more):
    result = call("time", "-model", "net.prototxt", "-threads", *more)
    assert result.status == 2 and "-threads is about a CPU" in result.err
