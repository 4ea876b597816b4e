"""tools/compare_revisions.py finds whether two revisions train the same bytes."""

from pathlib import Path

import compare_revisions as tool
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.writers import write_lmdb

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_revision_equals_itself(tmp_path, capsys):
    for name in ("mnist_train_lmdb", "mnist_test_lmdb"):
        write_lmdb(tmp_path / name, ((np.full((1, 28, 28), i, np.uint8), i % 10) for i in range(10)))
    assert tool.compare("lenet", ROOT, ROOT, tmp_path, 4, tmp_path)
    assert capsys.readouterr().out.count("equal") == 3


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
