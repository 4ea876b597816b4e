"""Data over IDX and NumPy files."""

import gzip
import os
import struct

import numpy as np
import pytest

from caffelite import inputs
from caffelite.data import samples
from caffelite.data.arrays import Packed
from caffelite.errors import CaffeliteError

LABELS = np.array([5, 0, 4, 1, 9, 2, 1], np.uint8)


@pytest.fixture
def arrays(source):
    def open_(path, labels=None, data="", **options):
        named = f'label_source: "{labels}"' if labels else ""
        param = f'data_param {{ source: "{path}" {named} backend: ARRAYS batch_size: 7 {data} }}'
        return source(f'type: "Data" top: "data" top: "label" {param}', **options)

    return open_


def write_idx(path, array):
    kind = {"uint8": 8, "float32": 13}[array.dtype.name]
    path.write_bytes(
        struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )
    return path


def write_npy(path, array):
    np.save(path.with_suffix(".npy"), array)
    return path.with_suffix(".npy")


@pytest.mark.parametrize("write", [write_idx, write_npy])
@pytest.mark.parametrize("most", [0, 1 << 20])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_and_labels(arrays, images, tmp_path, monkeypatch, write, most, dtype):
    monkeypatch.setattr(samples, "RESIDENT_BYTES", most)
    gray = images[:, 0].astype(dtype)
    source = arrays(write(tmp_path / "images", gray), write(tmp_path / "labels", LABELS), "shuffle: true")
    assert source.shapes == [(7, 1, 6, 5), (7,)]
    order = source.order(0, 14)
    for epoch in (order[:7], order[7:]):
        data, label = source.next()
        np.testing.assert_array_equal(data[:, 0], gray[epoch])
        np.testing.assert_array_equal(label, LABELS[epoch])


def test_npz_and_rows(arrays, tmp_path):
    rows = np.arange(28, dtype=np.float64).reshape(7, 4) / 3
    np.savez(tmp_path / "set.npz", data=rows, label=LABELS)
    data, label = arrays(tmp_path / "set.npz").next()
    np.testing.assert_array_equal(data, rows.astype(np.float32)[:, :, None, None])
    np.testing.assert_array_equal(label, LABELS)
    np.savez(tmp_path / "bare.npz", data=rows)
    assert arrays(tmp_path / "bare.npz").next()[1].tolist() == [0] * 7


def test_opening_an_npz_decompresses_one_image(arrays, tmp_path, monkeypatch):
    """Type and shape are in the header; a small file may hold more zeros than memory."""
    counts, read = [], Packed._read
    monkeypatch.setattr(Packed, "_read", lambda self, count: counts.append(count) or read(self, count))
    np.savez_compressed(tmp_path / "zeros.npz", data=np.zeros((700, 100, 100), np.float32), label=np.ones(700))
    source = arrays(tmp_path / "zeros.npz", data="prefetch: 1")
    assert source.shapes == [(7, 1, 100, 100), (7,)] and counts == [700, 10_000]
    data, label = source.next()
    assert not data.any() and label.tolist() == [1] * 7


def test_labels_of_an_npz_that_do_not_fit_are_not_read(arrays, tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "odd.npz", data=np.zeros((7, 4, 4)), label=np.zeros((2000, 1000)))
    monkeypatch.setattr(Packed, "_all", lambda self: pytest.fail("the labels were read"))
    with pytest.raises(CaffeliteError, match="the labels do not fit the images; expected 7, found 2000×1000"):
        arrays(tmp_path / "odd.npz")


@pytest.mark.parametrize("shuffle", ["", "shuffle: true"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_an_npz_that_is_too_large_to_stay(arrays, images, tmp_path, monkeypatch, shuffle, order):
    monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)
    np.savez_compressed(tmp_path / "set.npz", data=np.asarray(images, order=order), label=LABELS)
    source = arrays(tmp_path / "set.npz", data=shuffle)
    np.testing.assert_array_equal(source.next()[0], images[source.order(0, 7)])


@pytest.mark.data
def test_mnist_as_it_comes(arrays, data_folder, tmp_path):
    paths = []
    for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        packed = next((data_folder / "mnist").rglob(f"{name}*"))
        paths.append(tmp_path / name)
        paths[-1].write_bytes(gzip.decompress(packed.read_bytes()) if packed.suffix == ".gz" else packed.read_bytes())
    source = arrays(*paths)
    assert source.length == 10_000 and source.next()[1].tolist() == [7, 2, 1, 0, 4, 1, 4]


def test_fortran_order_is_read(arrays, images, tmp_path):
    np.save(tmp_path / "images.npy", np.asfortranarray(images))
    np.testing.assert_array_equal(arrays(tmp_path / "images.npy").next()[0], images)


@pytest.mark.parametrize("write", [write_idx, write_npy])
@pytest.mark.parametrize("shuffle", ["", "shuffle: true"])
def test_a_file_that_shrinks_between_batches(arrays, tmp_path, monkeypatch, in_a_child, write, shuffle):
    monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)
    path = write(tmp_path / "images", np.zeros((70, 100, 100), np.uint8))

    def use():
        source = arrays(path, data=f"prefetch: 1 {shuffle}")
        source.next()
        os.truncate(path, 5000)
        for _ in range(10):
            source.next()

    assert in_a_child(use) == 0


IDX = struct.pack(">BBBB1I", 0, 0, 8, 1, 3) + b"abc"


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "not an IDX file"),
        (b"\x1f\x8bxx", "packed files must be unpacked"),
        (IDX[:6], "the file is cut short"),
        (IDX[:-1], "10 bytes instead of 11"),
        (IDX + b"d", "12 bytes instead of 11"),
        (IDX, "no images; expected N×H×W, N×C×H×W or N×D, found 3"),
        (struct.pack(">BBBB3I", 0, 0, 8, 3, 0, 2, 2), "no images"),
    ],
)
def test_files_that_are_none(arrays, tmp_path, content, said):
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(CaffeliteError, match="images: ") as mistake:
        arrays(tmp_path / "images")
    assert said in str(mistake.value)


@pytest.mark.parametrize(
    "labels, said",
    [
        (LABELS[:6], "the labels do not fit the images; expected 7, found 6"),
        (np.zeros((7, 2)), "expected 7, found 7×2"),
        (LABELS + 0.5, "label 0 is not an integer that float32 represents exactly; found 5.5"),
        (np.full(7, "cat"), "no numbers"),
    ],
)
def test_labels_that_do_not_fit(arrays, images, tmp_path, labels, said):
    with pytest.raises(CaffeliteError, match=r"labels\.npy: ") as mistake:
        arrays(write_npy(tmp_path / "images", images), write_npy(tmp_path / "labels", labels))
    assert said in str(mistake.value)


@pytest.mark.parametrize("form", ["npy", "npz", "idx"])
@pytest.mark.parametrize("backend, said", [("", "LEVELDB, its default"), ("backend: LMDB", "LMDB")])
def test_arrays_without_their_backend_name_it(source, images, tmp_path, form, backend, said):
    path = tmp_path / f"set.{form}"
    if form == "npz":
        np.savez(path, data=images, label=LABELS)
    else:
        {"npy": write_npy, "idx": write_idx}[form](path, images)
    with pytest.raises(CaffeliteError, match=f"holds arrays, and backend is {said}; write backend: ARRAYS"):
        source(f'type: "Data" top: "data" data_param {{ source: "{path}" {backend} batch_size: 1 }}')


def test_a_small_npz_that_unpacks_to_much(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "UNPACKED", 1_000_000)
    np.savez_compressed(tmp_path / "a.npz", data=np.zeros((200, 100, 100), np.uint8), label=np.zeros(200))
    with pytest.raises(CaffeliteError, match="too many for a file of its size"):
        arrays(tmp_path / "a.npz")


def test_pickles_are_refused(arrays, tmp_path):
    with pytest.raises(CaffeliteError, match="cannot read the arrays"):
        arrays(write_npy(tmp_path / "images", np.array([{}], object)))


def test_mistakes_in_the_layer(arrays, source, images, tmp_path):
    path = write_npy(tmp_path / "images", images)
    with pytest.raises(CaffeliteError, match='label_source "gone.npy" does not exist'):
        arrays(path, "gone.npy")
    with pytest.raises(CaffeliteError, match="label_source belongs to backend ARRAYS"):
        source(f'type: "Data" top: "data" data_param {{ source: "{tmp_path}" label_source: "x" batch_size: 1 }}')
