"""The dataset commands on the real MNIST and CIFAR-10."""

import tarfile

import cv2
import lmdb
import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.cli.dataset import dataset
from caffelite.data import open_source
from caffelite.errors import NOWHERE


def invoke(*arguments):
    result = CliRunner().invoke(dataset, [str(a) for a in arguments], standalone_mode=False)
    if result.exception:
        raise result.exception


def lmdb_of(path, batch):
    layer = f'type: "Data" top: "data" top: "label" data_param {{ source: "{path}" backend: LMDB batch_size: {batch} }}'
    with open_source(text_format.Parse(layer, pb.LayerParameter()), pb.TEST, NOWHERE, 0) as source:
        assert source.length == batch
        return [array.copy() for array in source.next()]


def keys(path):
    with lmdb.open(str(path), readonly=True, lock=False) as db, db.begin() as transaction:
        return [key.decode()[9:] for key in transaction.cursor().iternext(values=False)]


@pytest.mark.data
def test_the_real_mnist(tmp_path, data_folder):
    invoke("mnist", "--from", data_folder / "mnist", "--out", tmp_path)
    _, label = lmdb_of(tmp_path / "mnist_test_lmdb", 10000)
    assert label[:5].tolist() == [7, 2, 1, 0, 4] and label.sum() == 44434


@pytest.mark.data
@pytest.mark.slow
def test_the_real_cifar10_as_image_files(tmp_path, data_folder):
    """Every record of the test set against the archive's own bytes; of the training set each image once, and the
    mean."""
    invoke("cifar10", "--from", data_folder / "cifar10-jpg.tar.gz", "--out", tmp_path)
    with tarfile.open(data_folder / "cifar10-jpg.tar.gz") as archive:
        files = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}
    test, train = lmdb_of(tmp_path / "cifar10_test_lmdb", 10000), lmdb_of(tmp_path / "cifar10_train_lmdb", 50000)
    classes = sorted({name.split("/")[1] for name in files})
    for name, image, label in zip(keys(tmp_path / "cifar10_test_lmdb"), *test, strict=True):
        expected = cv2.imdecode(np.frombuffer(files.pop(f"test/{name}"), np.uint8), cv2.IMREAD_COLOR)
        assert classes[int(label)] == name.split("/")[0] and (image == expected.transpose(2, 0, 1)).all()
    assert {f"train/{name}" for name in keys(tmp_path / "cifar10_train_lmdb")} == set(files)
    assert np.bincount(train[1].astype(int)).tolist() == [5000] * 10 and len(set(train[1][:50])) == 10
    mean = pb.BlobProto.FromString((tmp_path / "mean.binaryproto").read_bytes())
    assert np.array(mean.data) == pytest.approx(train[0].mean(0, np.float64).ravel(), rel=1e-6)
