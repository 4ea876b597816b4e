"""Blobs of nets and layers as pycaffe has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import api
from ..devices.interfaces import Array
from ..errors import CaffeliteError
from ..layers.feeding import feeding
from ..layers.layer import ParameterView
from ..net.net import Net
from ..net.nodes import Value


class BlobVec(list["Blob"]):
    """The parameters of a layer."""


class Blob(api.Blob):
    """``data`` and ``diff``: float32 arrays in the blob's shape; ``shape``, ``count``; ``num``, ``channels``,
    ``height``, ``width``.

    As the blobs of ``caffelite.Net``, but a ``diff`` that backward does not compute is an array of zeros.
    """

    _zeros: np.ndarray | None = None

    @property
    def diff(self) -> np.ndarray:
        gradient = super().diff
        if gradient is not None:
            return gradient
        if self._zeros is None or self._zeros.shape != self.shape:
            self._zeros = np.zeros(self.shape, np.float32)
        return self._zeros

    def reshape(self, *shape: int | Sequence[int]) -> None:
        """Gives the blob another shape, its axes one by one. Errors: a blob with a shape that follows from others."""
        raise CaffeliteError(f"{self} cannot be reshaped", remedy="reshape an input of the net")


def dimensions(shape: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """The shape of ``reshape``'s arguments. Errors: dimensions below 1."""
    axes = tuple(int(d) for d in np.ravel(np.array(shape)))
    if min(axes, default=1) < 1:
        raise CaffeliteError("a blob cannot have this shape", expected="dimensions of 1 or more", found=list(axes))
    return axes


def parameter_blob(view: ParameterView, copies: api.Copies) -> Blob:
    """The blob of a parameter of a layer."""
    return Blob(lambda: view.data, lambda: view.diff, copies)


class NetBlob(Blob):
    """A blob of a net by name.

    Layers that work in place make several versions of it, each in memory of its own. The blob shows the version that
    Caffe, which has one memory, would have after the last pass, and passes over a part of the net start from it.
    makers: the layer that makes each version, by its index.
    """

    def __init__(self, name: str, net: Net, versions: Sequence[Value], makers: Sequence[int], copies: api.Copies):
        super().__init__(lambda: self._data_of(self._data_at), lambda: self._diff_of(self._diff_at), copies)
        self.name, self._net, self._versions, self._makers = name, net, versions, makers
        self._data_at = self._diff_at = len(versions) - 1
        # The content of a fed blob stays when its layer runs.
        self._filled = feeding(versions[0].node.layer).filled_once

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
        self._data_at = max((i for i, maker in enumerate(self._makers) if maker <= last), default=self._data_at)

    def before_backward(self, last: int) -> None:
        """Gives the version that layer ``last`` makes, or the last one before it, the gradient that the blob shows."""
        read = max((i for i, maker in enumerate(self._makers) if maker <= last), default=self._diff_at)
        shown, wanted = self._diff_of(self._diff_at), self._diff_of(read)
        if read != self._diff_at and shown is not None and wanted is not None:
            self._net.dev.assign(shown, wanted)
        self._diff_at = read

    def after_backward(self, first: int) -> None:
        """Shows the version with the gradient that was computed last."""
        for i in range(self._diff_at):
            if self._makers[i + 1] >= first and self._diff_of(i) is not None:
                self._diff_at = i
                return

    def after_training(self) -> None:
        """Shows the versions that complete passes leave."""
        self._data_at = self._diff_at = len(self._versions) - 1
        self.after_backward(0)
