"""Weights that other programs wrote: PyTorch's .pth, .safetensors and ONNX files, read without running their code.

Formats: docs.pytorch.org/docs/stable/notes/serialization.html (a zip of one pickle and one file for each storage);
github.com/huggingface/safetensors (a JSON header, then the values); onnx.ai (initializers of a graph).
"""

from __future__ import annotations

import collections
import io
import json
import math
import pickle
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, reporting
from .writer import import_onnx

MOST_PICKLED = 64 << 20  # bytes of a .pth file's pickle, which holds names and shapes
BFLOAT16 = "bfloat16"
DTYPES = ("<f8", "<f4", "<f2", BFLOAT16, "<i8", "<i4", "<i2", "i1", "u1", "u1")
SAFETENSORS = dict(zip("F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL".split(), DTYPES, strict=True))
_STORED = "Double Float Half BFloat16 Long Int Short Char Byte Bool".split()
STORAGES = {f"{name}Storage": dtype for name, dtype in zip(_STORED, DTYPES, strict=True)}

Tensors = dict[str, np.ndarray]


class SortedTensors(Tensors):
    """Tensors whose order in the file is that of their names, not that of the modules."""


def pieces(name: str) -> list[str]:
    """The numbers of a name, and what lies between them."""
    return re.findall(r"\d+|\D+", name)


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Sorts names so that numbers count: features.2 comes before features.10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces(name)]


class _Refused(Exception):
    """What a file holds that is not read; the text says what."""


# What the readers raise for a damaged file
DAMAGE = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, NotImplementedError),
    *(pickle.UnpicklingError, struct.error, zipfile.BadZipFile),
)


def read_tensors(path: Path) -> Tensors:
    """The tensors of a file by name, in its order; floating-point values as float32. The content decides on the format.
    Of .safetensors, whose files are sorted by name, the numbers in the names decide on the order.

    Errors: CaffeliteError where the file is of no known format, is damaged, or holds more than tensors.
    """
    with reporting(f"read {path}"):
        data = inputs.read(path, inputs.MESSAGE)
    try:
        if data[:4] == b"PK\x03\x04":
            return _torch(data)
        if data[8:9] == b"{":
            return _safetensors(data)
        if data[:1] == b"\x80":
            raise _Refused("it is of PyTorch before 1.6, or a bare pickle; load and save it again with a newer PyTorch")
        return _onnx(data)
    except (_Refused, *DAMAGE) as error:
        expected, found = "a state_dict in a .pth file, a .safetensors file, or an ONNX net", str(error)
        what = f"cannot read weights from {path}"
        raise CaffeliteError(what, expected=expected, found=found or "damaged content") from None


def _array(data: bytes | memoryview, dtype: str) -> np.ndarray:
    if dtype == BFLOAT16:
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    values = np.frombuffer(data, dtype)
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def _safetensors(data: bytes) -> Tensors:
    (size,) = struct.unpack_from("<Q", data)
    if size > len(data) - 8:
        raise _Refused("a header that is longer than the file")
    header, body = json.loads(data[8 : 8 + size]), memoryview(data)[8 + size :]
    tensors = SortedTensors()
    for name in sorted((name for name in header if name != "__metadata__"), key=_by_numbers):
        entry = header[name]
        start, end = entry["data_offsets"]
        if not 0 <= start <= end <= len(body):
            raise _Refused(f"{name} lies outside the file")
        tensors[name] = _array(body[start:end], SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class _Storage:
    """The values of one file in the zip, of which tensors are views."""

    def __init__(self, values: np.ndarray):
        self.values = values


def _tensor(storage: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> np.ndarray:
    """torch._utils._rebuild_tensor_v2"""
    if not isinstance(storage, _Storage) or len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise _Refused("a tensor without a storage")
    values, count = storage.values, math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if count > len(values) or (count and last >= len(values)):
        raise _Refused("a tensor that is larger than its storage")
    bytes_apart = [stride * values.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(values[offset:], shape, bytes_apart, writeable=False)
    return np.ascontiguousarray(view).reshape(shape)


def _parameter(tensor: np.ndarray, *_: Any) -> np.ndarray:
    """torch._utils._rebuild_parameter"""
    return tensor


class _Unpickler(pickle.Unpickler):
    """Knows tensors, and refuses everything else that a pickle can name."""

    ALLOWED = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch._utils", "_rebuild_parameter"): _parameter,
        **{("torch", name): dtype for name, dtype in STORAGES.items()},
    }

    def __init__(self, data: bytes, archive: zipfile.ZipFile, folder: str):
        super().__init__(io.BytesIO(data))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise _Refused(f"it holds {module}.{name}, and only tensors are read; save net.state_dict()")
        return self.ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, _ = pid
        if kind != "storage" or dtype not in STORAGES.values():
            raise _Refused("a storage of an unknown type")
        return _Storage(_array(_stored(self._archive, f"{self._folder}/data/{key}"), dtype))


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise _Refused(f"{name} is compressed, which PyTorch never does")
    return archive.read(name)


def _torch(data: bytes) -> Tensors:
    archive = zipfile.ZipFile(io.BytesIO(data))
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise _Refused("a zip file without one data.pkl")
    folder = pickles[0].removesuffix("/data.pkl")
    if archive.getinfo(pickles[0]).file_size > MOST_PICKLED:
        raise _Refused("more than names and shapes in data.pkl")
    if f"{folder}/byteorder" in archive.namelist() and _stored(archive, f"{folder}/byteorder") != b"little":
        raise _Refused("values in big-endian order")
    content = _Unpickler(_stored(archive, pickles[0]), archive, folder).load()
    nested = [content, *(content.values() if isinstance(content, dict) else ())]
    tables = [_tensors(each) for each in nested if isinstance(each, dict)]
    return max(tables, key=len, default={})


def _tensors(table: dict) -> Tensors:
    return {name: value for name, value in table.items() if isinstance(name, str) and isinstance(value, np.ndarray)}


def _onnx(data: bytes) -> Tensors:
    from google.protobuf.message import DecodeError

    onnx = import_onnx("reading ONNX files")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise _Refused("none of these") from None
    if not model.graph.initializer:
        raise _Refused("no tensors")
    tensors = {}
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise _Refused("values in a second file; save the ONNX net as one file")
        values = onnx.numpy_helper.to_array(tensor)
        tensors[tensor.name] = values.astype(np.float32) if values.dtype.kind == "f" else values
    return tensors
