"""tools/bench_large_batches.py: its net, and its three trainings on a small set, which are not run again."""

import sys

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data.writers import write_lmdb, write_mean

bench = pytest.importorskip("bench_large_batches")


def test_the_net_has_batch_norm_and_no_augmentation(tmp_path):
    bench.write_net(tmp_path, tmp_path / "net.prototxt")
    net = prototxt.read_net(tmp_path / "net.prototxt").message
    types = [layer.type for layer in net.layer]
    assert "LRN" not in types and types.count("BatchNorm") == types.count("Scale") == 2
    train, test = (layer for layer in net.layer if layer.type == "Data")
    assert train.data_param.batch_size == bench.MICRO and train.include[0].phase == pb.TRAIN
    assert not train.transform_param.HasField("perturb_param") and test.data_param.batch_size == 100


@pytest.mark.slow
def test_three_trainings_make_a_table_and_a_picture(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(1)
    images = [(rng.integers(0, 256, (3, 32, 32)).astype(np.uint8), i % 10) for i in range(256)]
    for name in ("cifar10_train_lmdb", "cifar10_test_lmdb"):
        write_lmdb(tmp_path / name, images)
    write_mean(tmp_path / "mean.binaryproto", np.full((3, 32, 32), 128.0))
    monkeypatch.setattr(bench, "IMAGES", 256)
    words = "--epochs 1 --seeds 1 --large 256".split()
    words += ["--data", tmp_path, "--work", tmp_path / "work", "--picture", tmp_path / "curves.png"]
    monkeypatch.setattr(sys, "argv", ["bench_large_batches.py", *map(str, words)])
    assert bench.main() == 0
    table = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    assert rows == [["SGD, 128 images", "2"], ["SGD, 256 images", "1"], ["LARS, 256 images", "1"]]
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr(bench.subprocess, "run", lambda *_, **__: pytest.fail("a training runs again"))
    assert bench.main() == 0 and capsys.readouterr().out == table
