"""`caffelite test`: Caffe's lines, and scores that are means over the batches."""

import re

import h5py
import numpy as np
import pytest

from caffelite import weights


@pytest.fixture
def trained(folder, call):
    call("train", "-solver", "solver.prototxt")
    return folder


def test_lines(trained, call):
    result = call("test", "-model", "net.prototxt", "-weights", "run_iter_20.caffemodel", "-iterations", "3").ok
    shape = [re.sub(r"\d\.\d+(e-\d+)?", "x", line) for line in result.lines]
    assert shape[:3] == ["Use CPU.", "Weights from run_iter_20.caffemodel: matched value", "Running for 3 iterations."]
    assert shape[3:-2] == [
        "Batch 0, loss = x",
        "Batch 1, loss = x",
        "Batch 2, loss = x",
        "Loss: x",
        "loss = x (* 1 = x loss)",
    ]
    assert shape[-2:] == ["loss: 95 % between x and x, 3 batches", "Tested 12 of 13 samples, each once."]
    (w, b), losses = weights.read_model("run_iter_20.caffemodel")["value"], []
    with h5py.File("rows.h5") as file:
        x, y = (file[name][()].astype(float) for name in "xy")
    for start in (0, 4, 8):
        rows = slice(start, start + 4)
        losses.append(((x[rows] @ w.T + b - y[rows]) ** 2).sum() / 8)
    actual = [float(line.split(" ")[-1]) for line in result.lines[3:7]]
    assert actual == pytest.approx([*losses, np.mean(losses)], rel=1e-5)


def test_level_stage_and_phase(trained, call):
    def outputs(*options):
        lines = call(
            "test", "-model", "net.prototxt", "-weights", "run_iter_20.caffemodel", "-iterations=1", *options
        ).lines
        return {m[1] for line in lines if (m := re.match(r"Batch 0, (\w+)", line))}

    assert outputs() == outputs("-phase", "train") == {"loss"}
    assert outputs("-stage", "more") == {"loss", "sigmoid"} and outputs("-level=5") == {"loss", "tanh"}


def test_fields_set_for_a_test(trained, call):
    set_ = ("-iterations=1", "-set", "rows.hdf5_data_param.batch_size=13")
    lines = call("test", "-model", "net.prototxt", "-weights", "run_iter_20.caffemodel", *set_).lines
    whole = next(float(line.split()[-1]) for line in lines if line.startswith("Batch 0, loss"))
    (w, b), rows = weights.read_model("run_iter_20.caffemodel")["value"], h5py.File("rows.h5")
    assert whole == pytest.approx(((rows["x"][:] @ w.T + b - rows["y"][:]) ** 2).sum() / 26, rel=1e-5)
    rows.close()


def test_mistakes(trained, call):
    (trained / "other.prototxt").write_text((trained / "net.prototxt").read_text().replace('"value"', '"other"'))
    result = call("test", "-model", "other.prototxt", "-weights", "run_iter_20.caffemodel")
    assert result.status == 2 and "no layer of the file is in the net; expected layers other, found value" in result.err
    result = call("test", "-model", "net.prototxt", "-weights", "net.prototxt")
    assert result.status == 2 and "net.prototxt is no caffemodel, it is text" in result.err


def test_a_net_that_writes_files_runs_whole_batches(trained, call):
    """As in Caffe: what is written begins again with the data where they end."""
    (trained / "out.prototxt").write_text(
        (trained / "net.prototxt").read_text()
        + '\nlayer { name: "out" type: "HDF5Output" bottom: "x" bottom: "y" hdf5_output_param { file_name: "out.h5" } }'
    )
    result = call("test", "-model", "out.prototxt", "-weights", "run_iter_20.caffemodel", "-iterations", "4")
    assert result.status == 0 and not any("each once" in line for line in result.lines)
    with h5py.File("rows.h5") as rows, h5py.File("out.h5") as out:
        assert np.array_equal(out["data"][:].reshape(16, -1), np.concatenate([rows["x"][:], rows["x"][:3]]))
