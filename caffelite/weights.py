"""Parameter blobs in Caffe's files: the wire format of NetParameter and BlobProto, with arrays instead of lists of numbers.

Protobuf's Python objects hold a Python float for each weight; AlexNet has 61 million. So blobs are cut out and put in as bytes, and
everything else goes through protobuf. A checksum (ours, which Caffe skips as an unknown field) comes last.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from . import caffelite_pb2 as pb
from .errors import CaffeliteError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_CHECKSUM = pb.NetParameter.CHECKSUM_FIELD_NUMBER
_DIGEST = 16
# HDF5 looks no further than its own end; there our checksum stands. An attribute of the root says that it should.
_HDF5, _HDF5_SEAL, _HDF5_PROMISE = b"\x89HDF\r\n\x1a\n", b"caffelite checksum", "caffelite_checksum"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def field_bytes(number: int, body: bytes) -> bytes:
    """A length-delimited field of a message."""
    return _tag(number, LENGTH) + _varint(len(body)) + body


# A blob's values, or its values and gradients.
Blob = np.ndarray | tuple[np.ndarray, np.ndarray]


def encode_blob(blob: Blob) -> bytes:
    """A BlobProto: shape, and data, and perhaps diff, as float."""
    parts = blob if isinstance(blob, tuple) else (blob,)
    shape = pb.BlobShape(dim=parts[0].shape).SerializeToString()
    values = (field_bytes(number, np.ascontiguousarray(part, "<f4").tobytes()) for number, part in zip((5, 6), parts, strict=False))
    return field_bytes(7, shape) + b"".join(values)


def encode_net(net: pb.NetParameter, blobs: Iterable[tuple[pb.LayerParameter, list[Blob]]]) -> bytes:
    """A NetParameter as Caffe writes a caffemodel: the net's name, and each layer with its blobs."""
    head = pb.NetParameter(name=net.name)
    parts = [head.SerializeToString()]
    for spec, arrays in blobs:
        bare = pb.LayerParameter()
        bare.CopyFrom(spec)
        bare.ClearField("blobs")
        body = bare.SerializeToString() + b"".join(field_bytes(7, encode_blob(a)) for a in arrays)
        parts.append(field_bytes(100, body))
    return b"".join(parts)


def sealed(body: bytes) -> bytes:
    """The body of a message with its checksum behind it, and before it the promise of one, so that a lost end shows."""
    body = _PROMISE + body
    return body + field_bytes(_CHECKSUM, hashlib.blake2b(body, digest_size=_DIGEST).digest())


def check_seal(data: bytes, path: Path) -> bool:
    """Compares a file's checksum, where it has one (Caffe's own files have none); whether it has."""
    if data.startswith(_HDF5):
        body, seal = data[: -len(_HDF5_SEAL) - _DIGEST], data[-len(_HDF5_SEAL) - _DIGEST :]
        if not seal.startswith(_HDF5_SEAL):
            return False
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != seal[len(_HDF5_SEAL) :]:
            raise CaffeliteError(f"{path} is damaged: its checksum does not match")
        return True
    mark = _tag(_CHECKSUM, LENGTH) + _varint(_DIGEST)
    body, seal = data[: -len(mark) - _DIGEST], data[-len(mark) - _DIGEST :]
    if seal[: len(mark)] != mark:
        if data.startswith(_PROMISE):
            raise CaffeliteError(f"{path} is damaged: its end is missing")
        return False
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != seal[len(mark) :]:
        raise CaffeliteError(f"{path} is damaged: its checksum does not match")
    return True


_PROMISE = field_bytes(_CHECKSUM, b"")


class Damaged(ValueError):
    """Bytes that are no message of the kind expected."""


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview, memoryview]]:
    """(number, wire type, value, the field's own bytes) of each field of a message."""
    at, end = 0, len(data)

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= end or shift > 63:
                raise Damaged("truncated")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < end:
        start = at
        key = varint()
        wire = key & 7
        if wire == VARINT:
            value: int | memoryview = varint()
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire)
            if size is None:
                if wire != LENGTH:
                    raise Damaged(f"wire type {wire}")
                size = varint()
            if at + size > end:
                raise Damaged("truncated")
            value = data[at : at + size]
            at += size
        if not 0 < key >> 3 < 1 << 29:
            raise Damaged(f"field {key >> 3}")
        yield key >> 3, wire, value, data[start:at]


def decode_blob(data: memoryview) -> np.ndarray:
    """The values of a BlobProto as float32 in its shape; the old num, channels, height, width give four axes."""
    shape, legacy, parts = None, {}, []
    for number, wire, value, _ in fields(data):
        if number == 7 and wire == LENGTH:
            try:
                shape = tuple(pb.BlobShape.FromString(bytes(value)).dim)
            except DecodeError as error:
                raise Damaged(str(error)) from None
        elif number in (1, 2, 3, 4) and wire == VARINT:
            legacy[number] = value
        elif wire == LENGTH and number in (5, 8) or (number, wire) in ((5, FIXED32), (8, FIXED64)):
            parts.append(np.frombuffer(value, "<f4" if number == 5 else "<f8"))
    flat = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.float32)])
    if shape is None:
        shape = tuple(legacy.get(i, 1) for i in (1, 2, 3, 4)) if legacy else (flat.size,)
    if min(shape, default=0) < 0 or math.prod(shape) != flat.size:
        raise Damaged(f"a blob of shape {list(shape)} with {flat.size} values")
    with np.errstate(over="ignore", invalid="ignore"):  # a double beyond float32 becomes infinite
        return flat.astype(np.float32).reshape(shape)


def read_model(path: str | Path) -> dict[str, list[np.ndarray]]:
    """The parameter blobs of a caffemodel by layer name, old (V0, V1) files included. Layers without blobs are left out."""
    if str(path).endswith(".h5"):
        return _read_hdf5_model(path)
    data = read_bytes(path)
    if not data:
        raise CaffeliteError(f"{path} is empty")
    check_seal(data, Path(path))
    found: dict[str, list[np.ndarray]] = {}
    try:
        for number, wire, layer, _ in fields(memoryview(data)):
            if number not in (100, 2) or wire != LENGTH:
                continue
            name, blobs = _layer(layer, "modern" if number == 100 else "V1")
            if blobs:
                found[name] = blobs
    except ValueError as error:
        raise CaffeliteError(f"{path} is no caffemodel, or a damaged one ({error})") from None
    return found


# form of a layer: numbers of its fields name and blobs, and of V1's field that holds a V0 layer
_FORMS = {"modern": (1, 7, 0), "V1": (4, 6, 1), "V0": (1, 50, 0)}


def _layer(data: memoryview, form: str) -> tuple[str, list[np.ndarray]]:
    """The name and the blobs of a layer."""
    name, blobs = "", []
    name_field, blob_field, inner = _FORMS[form]
    for number, wire, value, _ in fields(data):
        if wire == LENGTH and number == name_field:
            name = bytes(value).decode()
        elif wire == LENGTH and number == blob_field:
            blobs.append(decode_blob(value))
        elif wire == LENGTH and number == inner:
            name, more = _layer(value, "V0")
            blobs += more
    return name, blobs


def _read_hdf5_model(path: str | Path) -> dict[str, list[np.ndarray | None]]:
    """Caffe's HDF5 form: a group "data", in it a group a layer, in it a data set a blob, named by its number.

    A slash in a layer's name makes groups within groups. A blob that belongs to another layer is left out by Caffe, and None here.
    """
    found: dict[str, list[np.ndarray | None]] = {}

    def gather(group, name: str) -> None:
        sets = {key: item for key, item in group.items() if not hasattr(item, "items")}
        numbers = sorted(int(key) for key in sets if key.isdecimal() and str(int(key)) == key)
        if len(numbers) < len(sets) or sets and not name:
            raise ValueError(f"data set {name}/{next(iter(sets))}")
        if numbers:
            blobs = {number: np.asarray(sets[str(number)][()], np.float32) for number in numbers}
            found[name] = [blobs.get(i) for i in range(min(numbers[-1] + 1, 2 * len(numbers) + 64))]
        for key, item in group.items():
            if hasattr(item, "items"):
                if key.isdecimal() and name and not len(item):
                    raise ValueError(f"{name}/{key} is no data set")
                gather(item, f"{name}/{key}" if name else key)

    with open_hdf5(path) as file:
        if "data" not in file:
            raise CaffeliteError(f"{path} is no caffemodel: it has no group data")
        try:
            gather(file["data"], "")
        except (AttributeError, KeyError, OSError, RecursionError, RuntimeError, TypeError, ValueError) as error:
            raise CaffeliteError(f"{path} is no caffemodel, or a damaged one ({error})") from None
    return found


@contextlib.contextmanager
def open_hdf5(path: str | Path) -> Iterator:
    """An h5py.File to read, its checksum verified where it has one."""
    import h5py

    data = read_bytes(path)
    sealed = check_seal(data, Path(path))
    try:
        file = h5py.File(io.BytesIO(data), "r")
        promised = _HDF5_PROMISE in file.attrs
    except (OSError, RuntimeError, ValueError) as error:
        raise CaffeliteError(f"cannot read {path} as HDF5: {error}") from None
    with file:
        if promised and not sealed:
            raise CaffeliteError(f"{path} is damaged: its end is missing")
        yield file


def encode_hdf5(fill: Callable[[object], None]) -> bytes:
    """The bytes of an HDF5 file that ``fill`` was given to fill, and their checksum."""
    import h5py

    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        file.attrs[_HDF5_PROMISE] = "stands behind the end"
        fill(file)
        file.flush()
        body = file.id.get_file_image()
    return body + _HDF5_SEAL + hashlib.blake2b(body, digest_size=_DIGEST).digest()


def encode_hdf5_net(blobs: Iterable[tuple[str, list[Blob]]]) -> bytes:
    """A caffemodel in HDF5: layer names with their blobs; gradients in a group "diff" like "data"."""

    def fill(file) -> None:
        file.create_group("data")
        for name, each in blobs:
            try:
                for kind, which in (("data", 0), ("diff", 1)):
                    if which and not any(isinstance(blob, tuple) for blob in each):
                        continue
                    group = file.require_group(f"{kind}/{name}")
                    for i, blob in enumerate(each):
                        part = blob[which] if isinstance(blob, tuple) else blob
                        group.create_dataset(str(i), data=np.ascontiguousarray(part, "<f4"))
            except (ValueError, TypeError) as error:
                what = f'layer "{name}" cannot be written to HDF5: {error}'
                raise CaffeliteError(what, remedy="rename the layer, or use snapshot_format: BINARYPROTO") from None

    return encode_hdf5(fill)


def read_bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CaffeliteError(f"cannot read {path}: {error.strerror.lower()}") from None
