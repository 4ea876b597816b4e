"""Files of tensors by name: .pth of PyTorch, .safetensors and the weights of ONNX nets are read, the second written.

Formats: docs.pytorch.org/docs/stable/notes/serialization.html (a zip of one pickle and one file for each storage);
github.com/huggingface/safetensors (a JSON header, then the values); onnx.ai (initializers of a graph).
"""

import io
import json
import math
import pickle
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import file_types, inputs
from ..data.plain_pickle import Global, PlainUnpickler, ordered_dict
from ..errors import CaffeliteError, reporting
from . import onnx_weights

MOST_NAMED = 16 << 20  # bytes of names and shapes: a .pth file's pickle, a .safetensors file's header
BFLOAT16 = "bfloat16"
DTYPES = ("<f8", "<f4", "<f2", BFLOAT16, "<i8", "<i4", "<i2", "i1", "u1", "u1")
SAFETENSORS = dict(zip("F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL".split(), DTYPES, strict=True))
_STORED = "Double Float Half BFloat16 Long Int Short Char Byte Bool".split()
STORAGES = {f"{name}Storage": dtype for name, dtype in zip(_STORED, DTYPES, strict=True)}

PROGRAM = "it is TorchScript, a program"

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
    file_types.refuse(data, path, but=(file_types.ZIP, file_types.PICKLE))
    try:
        if data[:4] == b"PK\x03\x04":
            return _torch(data)
        if data[8:9] == b"{":
            return _safetensors(data)
        if data[:1] == b"\x80":
            raise _Refused("it is of PyTorch before 1.6, or a bare pickle; load and save it again with a newer PyTorch")
        return onnx_weights.read(data)
    except (_Refused, onnx_weights.Unreadable, *DAMAGE) as error:
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
    if size > MOST_NAMED:
        raise _Refused(f"a header of {size} bytes; expected at most {MOST_NAMED}")
    header, body = json.loads(data[8 : 8 + size]), memoryview(data)[8 + size :]
    header.pop("__metadata__", None)
    _check_offsets({name: entry["data_offsets"] for name, entry in header.items()}, len(body))
    tensors = SortedTensors()
    for name in sorted(header, key=_by_numbers):
        entry = header[name]
        start, end = entry["data_offsets"]
        tensors[name] = _array(body[start:end], SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def _check_offsets(offsets: Mapping[str, Sequence[int]], size: int) -> None:
    """Each byte belongs to one tensor, as the format demands: else a small file could hold many large ones."""
    position, before = 0, ""
    for name, (start, end) in sorted(offsets.items(), key=lambda item: tuple(item[1])):
        if not 0 <= start <= end <= size:
            raise _Refused(f"{name} lies outside the file")
        if start < position:
            raise _Refused(f"{name} overlaps {before}")
        position, before = end, name


class _Storage:
    """The values of one file in the zip, of which tensors are views."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray):
        self.values = values


def _tensor(storage: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> np.ndarray:
    """torch._utils._rebuild_tensor_v2"""
    plain = type(shape) is tuple and type(strides) is tuple and len(shape) == len(strides)
    if not isinstance(storage, _Storage) or not plain:
        raise _Refused("a tensor without a storage")
    if any(type(number) is not int or not 0 <= number < 1 << 62 for number in (offset, *shape, *strides)):
        raise _Refused("a tensor whose shape is none")
    values, count = storage.values, math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if count > len(values) or (count and last >= len(values)):
        raise _Refused("a tensor that is larger than its storage")
    bytes_apart = [stride * values.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(values[offset:], shape, bytes_apart, writeable=False)
    return view  # not a copy: a file may name a storage often


def _parameter(tensor: Any, *_: Any) -> Any:
    """torch._utils._rebuild_parameter"""
    return tensor


class _Unpickler(PlainUnpickler):
    """Knows tensors, and refuses everything else that a pickle can name."""

    ALLOWED = {
        ("collections", "OrderedDict"): Global(ordered_dict),
        ("torch._utils", "_rebuild_tensor_v2"): Global(_tensor),
        ("torch._utils", "_rebuild_parameter"): Global(_parameter),
        **{("torch", name): dtype for name, dtype in STORAGES.items()},
    }

    def __init__(self, data: bytes, archive: zipfile.ZipFile, folder: str):
        super().__init__(data, self.ALLOWED)
        self._archive, self._folder = archive, folder
        self._storages: dict[tuple[str, str], _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise _Refused(f"it holds {module}.{name}, and only tensors are read; save net.state_dict()")
        return self.ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, _ = pid
        if kind != "storage" or dtype not in STORAGES.values() or not isinstance(key, str):
            raise _Refused("a storage of an unknown type")
        if (key, dtype) not in self._storages:
            values = _array(_stored(self._archive, f"{self._folder}/data/{key}"), dtype)
            self._storages[key, dtype] = _Storage(values)
        return self._storages[key, dtype]


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise _Refused(f"{name} is compressed, which PyTorch never does")
    return archive.read(name)


def _is_program(archive: zipfile.ZipFile) -> bool:
    return any(name.endswith("/constants.pkl") or "/code/" in name for name in archive.namelist())


def is_torchscript(data: bytes) -> bool:
    """Whether the content of a file is a program that torch.jit saved."""
    try:
        return data[:2] == b"PK" and _is_program(zipfile.ZipFile(io.BytesIO(data)))
    except zipfile.BadZipFile:
        return False


def _torch(data: bytes) -> Tensors:
    archive = zipfile.ZipFile(io.BytesIO(data))
    if _is_program(archive):  # whose code is compressed
        raise _Refused(f"{PROGRAM}; save net.state_dict(), or export the net with torch.onnx.export")
    if sum(entry.file_size for entry in archive.infolist()) > len(data):  # stored, so none of them overlaps another
        raise _Refused("files that are compressed or overlap, which PyTorch never writes")
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise _Refused("a zip file without one data.pkl")
    folder = pickles[0].removesuffix("/data.pkl")
    if archive.getinfo(pickles[0]).file_size > MOST_NAMED:
        raise _Refused("more than names and shapes in data.pkl")
    if f"{folder}/byteorder" in archive.namelist() and _stored(archive, f"{folder}/byteorder") != b"little":
        raise _Refused("values in big-endian order")
    content = _Unpickler(_stored(archive, pickles[0]), archive, folder).load()
    nested = [content, *(content.values() if isinstance(content, dict) else ())]
    tables = [_tensors(each) for each in nested if isinstance(each, dict)]
    return max(tables, key=len, default={})


def _tensors(table: dict) -> Tensors:
    return {name: value for name, value in table.items() if isinstance(name, str) and isinstance(value, np.ndarray)}


def encode_safetensors(tensors: Tensors) -> bytes:
    """The bytes of a .safetensors file of float32 and int64 tensors."""
    header, position, kinds = {}, 0, {"f": "F32", "i": "I64"}
    for name, array in tensors.items():
        end = position + array.nbytes
        header[name] = {
            "dtype": kinds[array.dtype.kind],
            "shape": list(array.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(a).tobytes() for a in tensors.values())
