"""Sampler BALANCED: every class equally often, as a function of the position."""

import re

import cv2
import lmdb
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import Shard, open_source
from caffelite.data.order import BalancedOrder
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError

LABELS = np.array([0] * 20 + [1] * 3 + [7] * 7)
KEY = (3, 4)


def order(shuffle=KEY, labels=LABELS, skipped=0):
    return BalancedOrder(len(labels), lambda: labels, shuffle, skipped)


@pytest.mark.parametrize("shuffle", [None, KEY])
def test_each_block_has_every_class_once(shuffle):
    numbers = order(shuffle)(0, 300)
    drawn = LABELS[numbers].reshape(100, 3)
    assert (np.sort(drawn, axis=1) == [0, 1, 7]).all()
    if shuffle:
        assert len({tuple(row) for row in drawn.tolist()}) == 6, "classes come in every order"
    else:
        assert (drawn == [0, 1, 7]).all() and numbers[:6].tolist() == [0, 20, 23, 1, 21, 24]


@pytest.mark.parametrize("shuffle", [None, KEY])
def test_samples_of_a_class_are_drawn_in_rounds(shuffle):
    """Each sample of a class once, before the next round."""
    numbers = order(shuffle)(0, 300)
    for label, count in ((0, 20), (1, 3), (7, 7)):
        drawn = numbers[LABELS[numbers] == label]
        rounds = drawn[: len(drawn) // count * count].reshape(-1, count)
        members = np.flatnonzero(LABELS == label)
        assert (np.sort(rounds, axis=1) == members).all()
        if shuffle and count > 3:
            assert len({tuple(row) for row in rounds.tolist()}) == len(rounds)


@pytest.mark.parametrize("shuffle", [None, KEY])
@pytest.mark.parametrize("batch", [1, 4, 7, 64])
def test_the_order_is_a_function_of_the_position(shuffle, batch):
    whole = order(shuffle)(0, 448)
    parts = order(shuffle)
    np.testing.assert_array_equal(np.concatenate([parts(i, batch) for i in range(0, 448, batch)]), whole)
    np.testing.assert_array_equal(order(shuffle)(131, 50), whole[131:181])
    np.testing.assert_array_equal(order(shuffle, skipped=9)(0, 50), whole[9:59])


def test_another_seed_is_another_order():
    assert (order((5, 6))(0, 60) != order(KEY)(0, 60)).any()


def test_labels_are_read_once_and_late():
    calls = []

    def labels():
        calls.append(1)
        return LABELS

    made = BalancedOrder(len(LABELS), labels, KEY)
    assert not calls
    made(0, 5)
    made(5, 5)
    assert len(calls) == 1


def test_many_classes_of_one_sample():
    labels = np.arange(1000)[::-1]
    numbers = order(KEY, labels)(500, 1000)
    assert np.bincount(numbers[500:], minlength=1000).sum() == 500 and len(set(numbers[:500].tolist())) == 500


# Sources


@pytest.fixture
def data(tmp_path, monkeypatch):
    """30 samples in 3 uneven classes, as LMDB, LevelDB, list of images, arrays and HDF5; the value of an image is its
    index."""
    monkeypatch.chdir(tmp_path)
    images = [(np.full((1, 4, 4), i, np.uint8), int(label)) for i, label in enumerate(LABELS)]
    write_lmdb("lmdb", images)
    np.savez("arrays.npz", data=np.stack([image for image, _ in images]), label=LABELS)
    lines = []
    for i, (image, label) in enumerate(images):
        cv2.imwrite(f"{i}.png", image[0])
        lines.append(f"{i}.png {label}\n")
    (tmp_path / "list.txt").write_text("".join(lines))
    values = np.arange(30.0)[:, None]
    write_hdf5(tmp_path / "a.h5", {"x": values[:11], "label": LABELS[:11].astype(float)})
    write_hdf5(tmp_path / "b.h5", {"x": values[11:], "label": LABELS[11:].astype(float)})
    (tmp_path / "h5.txt").write_text("a.h5\nb.h5\n")
    return tmp_path


TEXTS = {
    "lmdb": 'type: "Data" data_param { source: "lmdb" backend: LMDB batch_size: 6 MORE }',
    "arrays": 'type: "Data" data_param { source: "arrays.npz" backend: ARRAYS batch_size: 6 MORE }',
    "list": 'type: "ImageData" image_data_param { source: "list.txt" batch_size: 6 is_color: false MORE }',
    "hdf5": 'type: "HDF5Data" hdf5_data_param { source: "h5.txt" batch_size: 6 MORE }',
}


def opened(kind, more="sampler: BALANCED shuffle: true", phase=pb.TRAIN, tops='top: "x" top: "label"', **options):
    text = f'layer {{ name: "data" {tops} {TEXTS[kind].replace("MORE", more)} }}'
    document = prototxt.parse(text, pb.NetParameter, "net")
    return open_source(document.message.layer[0], phase, document.locate.at("layer", 0), 5, **options)


def drawn(source, batches):
    """(index of the sample, label) of each sample."""
    actual = []
    for _ in range(batches):
        x, label = source.next()
        actual += zip(x.reshape(len(x), -1)[:, 0].astype(int).tolist(), label.reshape(-1).astype(int), strict=True)
    return np.array(actual)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("more", ["sampler: BALANCED", "sampler: BALANCED shuffle: true"])
def test_every_source_draws_classes_equally_often(data, kind, more):
    with opened(kind, more) as source:
        actual = drawn(source, 20)
    assert source.length == 30
    assert (LABELS[actual[:, 0]] == actual[:, 1]).all()
    assert (np.sort(actual[:, 1].reshape(-1, 3), axis=1) == [0, 1, 7]).all()
    assert set(actual[:, 0]) == set(range(30)), "also the samples of the large class"


@pytest.mark.parametrize("kind", TEXTS)
def test_a_resumed_source_continues_its_order(data, kind):
    with opened(kind) as source:
        whole = drawn(source, 15)
    with opened(kind) as source:
        source.seek(6 * 7)
        np.testing.assert_array_equal(drawn(source, 8), whole[6 * 7 :])


@pytest.mark.parametrize("kind", TEXTS)
def test_processes_share_the_order_of_one(data, kind):
    with opened(kind) as source:
        whole = drawn(source, 12).reshape(12, 6, 2)
    for rank in range(3):
        with opened(kind, shard=Shard(rank, 3)) as source:
            np.testing.assert_array_equal(drawn(source, 4).reshape(4, 6, 2), whole[rank::3])


@pytest.mark.parametrize("kind", TEXTS)
def test_a_test_reads_each_sample_once(data, kind):
    with opened(kind, "sampler: BALANCED", pb.TEST) as source:
        assert drawn(source, 5)[:, 0].tolist() == list(range(30))


def test_hdf5_that_is_too_large_for_memory_gives_the_same(data, monkeypatch):
    with opened("hdf5") as source:
        whole = drawn(source, 5)
    monkeypatch.setattr("caffelite.data.hdf5.RESIDENT_BYTES", 100)
    with opened("hdf5") as source:
        np.testing.assert_array_equal(drawn(source, 5), whole)


def test_hdf5_without_single_labels_is_an_error(data):
    write_hdf5(data / "c.h5", {"x": np.ones((4, 2)), "label": np.ones((4, 3))})
    (data / "h5.txt").write_text("c.h5\n")
    with pytest.raises(CaffeliteError, match=re.escape("net:1:") + '.*sampler BALANCED has no labels.*"label", '):
        opened("hdf5")
    with pytest.raises(CaffeliteError, match="no second top"):
        opened("hdf5", tops='top: "x"')


def test_a_table_of_several_labels_is_an_error(data):
    (data / "table.csv").write_text("file,a,b\n0.png,1,0\n1.png,0,1\n")
    with pytest.raises(CaffeliteError, match="needs one label for each sample; found 2 numbers"):
        document = prototxt.parse(
            'layer { name: "data" type: "ImageData" top: "x" top: "label" image_data_param { source: "table.csv" '
            "batch_size: 2 sampler: BALANCED } }",
            pb.NetParameter,
            "net",
        )
        open_source(document.message.layer[0], pb.TRAIN, document.locate.at("layer", 0), 5)


def test_a_damaged_record_is_named(data):
    with lmdb.open("lmdb") as db, db.begin(write=True) as view:
        key = [key for key, _ in view.cursor()][4]
        view.put(key, b"\xff\xff\xff")
    with opened("lmdb") as source, pytest.raises(CaffeliteError, match=f'record "{key.decode()}": not a Datum record'):
        source.next()
