"""The dataset commands, read back through the sources that the nets use."""

import gzip
import hashlib
import os
import struct
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.cli.dataset import dataset, mnist
from caffelite.data import open_source
from caffelite.errors import NOWHERE, CaffeliteError


def invoke(*arguments):
    """What the command said on standard error; its errors pass through."""
    result = CliRunner().invoke(dataset, [str(a) for a in arguments], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stderr


def everything(layer, batch):
    with open_source(text_format.Parse(layer, pb.LayerParameter()), pb.TEST, NOWHERE, 0) as source:
        assert source.length == batch
        return [array.copy() for array in source.next()]


def lmdb_of(path, batch):
    param = f'data_param {{ source: "{path}" backend: LMDB batch_size: {batch} }}'
    return everything(f'type: "Data" top: "data" top: "label" {param}', batch)


def idx(values):
    return struct.pack(f">2x2B{values.ndim}I", 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def small_mnist(monkeypatch):
    """Four small files in MNIST's format, for which the checksums are made to fit."""
    random = np.random.default_rng(0)
    contents, sums = {}, {}
    for name in mnist.MNIST_FILES:
        rows = 12 if name.startswith("train") else 5
        shape = (rows, 28, 28) if "images" in name else (rows,)
        contents[name] = idx(random.integers(0, 10, shape).astype(np.uint8))
        packed = gzip.compress(contents[name], mtime=0)
        sums[name] = hashlib.md5(packed).hexdigest(), hashlib.md5(contents[name]).hexdigest()
    monkeypatch.setattr(mnist, "MNIST_FILES", sums)
    return contents


def put(folder, contents, packed=True):
    folder.mkdir()
    for name, content in contents.items():
        (folder / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return folder


def check_mnist(out, contents):
    for part, name, rows in (("train", "mnist_train_lmdb", 12), ("t10k", "mnist_test_lmdb", 5)):
        data, label = lmdb_of(out / name, rows)
        assert data.astype(np.uint8).tobytes() == contents[f"{part}-images-idx3-ubyte"][16:]
        assert label.astype(np.uint8).tobytes() == contents[f"{part}-labels-idx1-ubyte"][8:]


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_from_a_folder(tmp_path, small_mnist, packed):
    said = invoke("mnist", "--from", put(tmp_path / "in", small_mnist, packed), "--out", tmp_path / "out")
    check_mnist(tmp_path / "out", small_mnist)
    assert f"wrote {tmp_path}/out/mnist_train_lmdb: 12 images of 28×28\n" in said
    assert sorted(os.listdir(tmp_path / "out")) == ["mnist_test_lmdb", "mnist_train_lmdb"]


def test_mnist_downloaded_from_the_second_mirror(tmp_path, small_mnist, monkeypatch):
    good, bad = put(tmp_path / "good", small_mnist), put(tmp_path / "bad", dict.fromkeys(small_mnist, b"<html>"))
    monkeypatch.setattr(mnist, "MNIST_MIRRORS", (bad.as_uri(), good.as_uri()))
    invoke("mnist", "--out", tmp_path / "out")
    check_mnist(tmp_path / "out", small_mnist)


def test_mnist_that_no_mirror_has(tmp_path, small_mnist, monkeypatch):
    bad = put(tmp_path / "bad", dict.fromkeys(small_mnist, b"<html>"))
    monkeypatch.setattr(mnist, "MNIST_MIRRORS", ((tmp_path / "gone").as_uri(), bad.as_uri()))
    with pytest.raises(CaffeliteError, match=r"cannot download train-images.*No such file.*wrong checksum.*--from"):
        invoke("mnist", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mnist_with_a_wrong_checksum(tmp_path, small_mnist):
    folder = put(tmp_path / "in", small_mnist | {"t10k-labels-idx1-ubyte": b"other"})
    expected, found = small_mnist["t10k-labels-idx1-ubyte"], b"other"
    with pytest.raises(CaffeliteError) as mistake:
        invoke("mnist", "--from", folder, "--out", tmp_path / "out")
    for part in ("t10k-labels-idx1-ubyte.gz", hashlib.md5(expected).hexdigest(), hashlib.md5(found).hexdigest()):
        assert part in str(mistake.value)
    assert not (tmp_path / "out").exists()


def test_mnist_with_a_file_missing_or_cut(tmp_path, small_mnist):
    folder = put(tmp_path / "in", small_mnist)
    file = folder / "train-labels-idx1-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CaffeliteError, match=r"train-labels-idx1-ubyte\.gz: damaged gzip file"):
        invoke("mnist", "--from", folder, "--out", tmp_path)
    file.unlink()
    with pytest.raises(CaffeliteError, match=r"in: an MNIST file is missing; expected train-labels-idx1-ubyte or"):
        invoke("mnist", "--from", folder, "--out", tmp_path)


@pytest.mark.parametrize("command, made", [("digits", "digits_test_lmdb"), ("mnist", "mnist_test_lmdb"), ("blobs", "logreg_test.txt")])
def test_what_exists_is_kept(tmp_path, command, made):
    (tmp_path / made).write_text("mine")
    with pytest.raises(CaffeliteError, match=f"{made}: already exists; give --force"):
        invoke(command, "--out", tmp_path)
    assert os.listdir(tmp_path) == [made] and (tmp_path / made).read_text() == "mine"


def test_digits(tmp_path):
    pytest.importorskip("sklearn")
    said = invoke("digits", "--out", tmp_path)
    assert "digits_train_lmdb: 1437 images of 28×28" in said and "digits_test_lmdb: 360 images of 28×28" in said
    train, train_label = lmdb_of(tmp_path / "digits_train_lmdb", 1437)
    test, test_label = lmdb_of(tmp_path / "digits_test_lmdb", 360)
    for data in (train, test):
        assert data.shape[1:] == (1, 28, 28) and data.max() == 255 and data.min() == 0
        assert not data[:, :, :4].any() and not data[..., -4:].any() and data[:, :, 4:24, 4:24].mean() > 50
    assert (np.abs(np.bincount(test_label.astype(int)) - np.bincount(train_label.astype(int)) / 4) <= 1).all()
    assert len(np.unique(np.concatenate([train, test]).reshape(1797, -1), axis=0)) > 1790, "no image is in both"
    assert len(set(train_label[:20])) > 5, "classes come mixed"
    before = (tmp_path / "digits_train_lmdb" / "data.mdb").read_bytes()
    invoke("digits", "--out", tmp_path, "--force")
    assert (tmp_path / "digits_train_lmdb" / "data.mdb").read_bytes() == before


def test_digits_without_scikit_learn(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(CaffeliteError, match=r"needs scikit-learn.*caffelite\[digits\]"):
        invoke("digits", "--out", tmp_path)


def test_blobs_can_be_told_apart_by_a_line(tmp_path):
    assert "logreg_train.h5" in invoke("blobs", "--out", tmp_path)
    for name, rows in (("train", 8000), ("test", 2000)):
        param = f'hdf5_data_param {{ source: "{tmp_path}/logreg_{name}.txt" batch_size: {rows} }}'
        data, label = everything(f'type: "HDF5Data" top: "data" top: "label" {param}', rows)
        assert data.shape == (rows, 4) and label.mean() == 0.5
        right = ((data @ [1, 0.5, 0.25, 0] > 0) == label).mean()
        assert 0.8 < right < 0.95


def test_another_seed_draws_other_blobs(tmp_path):
    for seed, out in ((1, "a"), (1, "b"), (2, "c")):
        invoke("blobs", "--seed", seed, "--out", tmp_path / out)
    one, same, other = ((tmp_path / out / "logreg_test.h5").read_bytes() for out in "abc")
    assert one == same != other


@pytest.mark.parametrize("command", [[], ["digits"], ["mnist"], ["blobs"]])
def test_every_help_has_an_example(command):
    assert "Example: caffelite dataset" in CliRunner().invoke(dataset, [*command, "--help"]).stdout


@pytest.mark.data
def test_the_real_mnist(tmp_path, data_folder):
    invoke("mnist", "--from", data_folder / "mnist", "--out", tmp_path)
    _, label = lmdb_of(tmp_path / "mnist_test_lmdb", 10000)
    assert label[:5].tolist() == [7, 2, 1, 0, 4] and label.sum() == 44434
