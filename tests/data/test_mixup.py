"""mixup_param: pairs of samples of the run are mixed, with their labels."""

import re

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import Shard, open_source
from caffelite.data.draws import key
from caffelite.data.mixup import shares
from caffelite.data.writers import write_lmdb
from caffelite.errors import CaffeliteError

SAMPLES, CLASSES, BATCH = 20, 3, 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    write_lmdb(
        tmp_path / "lmdb", ((rng.integers(0, 256, (1, 2, 3)).astype(np.uint8), i % CLASSES) for i in range(SAMPLES))
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(transform="", data="", phase=pb.TRAIN, shard=None, kind="Data", batch=BATCH, tops='top: "x" top: "y"'):
    text = f"""layer {{ name: "data" type: "{kind}" {tops} transform_param {{ {transform} }}
      data_param {{ source: "lmdb" backend: LMDB batch_size: {batch} {data} }} }}"""
    return opened(text, phase, shard or Shard())


def opened(text, phase=pb.TRAIN, shard=Shard()):  # noqa: B008
    document = prototxt.parse(text, pb.NetParameter, "net")
    return open_source(document.message.layer[0], phase, document.locate.at("layer", 0), 1, shard)


def batches(data, count):
    with data:
        drawn = [[array.copy() for array in data.next()] for _ in range(count)]
    return [np.concatenate(top) for top in zip(*drawn, strict=True)]


MIXUP = f"mixup_param {{ alpha: 0.5 classes: {CLASSES} }}"


@pytest.mark.parametrize("transform", ["", "mirror: true scale: 0.5 mean_value: 3", "perturb_param { shift_x: 1 }"])
def test_pairs_are_mixed_after_the_transform_and_labels_alike(folder, transform):
    plain, labels = batches(source(transform, "shuffle: true"), 12)
    mixed, targets = batches(source(f"{transform} {MIXUP}", "shuffle: true"), 12)
    parameter = pb.MixupParameter(alpha=0.5, classes=CLASSES)
    own = np.repeat(shares(parameter, key(1, "data", "mixup"), 0, len(plain) // 2), 2)
    other = np.arange(len(plain)) ^ 1
    weights = own[:, None, None, None]
    np.testing.assert_allclose(mixed, weights * plain + (1 - weights) * plain[other], rtol=1e-5, atol=1e-4)
    hot = np.eye(CLASSES)[labels.astype(int)]
    np.testing.assert_allclose(targets, own[:, None] * hot + (1 - own[:, None]) * hot[other], atol=1e-6)
    assert targets.shape == (48, CLASSES) and len(set(own.tolist())) == 24


def test_shares_have_the_beta_distribution():
    drawn = shares(pb.MixupParameter(alpha=0.3, prob=1), (1, 2), 0, 40_000).astype(float)
    assert abs(drawn.mean() - 0.5) < 0.01
    assert abs(drawn.var() - 1 / (4 * (2 * 0.3 + 1))) < 0.005
    some = shares(pb.MixupParameter(alpha=0.3, prob=0.25), (1, 2), 0, 40_000)
    assert abs((some != 1).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(some[some != 1], drawn.astype(np.float32)[some != 1])


def test_a_resume_and_several_processes_see_the_same_samples(folder):
    whole = batches(source(MIXUP, "shuffle: true"), 12)
    later = source(MIXUP, "shuffle: true")
    later.seek(5 * BATCH)
    for expected, actual in zip(whole, batches(later, 7), strict=True):
        np.testing.assert_array_equal(expected[5 * BATCH :], actual)
    processes = [batches(source(MIXUP, "shuffle: true", shard=Shard(rank, 3)), 4) for rank in range(3)]
    for top, expected in enumerate(whole):
        parts = [each[top].reshape(4, BATCH, *expected.shape[1:]) for each in processes]
        np.testing.assert_array_equal(np.stack(parts, 1).reshape(expected.shape), expected)
    devices = [source(MIXUP, "shuffle: true") for _ in range(2)]
    for i, each in enumerate(devices):
        each.divide(i, 2)
    drawn = [batches(each, 12) for each in devices]
    for top, expected in enumerate(whole):
        parts = [each[top].reshape(12, BATCH // 2, *expected.shape[1:]) for each in drawn]
        np.testing.assert_array_equal(np.stack(parts, 1).reshape(expected.shape), expected)


def test_a_test_mixes_nothing(folder):
    images, labels = batches(source(MIXUP, phase=pb.TEST), 2)
    plain, _ = batches(source(phase=pb.TEST), 2)
    np.testing.assert_array_equal(images, plain)
    assert labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    off, _ = batches(source("mixup_param { classes: 3 }"), 2)
    np.testing.assert_array_equal(off, plain)


@pytest.mark.parametrize(
    ("transform", "fields", "error"),
    [
        ("mixup_param { alpha: -1 classes: 3 }", {}, "a bad alpha; expected a finite number from 0, found -1"),
        ("mixup_param { alpha: 1 classes: 3 prob: 2 }", {}, "a bad prob; expected from 0 to 1, found 2"),
        ("mixup_param { alpha: 1 }", {}, "a bad classes; expected the number of classes, at least 2, found 0"),
        (MIXUP, {"batch": 3}, "mixup_param mixes pairs of one batch; found batches of 3; choose an even batch_size"),
        (MIXUP, {"tops": 'top: "x"'}, "mixup_param needs two tops"),
    ],
)
def test_errors(folder, transform, fields, error):
    with pytest.raises(CaffeliteError, match=re.escape(error)):
        source(transform, **fields)


def test_a_part_of_a_batch_must_have_pairs(folder):
    with source(MIXUP) as data, pytest.raises(CaffeliteError, match="found batches of 1"):
        data.divide(0, 4)


def test_a_label_that_is_no_class(folder):
    with (
        source("mixup_param { alpha: 1 classes: 2 }") as data,
        pytest.raises(CaffeliteError, match="a label in the data is no class; expected 0 to 1, found 2"),
    ):
        data.next()


def test_other_types_take_no_mixup(folder):
    text = f"""layer {{ name: "data" type: "WindowData" top: "x" top: "y" transform_param {{ crop_size: 2 {MIXUP} }}
      window_data_param {{ source: "windows.txt" batch_size: 2 }} }}"""
    with pytest.raises(CaffeliteError, match=r"takes no mixup_param; expected Data or ImageData"):
        opened(text)
