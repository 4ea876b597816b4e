"""tools/compare_revisions.py finds whether two revisions train the same bytes."""

import shutil
from pathlib import Path

import compare_revisions as tool
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name, way", [("lenet", "one"), ("ssd_shapes", "one"), ("lenet", "stages=2")])
def test_a_revision_equals_itself(name, way, tmp_path, capsys):
    if way != "one" and not shutil.which("mpirun"):
        pytest.skip("no mpirun")
    tool.prepare(name, tmp_path)
    assert tool.compare(name, way, ROOT, ROOT, 2, tmp_path)
    assert capsys.readouterr().out.count("equal") == 3


@pytest.mark.slow
def test_what_both_revisions_refuse_is_no_difference(tmp_path, capsys):
    tool.prepare("ssd_shapes", tmp_path)
    (tmp_path / "ssd_shapes.prototxt").write_text("layer { }")
    assert tool.compare("ssd_shapes", "one", ROOT, ROOT, 2, tmp_path)
    assert "both failed: caffelite: " in capsys.readouterr().out


@pytest.mark.parametrize("where", ["parameter 1 of ip", "history 0"])
def test_one_bit_of_difference_is_found(tmp_path, where):
    for name in ("old", "new"):
        values = {"parameter 1 of ip": 0.5, "history 0": 0.25}
        if name == "new":
            values[where] = float(np.nextafter(np.float32(values[where]), np.float32(1)))
        blobs = [pb.BlobProto(data=[1.0]), pb.BlobProto(data=[values["parameter 1 of ip"]])]
        model = pb.NetParameter(layer=[pb.LayerParameter(name="ip", blobs=blobs)])
        (tmp_path / f"{name}.caffemodel").write_bytes(model.SerializeToString())
        state = pb.SolverState(history=[pb.BlobProto(data=[values["history 0"]])])
        (tmp_path / f"{name}.solverstate").write_bytes(state.SerializeToString())
    assert tool.difference(tmp_path / "old", tmp_path / "new") == where
    assert tool.difference(tmp_path / "old", tmp_path / "old") is None
