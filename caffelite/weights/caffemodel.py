"""Parameter blobs in Caffe's files: the wire format of NetParameter and BlobProto, with arrays instead of lists of
numbers.

Protobuf's Python objects hold a Python float for each weight; AlexNet has 61 million. So blobs are read and written
as bytes, and everything else goes through protobuf. A checksum (ours, which Caffe skips as an unknown field) comes
last.
"""

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb, file_types, inputs
from ..addresses import hide_secrets
from ..errors import CaffeliteError, quoted
from . import hdf5, layout
from .named import of_same_run

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint_bytes(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag_bytes(number: int, wire: int) -> bytes:
    return varint_bytes(number << 3 | wire)


def field_bytes(number: int, body: bytes) -> bytes:
    """A length-delimited field of a message."""
    return tag_bytes(number, LENGTH) + varint_bytes(len(body)) + body


class Damaged(ValueError):
    """Bytes that are no message of the kind expected."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Any, memoryview]]:
    """(number, wire type, value, the field's own bytes) of each field of a message. The value is an int where the wire
    type is VARINT, else a memoryview."""
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


_CHECKSUM = pb.NetParameter.CHECKSUM_FIELD_NUMBER
_DIGEST = 16
_RUN = pb.NetParameter.RUN_FIELD_NUMBER  # the same in SolverState


# A blob's values, or its values and gradients.
Blob = np.ndarray | tuple[np.ndarray, np.ndarray]

Chunk = bytes | memoryview


class StreamedBlob(NamedTuple):
    """A blob that is encoded piece by piece: its shape, its values as arrays that follow one another, and perhaps its
    gradients."""

    shape: tuple[int, ...]
    data: Iterable[np.ndarray]
    diff: Iterable[np.ndarray] | None = None


def encode_blob(blob: Blob) -> bytes:
    """A BlobProto: shape, and data, and perhaps diff, as float."""
    return b"".join(blob_chunks(_streamed(blob)))


def _streamed(blob: Blob) -> StreamedBlob:
    data, *diff = blob if isinstance(blob, tuple) else (blob,)
    return StreamedBlob(data.shape, [data], diff or None)


def _blob_fields(blob: StreamedBlob, form: layout.Layout) -> Iterator[tuple[bytes, Iterable[np.ndarray]]]:
    """The bytes before each field's values, and the values."""
    size = varint_bytes(4 * math.prod(blob.shape))
    yield form.shape(blob.shape) + tag_bytes(form.data, LENGTH) + size, blob.data
    if blob.diff is not None:
        yield tag_bytes(form.diff, LENGTH) + size, blob.diff


def blob_chunks(blob: StreamedBlob, form: layout.Layout = layout.CAFFE) -> Iterator[Chunk]:
    """A BlobProto in chunks."""
    for head, pieces in _blob_fields(blob, form):
        yield head
        for piece in pieces:
            yield np.ascontiguousarray(piece, "<f4").reshape(-1).view(np.uint8).data


def _blob_size(blob: StreamedBlob, form: layout.Layout) -> int:
    """The bytes of a BlobProto."""
    return sum(len(head) + 4 * math.prod(blob.shape) for head, _ in _blob_fields(blob, form))


def blob_field_chunks(number: int, blob: StreamedBlob) -> Iterator[Chunk]:
    """A field of a message that is a BlobProto, in chunks."""
    form = layout.current()
    yield tag_bytes(number, LENGTH) + varint_bytes(_blob_size(blob, form))
    yield from blob_chunks(blob, form)


def net_chunks(
    net: pb.NetParameter, layers: Iterable[tuple[pb.LayerParameter, Sequence[StreamedBlob]]]
) -> Iterator[Chunk]:
    """A NetParameter as Caffe writes a caffemodel, in chunks: the net's name, and each layer with its blobs."""
    form = layout.current()
    yield form.net_head(net)
    for spec, blobs in layers:
        number, body, blob_number = form.layer(_bare(spec))
        sizes = (_blob_size(blob, form) for blob in blobs)
        size = len(body) + sum(len(tag_bytes(blob_number, LENGTH) + varint_bytes(each)) + each for each in sizes)
        yield tag_bytes(number, LENGTH) + varint_bytes(size) + body
        for blob in blobs:
            yield from blob_field_chunks(blob_number, blob)


def _bare(spec: pb.LayerParameter) -> pb.LayerParameter:
    """A layer without blobs and without the secrets of addresses."""
    bare = pb.LayerParameter()
    bare.CopyFrom(spec)
    bare.ClearField("blobs")
    hide_secrets(bare)
    return bare


def encode_net(net: pb.NetParameter, blobs: Iterable[tuple[pb.LayerParameter, Sequence[Blob]]]) -> bytes:
    """The same as bytes."""
    return b"".join(net_chunks(net, ((spec, [_streamed(blob) for blob in arrays]) for spec, arrays in blobs)))


def sealed(body: bytes, run: pb.RunOrigin | None = None) -> bytes:
    """The body of a message with its checksum behind it, and before it the promise of one, so that a lost end shows,
    and the run."""
    return b"".join(sealed_chunks([body], run))


def sealed_chunks(body: Iterable[Chunk], run: pb.RunOrigin | None = None) -> Iterator[Chunk]:
    """The same in chunks."""
    hashed = Hashed(itertools.chain([_PROMISE, field_bytes(_RUN, run.SerializeToString()) if run else b""], body))
    yield from hashed
    yield field_bytes(_CHECKSUM, hashed.digest())


class Hashed:
    """Chunks that are hashed as they pass; ``digest``: of those that have passed."""

    def __init__(self, chunks: Iterable[Chunk]):
        self._chunks, self._hash = chunks, hashlib.blake2b(digest_size=_DIGEST)

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            yield chunk

    def digest(self) -> bytes:
        return self._hash.digest()


def digest(data: bytes | memoryview) -> bytes:
    """BLAKE2b of 16 bytes."""
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def run_of(path: Path) -> pb.RunOrigin | None:
    """The run that wrote a caffemodel or a state, read from its head or its end alone; None where it does not say.
    Errors: OSError."""
    with inputs.open_file(path) as file:
        head = file.read(256)
        file.seek(max(0, file.seek(0, 2) - hdf5.TAIL))
        tail = file.read(hdf5.TAIL)
    try:
        if head.startswith(_PROMISE):
            number, wire, value, _ = next(fields(memoryview(head)[len(_PROMISE) :]))
            body = bytes(value) if (number, wire) == (_RUN, LENGTH) else b""
        else:
            body = hdf5.note(tail)
        run = pb.RunOrigin.FromString(body)
    except (ValueError, DecodeError, StopIteration):
        return None
    return run if run.id and isinstance(run.id, str) else None


def check_seal(data: bytes, path: Path) -> bool:
    """Compares a file's checksum, where it has one (Caffe's own files have none); whether it has."""
    if hdf5.starts(data):
        return hdf5.check_seal(data, path)
    mark = tag_bytes(_CHECKSUM, LENGTH) + varint_bytes(_DIGEST)
    body, seal = memoryview(data)[: -len(mark) - _DIGEST], data[-len(mark) - _DIGEST :]
    if seal[: len(mark)] != mark:
        if data.startswith(_PROMISE):
            raise CaffeliteError(f"{path} is damaged: its end is missing")
        return False
    if not data.startswith(_PROMISE) and _PROMISE in bytes(body[-hdf5.TAIL :]):
        return False  # another program wrote the file anew, with the fields that it does not know at the end
    if digest(body) != seal[len(mark) :]:
        raise CaffeliteError(f"{path} is damaged: its checksum does not match")
    return True


_PROMISE = field_bytes(_CHECKSUM, b"")


# Fields of NVCaffe's BlobProto; DOUBLE, FLOAT and FLOAT16 of its enum Type
_RAW_DATA_TYPE, _RAW_DATA, _RAW_FIELDS = 10, 12, range(10, 14)
_RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}


def decode_blob(data: memoryview, copy: bool = True) -> np.ndarray:
    """The values of a BlobProto as float32 in its shape; the old num, channels, height, width give four axes. Values
    as bytes (NVCaffe's raw_data: float32, float16 or float64) are read where there are no others. copy: False: the
    array may be a view of ``data``, which can only be read. Errors: Damaged."""
    shape, legacy, parts, raw, raw_type = None, {}, [], None, None
    for number, wire, value, _ in fields(data):
        if number == 7 and wire == LENGTH:
            try:
                shape = tuple(pb.BlobShape.FromString(bytes(value)).dim)
            except DecodeError as error:
                raise Damaged(str(error)) from None
        elif number in (1, 2, 3, 4) and wire == VARINT:
            legacy[number] = value
        elif wire == LENGTH and number in (5, 8) or (number, wire) in ((5, FIXED32), (8, FIXED64)):
            parts.append(_values(value, "<f4" if number == 5 else "<f8"))
        elif (number, wire) == (_RAW_DATA, LENGTH):
            raw = value
        elif (number, wire) == (_RAW_DATA_TYPE, VARINT):
            raw_type = value
    if raw is not None and not parts:
        if raw_type not in _RAW_TYPES:
            raise Damaged(f"raw_data of type {raw_type}; expected 0 (double), 1 (float) or 2 (float16)")
        parts.append(_values(raw, _RAW_TYPES[raw_type]))
    flat = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.float32)])
    if shape is None:
        shape = tuple(legacy.get(i, 1) for i in (1, 2, 3, 4)) if legacy else (flat.size,)
    if min(shape, default=0) < 0 or math.prod(shape) != flat.size:
        raise Damaged(f"a blob of shape {list(shape)} with {flat.size} values")
    with np.errstate(over="ignore", invalid="ignore"):  # a double beyond float32 becomes infinite
        return flat.astype(np.float32, copy=copy).reshape(shape)


def _values(data: memoryview, dtype: str) -> np.ndarray:
    if len(data) % np.dtype(dtype).itemsize:
        raise Damaged(f"{len(data)} bytes of {np.dtype(dtype).name} values")
    return np.frombuffer(data, dtype)


def as_caffe_writes(blob: bytes) -> bytes:
    """A BlobProto's bytes, with float values instead of NVCaffe's bytes, which other Caffes skip. Errors: Damaged."""
    raw = any(number in _RAW_FIELDS for number, *_ in fields(memoryview(blob)))
    return encode_blob(decode_blob(memoryview(blob))) if raw else blob


def read_model(path: str | Path, copy: bool = True) -> dict[str, list[np.ndarray]]:
    """The parameter blobs of a caffemodel by layer name, old (V0, V1) files included. Layers without blobs are left
    out.

    HDF5 is recognized by content, not by name. copy: False: blobs may be views of the file's content, which can only be
    read; that takes half the memory.
    """
    return decode_model(read_bytes(path), path, copy)


def decode_model(data: bytes, path: str | Path, copy: bool = True) -> dict[str, list[np.ndarray]]:
    """The same of a file's bytes. copy: as for ``decode_blob``."""
    if not data:
        raise CaffeliteError(f"{path} is empty")
    if hdf5.starts(data):
        return _decode_hdf5_model(data, path)
    check_seal(data, Path(path))
    layers: dict[str, list[np.ndarray]] = {}
    try:
        for number, wire, layer, _ in fields(memoryview(layout.current().read(data, "NetParameter"))):
            if number not in (100, 2) or wire != LENGTH:
                continue
            name, blobs = _layer(layer, "modern" if number == 100 else "V1", copy)
            if blobs:
                layers[name] = blobs
    except ValueError as error:
        reason = file_types.described(data) or f"or a damaged one ({error})"
        raise no_hdf5(path) or _solverstate(path) or CaffeliteError(f"{path} is no caffemodel, {reason}") from None
    if not layers and (state := _solverstate(path)):
        raise state
    return layers


def _solverstate(path: str | Path) -> CaffeliteError | None:
    """The error for a solver state in place of its weights, by its name."""
    path = Path(path)
    if ".solverstate" not in path.name:
        return None
    model = path.with_name(path.name.replace(".solverstate", ".caffemodel"))
    remedy = f"its weights are in {quoted(model)}" if model.exists() else "name the caffemodel beside it"
    return CaffeliteError(f"{path} is a solverstate, no caffemodel", remedy=remedy)


def no_hdf5(path: str | Path) -> CaffeliteError | None:
    """The error for an unreadable file with an HDF5 file name."""
    return (
        CaffeliteError(f"cannot read {path} as HDF5: its signature is missing") if str(path).endswith(".h5") else None
    )


# form of a layer: numbers of its fields name and blobs, and of V1's field that holds a V0 layer
_FORMS = {"modern": (1, 7, 0), "V1": (4, 6, 1), "V0": (1, 50, 0)}


def _layer(data: memoryview, form: str, copy: bool) -> tuple[str, list[np.ndarray]]:
    """The name and the blobs of a layer."""
    name, blobs = "", []
    name_field, blob_field, inner = _FORMS[form]
    for number, wire, value, _ in fields(data):
        if wire == LENGTH and number == name_field:
            name = bytes(value).decode()
        elif wire == LENGTH and number == blob_field:
            blobs.append(decode_blob(value, copy))
        elif wire == LENGTH and number == inner:
            name, more = _layer(value, "V0", copy)
            blobs += more
    return name, blobs


def _decode_hdf5_model(data: bytes, path: str | Path) -> dict[str, list[Any]]:
    """Caffe's HDF5 form: a group "data", in it a group a layer, in it a data set a blob, named by its number.

    A slash in a layer's name makes groups within groups. A blob that belongs to another layer is left out by Caffe, and
    None here.
    """
    layers: dict[str, list[Any]] = {}  # arrays and None
    seen: set[int] = set()

    def gather(group, name: str) -> None:
        if (address := hdf5.address(group)) in seen:
            raise ValueError(f"{name} is in the file twice, or within itself")
        seen.add(address)
        items: dict[str, Any] = dict(hdf5.members(group))
        sets = {key: item for key, item in items.items() if not hasattr(item, "items")}
        indices = sorted(int(key) for key in sets if _is_number(key))
        if len(indices) < len(sets) or sets and not name:
            raise ValueError(f"data set {name}/{next(iter(sets))}")
        if indices:
            blobs = {number: hdf5.values(sets[str(number)], len(data)) for number in indices}
            layers[name] = [blobs.get(i) for i in range(min(indices[-1] + 1, 2 * len(indices) + 64))]
        for key, item in items.items():
            if hasattr(item, "items"):
                if key.isdecimal() and name and not len(item):
                    raise ValueError(f"{name}/{key} is no data set")
                gather(item, f"{name}/{key}" if name else key)

    with hdf5.opened(data, path) as file:
        try:
            if "data" not in file:
                raise _solverstate(path) or CaffeliteError(f"{path} is no caffemodel: it has no group data")
            gather(file["data"], "")
        except hdf5.MISTAKES as error:
            raise CaffeliteError(f"{path} is no caffemodel, or a damaged one ({error})") from None
    return layers


def _is_number(key: str) -> bool:
    """Whether a name is a blob's: 0, 1 and so on."""
    return len(key) < 10 and key.isdecimal() and str(int(key)) == key


def encode_hdf5_net(blobs: Iterable[tuple[str, Sequence[Blob]]], run: pb.RunOrigin | None = None) -> bytes:
    """A caffemodel in HDF5: layer names with their blobs; gradients in a group "diff" like "data"; the run that writes
    it."""

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

    return hdf5.encode(fill, run.SerializeToString() if run else b"")


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a regular file of Caffe's. Errors: CaffeliteError; also where it is a web page, an archive or the
    like."""
    try:
        data = inputs.read(path)
    except OSError as error:
        why = inputs.reason(error)
        other = of_same_run(Path(path)) if isinstance(error, FileNotFoundError) else None
        remedy = f"{other} exists, of the same run" if other else ""
        raise CaffeliteError(f"cannot read {path}: {why[0].lower()}{why[1:]}", remedy=remedy) from None
    file_types.refuse(data, path, but=(file_types.HDF5,))
    return data
