"""Blobs of nets and layers as pycaffe has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..devices.protocol import Device
from ..devices.types import Array
from ..errors import CaffeliteError
from ..layers.base.feeding import feeding
from ..layers.base.layer import ParameterView
from ..layers.python import Python
from ..net.net import Net
from ..net.nodes import Value


class Copies:
    """Host copies of a device's arrays; changes to a copy go back to the device. On the CPU there are none."""

    def __init__(self, dev: Device):
        self.dev = dev
        self._copies: dict[object, tuple[Array, np.ndarray, np.ndarray]] = {}  # the device's, the copy, its old values

    def host(self, key: object, array: Array) -> np.ndarray:
        if self.dev.traits.host_memory:
            return array
        if key not in self._copies:
            host = self.dev.download(array)
            self._copies[key] = (array, host, host.copy())
        return self._copies[key][1]

    def send(self) -> None:
        """Uploads the copies that were changed, and drops all of them."""
        for array, host, before in self._copies.values():
            if np.array_equal(host, before, equal_nan=True):
                continue
            if array.flags.c_contiguous:
                self.dev.upload(array, host)
            else:  # channels_last
                staged = self.dev.empty(array.shape)
                self.dev.upload(staged, host)
                self.dev.assign(staged, array)
        self._copies.clear()


class BlobVec(list["Blob"]):
    """The parameters of a layer."""


def _axis_length(axis: int) -> property:
    def length(blob: Blob) -> int:
        return blob.shape[axis] if axis < len(blob.shape) else 1

    return property(length, doc=f"Length of axis {axis}, 1 where there is none.")


class Blob:
    """``data`` and ``diff``: float32 arrays in the blob's shape; ``shape``, ``count``; ``num``, ``channels``,
    ``height``, ``width``. A ``diff`` that backward does not compute is an array of zeros.

    On the CPU they are the net's own memory. On a GPU an array is a copy, valid until the next pass; changes to
    it are copied to the GPU before that pass.
    """

    _zeros: np.ndarray | None = None
    handed_out: Callable[[np.ndarray], np.ndarray] | None = None  # called with each array of ``data``

    def __init__(self, values: Callable, gradient: Callable, copies: Copies):
        self._values, self._gradient, self._copies = values, gradient, copies

    @property
    def data(self) -> np.ndarray:
        array = self._copies.host((self, "data"), self._values())
        return self.handed_out(array) if self.handed_out else array

    @property
    def diff(self) -> np.ndarray:
        gradient = self._gradient()
        if gradient is not None:
            return self._copies.host((self, "diff"), gradient)
        if self._zeros is None or self._zeros.shape != self.shape:
            self._zeros = np.zeros(self.shape, np.float32)
        return self._zeros

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._values().shape)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    num, channels, height, width = (_axis_length(i) for i in range(4))

    def __repr__(self) -> str:
        return f"Blob{self.shape}"

    def reshape(self, *shape: int | Sequence[int]) -> None:
        """Gives the blob another shape, its axes one by one. Errors: a blob with a shape that follows from others."""
        raise CaffeliteError(f"{self} cannot be reshaped", remedy="reshape an input of the net")


def dimensions(shape: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """The shape of ``reshape``'s arguments. Errors: dimensions below 1."""
    axes = tuple(int(d) for d in np.ravel(np.array(shape)))
    if min(axes, default=1) < 1:
        raise CaffeliteError("a blob cannot have this shape", expected="dimensions of 1 or more", found=list(axes))
    return axes


def parameter_blob(view: ParameterView, copies: Copies) -> Blob:
    """The blob of a parameter of a layer."""
    return Blob(lambda: view.data, lambda: view.diff, copies)


class NetBlob(Blob):
    """A blob of a net by name.

    Layers that work in place make several versions of it, each in memory of its own. The blob shows the version that
    Caffe, which has one memory, would have after the last pass, and passes over a part of the net start from it.
    makers: the layer that makes each version, by its index.
    """

    before_reshape: Callable[[], None] | None = None

    def __init__(self, name: str, net: Net, versions: Sequence[Value], makers: Sequence[int], copies: Copies):
        super().__init__(lambda: self._data_of(self._data_at), lambda: self._diff_of(self._diff_at), copies)
        self.name, self._net, self._versions, self._makers = name, net, versions, makers
        self._data_at = self._diff_at = len(versions) - 1
        # The content of a fed blob stays when its layer runs.
        source = versions[0].node.layer
        self._filled = feeding(source).filled_once or isinstance(source, Python) and source.keeps_tops

    def _data_of(self, version: int) -> Array:
        value = self._versions[version]
        return self._net.shown(self._net.data[value], value)

    def _diff_of(self, version: int) -> Array | None:
        value = self._versions[version]
        if value in self._net.starts:
            return self._net.starts[value]
        return self._net.shown(self._net.diff.get(value), value)

    def reshape(self, *shape: int | Sequence[int]) -> None:
        """Gives an Input or DummyData blob another shape, its axes one by one. The blobs that depend on it follow with
        the next forward pass or ``Net.reshape``. Errors: a blob of another layer; dimensions below 1."""
        wanted = dimensions(shape)
        if wanted == self._net.data[self._versions[0]].shape:
            return
        if self.before_reshape:
            self.before_reshape()
        self._copies.send()
        self._net.set_shapes({self.name: wanted})
        self._data_at = 0

    # passes over the layers ``first`` to ``last``

    def before_forward(self, first: int) -> None:
        """Gives the version that the layers from ``first`` on read what the blob shows."""
        read = max((i for i, maker in enumerate(self._makers) if maker < first), default=0 if self._filled else None)
        if read is not None and read != self._data_at:
            self._net.dev.assign(self._data_of(self._data_at), self._data_of(read))
            self._data_at = read

    def after_forward(self, last: int) -> None:
        """Shows the content of the last version that was made in the memory of the last one, so that an array which a
        program keeps stays the blob's."""
        if self._makers[-1] <= last:
            self._data_at = len(self._versions) - 1
            return
        made = max((i for i, maker in enumerate(self._makers) if maker <= last), default=self._data_at)
        shown, content = self._data_of(len(self._versions) - 1), self._data_of(made)
        self._data_at = made
        if shown.shape == content.shape:
            self._data_at = len(self._versions) - 1
            if made != self._data_at:
                self._net.dev.assign(content, shown)

    def before_backward(self, last: int) -> None:
        """Gives the version that layer ``last`` makes, or the last one before it, the gradient that the blob shows."""
        read = max((i for i, maker in enumerate(self._makers) if maker <= last), default=self._diff_at)
        shown, wanted = self._diff_of(self._diff_at), self._diff_of(read)
        if read != self._diff_at and shown is not None and wanted is not None:
            self._net.dev.assign(shown, wanted)
        self._diff_at = read

    def after_backward(self, first: int, last: int) -> None:
        """Shows the gradient that was computed last, in the same memory as before."""
        ran = (i for i in range(self._diff_at) if first <= self._makers[i + 1] <= last)
        computed = next((i for i in ran if self._diff_of(i) is not None), self._diff_at)
        shown, content = self._diff_of(len(self._versions) - 1), self._diff_of(computed)
        self._diff_at = computed
        if shown is not None and content is not None and shown.shape == content.shape:
            self._diff_at = len(self._versions) - 1
            if computed != self._diff_at:
                self._net.dev.assign(content, shown)

    def show_final_values(self) -> None:
        """Shows the versions that complete passes leave."""
        self._data_at = self._diff_at = len(self._versions) - 1
        self.after_backward(0, self._makers[-1])
