"""Caffemodels that other programs wrote: NVCaffe's weights as bytes, and our own files rewritten."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, weights
from caffelite.errors import CaffeliteError


def read(tmp_path, data: bytes) -> dict[str, list[np.ndarray]]:
    (tmp_path / "m.caffemodel").write_bytes(data)
    return weights.read_model(tmp_path / "m.caffemodel")


RAW = {0: "<f8", 1: "<f4", 2: "<f2"}  # NVCaffe's raw_data_type: the values' type


def raw_blob(array: np.ndarray, kind: int, *more: bytes) -> bytes:
    """A BlobProto as NVCaffe writes it: its shape, raw_data_type and raw_data."""
    shape = weights.field_bytes(7, pb.BlobShape(dim=array.shape).SerializeToString())
    return b"".join([shape, *more, bytes([10 << 3, kind]), weights.field_bytes(12, array.astype(RAW[kind]).tobytes())])


def model_of(*blobs: bytes) -> bytes:
    layer = weights.field_bytes(1, b"a") + b"".join(weights.field_bytes(7, blob) for blob in blobs)
    return weights.field_bytes(100, layer)


@pytest.mark.parametrize("kind", RAW)
def test_values_as_bytes(tmp_path, seed, kind):
    """NVCaffe's form of weights, also of float16."""
    array = np.random.default_rng(seed).normal(size=(3, 5))
    array[0] = 0, -0.0, 65504, 6e-8, -1
    actual = read(tmp_path, model_of(raw_blob(array, kind), weights.encode_blob(np.ones(2, np.float32))))["a"]
    assert actual[0].dtype == np.float32 and actual[0].tolist() == array.astype(RAW[kind]).astype(np.float32).tolist()
    assert actual[1].tolist() == [1, 1]


def test_values_as_bytes_beside_others_do_not_count(tmp_path):
    """As in NVCaffe, which looks at them last."""
    other = weights.field_bytes(5, np.float32([1, 2]).tobytes())
    assert read(tmp_path, model_of(raw_blob(np.float32([3, 4]), 1, other)))["a"][0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (b"", bytes(12), "raw_data of type None"),
        (bytes([80, 3]), bytes(12), "raw_data of type 3"),
        (bytes([80, 2]), bytes(5), "5 bytes of float16 values"),
        (bytes([80, 2]), bytes(8), r"\[3\] with 4 values"),
    ],
)
def test_values_as_bytes_that_are_damaged(tmp_path, kind, values, said):
    shape = weights.field_bytes(7, pb.BlobShape(dim=[3]).SerializeToString())
    blob = shape + kind + weights.field_bytes(12, values)
    with pytest.raises(CaffeliteError, match=f"no caffemodel, or a damaged one .*{said}"):
        read(tmp_path, model_of(blob))


@pytest.mark.parametrize("run", [None, pb.RunOrigin(id="a" * 32, began=10**18)])
def test_a_file_that_another_program_rewrote_has_no_checksum(tmp_path, run):
    """Protobuf moves fields that a program does not know, such as the checksum's, to the end."""
    model = model_of(weights.encode_blob(np.ones(2, np.float32)))
    rewritten = model + weights.sealed(b"", run)
    assert not weights.check_seal(rewritten, tmp_path / "m.caffemodel")
    assert read(tmp_path, rewritten)["a"][0].tolist() == [1, 1]
