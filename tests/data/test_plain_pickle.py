"""Pickles that forge objects, call what they should not, or overflow the stack: each is refused, nothing is made."""

import pickle
import struct
import zipfile

import numpy as np
import pytest

from caffelite.data import cifar
from caffelite.data.plain_pickle import PlainUnpickler
from caffelite.errors import CaffeliteError
from caffelite.export.tensor_files import read_tensors

HEAD = b"\x80\x02"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"  # an array before its state


def text(content: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(content)) + content


def dtype(name: bytes, order: bytes = b"|") -> bytes:
    return (
        b"cnumpy\ndtype\n"
        + text(name)
        + b"K\x00K\x01\x87R(K\x03"
        + text(order)
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )


def array(rows: bytes, kind: bytes, content: bytes) -> bytes:
    return ARRAY + b"(K\x01" + rows + kind + b"\x89" + text(content) + b"tb"


def batch(images: bytes, labels: bytes = b"]K\x01a") -> bytes:
    return HEAD + b"}(" + text(b"data") + images + text(b"labels") + labels + b"u."


GOOD = array(b"K\x01M\x00\x0c\x86", dtype(b"u1"), bytes(3072))
POINTERS = text(struct.pack("<Q", 0x4141414141414141) * 8)
FORGED = {
    "an array of objects, called": (
        b"cnumpy\nndarray\nK\x08\x85U\x01O" + POINTERS + b"\x87R",
        "calls what is no function",
    ),
    "an array of objects, by its state": (array(b"K\x08\x85", dtype(b"O"), bytes(64)), "another type"),
    "a dtype of objects": (array(b"K\x01\x85", dtype(b"O8"), bytes(8)), "another type"),
    "a dtype of fields": (b"cnumpy\ndtype\n]" + text(b"O") + b"a\x85R", "another type"),
    "a shape of more": (array(b"K\x09M\x00\x0c\x86", dtype(b"u1"), bytes(3072)), "numbers for the shape"),
    "a negative shape": (array(b"J\xff\xff\xff\xffM\x00\x0c\x86", dtype(b"u1"), bytes(3072)), "without numbers"),
    "a shape that is a list": (array(b"]", dtype(b"u1"), b""), "without numbers"),
    "a function": (b"cbuiltins\neval\n" + text(b"1") + b"\x85R", "refers to builtins.eval"),
    "a new object": (b"cnumpy\nndarray\nK\x08\x85\x81", "no plain value"),
    "an instance": (b"(cnumpy\nndarray\no", "no plain value"),
    "an extension": (b"\x82\x01", "no plain value"),
    "a changed global": (b"cnumpy\nndarray\n}" + text(b"_make") + b"K\x01sb", "changes an object"),
    "a changed dictionary": (b"}}b", "changes an object"),
    "a long memo": (b"r\xff\xff\xff\xff", "found"),
    "a frame": (b"\x95" + b"\xff" * 8, "found"),
}


class Batch(dict):
    """The files of an archive."""

    where = "x"


def read(content: bytes):
    return cifar.read(Batch(test_batch=content), ["test_batch"])


def test_an_official_batch_is_read():
    images, labels = read(batch(GOOD))
    assert images.shape == (1, 3, 32, 32) and labels.tolist() == [1]
    wide = array(b"K\x01\x85", dtype(b"i8", b">"), struct.pack(">q", 7))
    assert read(batch(GOOD, wide))[1].tolist() == [7]


@pytest.mark.parametrize("name", FORGED)
def test_no_object_is_forged(name):
    images, said = FORGED[name]
    with pytest.raises(CaffeliteError, match=said):
        read(batch(images))


def test_nested_values_do_not_overflow_the_stack():
    nested = b")" + b"\x85" * 500_000
    for content in (b"}" + nested + b"K\x01s", b"}(" + nested + b"K\x01u", nested, b"]" + nested + b"a"):
        with pytest.raises(CaffeliteError):
            read(HEAD + b"}(" + text(b"data") + content + text(b"labels") + nested + b"u.")


def test_every_opcode_of_a_plain_value_is_known():
    value = {"a": [1, -1, 300, 1 << 40, 1.5, None, True, False, b"b" * 300, "c" * 300, (), (1,), (1, 2), (1, 2, 3, 4)]}
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert PlainUnpickler(pickle.dumps(value["a"][:8], protocol), {}).load() == value["a"][:8]
    assert PlainUnpickler(pickle.dumps(value, 4), {}).load() == value


def weights(path, pickled: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", pickled)
        archive.writestr("net/data/0", np.ones(4, np.float32).tobytes())
    return path


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def tensor(storage: bytes, shape: bytes, strides: bytes, offset: bytes = b"K\x00") -> bytes:
    return REBUILD + b"(" + storage + offset + shape + strides + b"\x89ccollections\nOrderedDict\n)RtR"


def state(*values: bytes) -> bytes:
    named = b"".join(b"X\x01\0\0\0" + bytes([97 + i]) + value for i, value in enumerate(values))
    return HEAD + b"ccollections\nOrderedDict\n)R(" + named + b"u}X\x09\0\0\0_metadata}sb."


def test_weights_of_torch_are_read(tmp_path):
    actual = read_tensors(weights(tmp_path / "x.pth", state(tensor(STORAGE, b"K\x02K\x02\x86", b"K\x02K\x01\x86"))))
    assert np.array_equal(actual["a"], np.ones((2, 2)))


EMPTY = tensor(STORAGE, b"M\xff\xffK\x00\x86", b"K\x01K\x01\x86")  # of 65535 rows and no bytes


@pytest.mark.parametrize(
    "value",
    [
        # A storage whose values were exchanged for an array of many rows without bytes: reads behind its end.
        tensor(STORAGE + b"q\x05}X\x06\0\0\0values" + EMPTY + b"sb", b"M\xff\xff\x85", b"K\x01\x85"),
        tensor(STORAGE, b"K\x04\x85", b"K\x01\x85") + b"(K\x01K\x04\x85NN\x89tb",  # the state of an array
        REBUILD + b"}X\x0c\0\0\0__defaults__)sb",  # the state of a function
        tensor(STORAGE, b"G\x40\0\0\0\0\0\0\0\x85", b"K\x01\x85"),  # a size of 2.0
        tensor(STORAGE, b"]K\x04a", b"]K\x01a"),
        tensor(STORAGE, b"K\x04\x85", b"J\xff\xff\xff\xff\x85"),
        tensor(STORAGE, b"\x8a\x09" + b"\0" * 8 + b"\x01\x85", b"K\x00\x85"),  # 2^64
        tensor(STORAGE, b"K\x02\x85", b"K\x04\x85"),
        tensor(STORAGE, b"K\x02\x85", b"K\x01\x85", b"K\x03"),
        tensor(tensor(STORAGE, b"K\x04\x85", b"K\x01\x85"), b"K\x04\x85", b"K\x01\x85"),  # a tensor in its place
        b"ccollections\nOrderedDict\n]\x85R",
        STORAGE.replace(b"X\x01\0\0\x000", b")" + b"\x85" * 200_000),
        b"cos\nsystem\n" + text(b"true") + b"\x85R",
    ],
)
def test_weights_of_torch_forge_nothing(tmp_path, value):
    with pytest.raises(CaffeliteError, match="cannot read weights"):
        read_tensors(weights(tmp_path / "x.pth", state(value)))
