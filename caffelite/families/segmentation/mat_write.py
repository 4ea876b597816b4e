"""MatWrite: blobs as files of MATLAB."""

import struct
from pathlib import Path

import numpy as np

from ... import inputs, roots
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.base.state import Writing
from ...prototxt import resolve

# The types of a MAT-file's elements, and the class and the type of arrays by their dtype
INT8, INT32, UINT32, MATRIX = 1, 5, 6, 14
NUMBERS = {"float32": (7, 7), "float64": (6, 9)}


def _element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def mat_file(array: np.ndarray) -> bytes:
    """A MAT-file of version 5 with the variable ``data``, whose axes are those of the array in the other order."""
    array = np.ascontiguousarray(array)
    number, kind = NUMBERS[array.dtype.name]
    dims = struct.pack(f"<{array.ndim}i", *array.shape[::-1])
    parts = [_element(UINT32, struct.pack("<II", number, 0)), _element(INT32, dims), _element(INT8, b"data")]
    parts.append(_element(kind, array.astype(array.dtype.newbyteorder("<")).tobytes()))
    header = b"MATLAB 5.0 MAT-file, of caffelite".ljust(116) + bytes(8) + struct.pack("<HH", 0x0100, 0x4D49)
    return header + _element(MATRIX, b"".join(parts))


@register
class MatWrite(Writing, Layer):
    """Writes each bottom, in every period-th pass, to a MAT-file: prefix, then the name that source lists for the pass,
    less its last ``strip`` characters, or "iter_" and the number of the pass, then "_blob_", the bottom's number and
    ".mat".

    x (N, C, H, W), or fewer axes, is the variable ``data``, W×H×C×N. Defaults: strip 0, period 1. Errors: no prefix, a
    folder that does not exist, fewer names than passes, a name with "..". As in Deeplab's Caffe,
    src/caffe/layers/mat_write_layer.cpp.
    """

    field = "mat_write_param"
    bottoms, tops = (1, None), (0, 0)
    files = ("source",)
    differentiable = couples_samples = False
    requires_host = writes = True
    divisible_axes = False

    def setup(self) -> None:
        if not self.p.prefix:
            raise self.error("has no prefix", "prefix", remedy='set mat_write_param { prefix: "features/" }')
        require.positive(self, "period")
        require.value(self, "strip", self.p.strip >= 0, "0 or more")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return []

    def build(self, dev: Device) -> None:
        self._pass = 0
        self._names: list[str] = []  # read by the first pass that needs them

    def _name(self) -> str:
        if not self.p.source:
            return f"iter_{self._pass}"
        if not self._names:
            path = resolve(self.p.source, self.locate.at(self.field))
            try:
                lines = inputs.read(path, inputs.TEXT).decode("utf-8", "replace").splitlines()
            except OSError as error:
                what = f'cannot read source "{self.p.source}": {(error.strerror or str(error)).lower()}'
                raise self.error(what, "source") from None
            self._names = [line.split()[0] for line in lines if line.split()]
        if self._pass >= len(self._names):
            found = f"{len(self._names)} names"
            raise self.error("source has too few names", "source", expected="a name for each pass", found=found)
        name = self._names[self._pass]
        if ".." in Path(name).parts:
            raise self.error(f'source names "{name}", a file outside the folder of prefix', "source")
        return name[: len(name) - self.p.strip]

    def forward(self, x: list, y: list) -> None:
        if self._pass % self.p.period == 0:
            for i, bottom in enumerate(x):
                array = self.dev.download(bottom)
                array = array if array.dtype.name in NUMBERS else array.astype(np.float32)
                array = array.reshape(*array.shape, *[1] * (4 - array.ndim)) if array.ndim < 4 else array
                path = Path(f"{self.p.prefix}{self._name()}_blob_{i}.mat")
                try:
                    roots.write(path, mat_file(array))
                except OSError as error:
                    what = f"cannot write {path}: {(error.strerror or str(error)).lower()}"
                    raise self.error(what, "prefix", remedy="make the folder, or free disk space") from None
        self._pass += 1
