"""Layers that users write in Python, over NumPy arrays on every device."""

import math
import types
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import caffelite_pb2 as pb, user_modules
from ..devices.context import ExecutionContext
from ..devices.protocol import Device
from ..errors import quoted
from .base.layer import Layer, Shape, gradient_of, register
from .base.state import Varying
from .base.user_code import caffe_importable, conversion, described, load


class HostBlob:
    """The blob of a user's code: ``data`` and ``diff``, arrays of the same shape that are zeros until written."""

    def __init__(self, shape: Shape = (), dtype: np.dtype | type = np.float32):
        self.shape, self.dtype = tuple(shape), dtype
        self._arrays: dict[str, np.ndarray] = {}

    def reshape(self, *shape: Any) -> None:
        """Dimensions one by one, or as one sequence."""
        sizes = tuple(int(d) for d in (shape[0] if len(shape) == 1 and not np.isscalar(shape[0]) else shape))
        if sizes != self.shape:
            self.shape, self._arrays = sizes, {}

    def attach(self, data: np.ndarray, diff: np.ndarray | None) -> None:
        """From now on ``data`` and ``diff`` are these arrays, of the same shape; diff: None leaves it."""
        self._arrays |= {"data": data} if diff is None else {"data": data, "diff": diff}

    def retype(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self._arrays = {name: array.astype(dtype, copy=False) for name, array in self._arrays.items()}

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = np.zeros(self.shape, self.dtype)
        return self._arrays[name]

    def _size(self, axis: int) -> int:
        return self.shape[axis] if axis < len(self.shape) else 1

    data = property(lambda self: self._array("data"))
    diff = property(lambda self: self._array("diff"))
    count = property(lambda self: math.prod(self.shape))
    num = property(lambda self: self._size(0))
    channels = property(lambda self: self._size(1))
    height = property(lambda self: self._size(2))
    width = property(lambda self: self._size(3))


class HostBlobs(list):
    """A user's layer's parameters."""

    def add_blob(self, *shape: int) -> None:
        self.append(HostBlob())
        self[-1].reshape(*shape)


class UserLayer:
    """``caffe.Layer``: the base class of users' layers. The net sets ``param_str``, ``phase`` and ``blobs``."""

    type = "Python"
    param_str = ""
    phase = pb.TRAIN
    blobs: HostBlobs

    def setup(self, bottom: list[HostBlob], top: list[HostBlob]) -> None:
        """Called once, before ``reshape``."""

    def reshape(self, bottom: list[HostBlob], top: list[HostBlob]) -> None:
        """Gives the tops their shapes."""
        raise NotImplementedError("the class has no reshape")

    def forward(self, bottom: list[HostBlob], top: list[HostBlob]) -> None:
        """Computes the tops."""
        raise NotImplementedError("the class has no forward")


@register
class Python(Varying, Layer):
    """Runs a class of the user's: python_param { module, layer, param_str }. The module is searched in a folder
    given by -python or CAFFELITE_PYTHON, and on PYTHONPATH; never in the current folder or in that of
    the prototxt, unless one of these names it. Commands that run no net import it only with -python. Where no caffe is
    installed, the module's ``import caffe`` gives caffelite.pycaffe. Bottoms and tops are of any shape.

    The class has setup(bottom, top), reshape(bottom, top), which gives the tops their shapes, forward(bottom, top) and,
    for gradients, backward(top, propagate_down, bottom). bottom and top are lists of blobs with .data, .diff (NumPy
    arrays), .reshape(...), .shape, .count, .num, .channels, .height and .width; the object has param_str, phase and
    blobs, whose blobs.add_blob(...) in setup makes parameters. A top that changes its shape while the net runs reshapes
    the layers above. share_in_parallel has no effect. In a net that devices divide into stages, each micro-batch in
    flight has an object of the class. Errors: any exception that the class raises, with its file and line; code for
    Python 2. As in Caffe.
    """

    field = "python_param"
    bottoms, tops = (0, None), (0, None)
    requires_host = True
    varies = False
    keeps_tops = False
    backward_reads_bottoms = backward_reads_tops = False  # host copies do

    def setup(self) -> None:
        for name in ("module", "layer"):
            if not getattr(self.p, name):
                raise self.error(f"has no {name}", name, remedy=f"set python_param {{ {name}: ... }}")
        module = self._module()
        self.file = getattr(module, "__file__", None)
        kind = getattr(module, self.p.layer, None)
        if not isinstance(kind, type):
            found = ", ".join(
                n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__
            )
            raise self.error(f'{self.file} has no class "{self.p.layer}"', "layer", found=found or "no class")
        missing = [name for name in ("setup", "reshape", "forward") if not callable(getattr(kind, name, None))]
        if missing:
            what = f"{self.file}: class {self.p.layer} has no {missing[0]}"
            raise self.error(what, "layer", expected="setup, reshape and forward")
        self.differentiable = callable(getattr(kind, "backward", None))
        self.kind = kind
        self.user: Any = None  # an instance of it

    def _module(self) -> types.ModuleType:
        name = self.p.module
        if not user_modules.permitted():
            what = f'layer "{self.name}" (Python): its module "{name}" is not imported'
            remedy = "what the layer does is not known here; if you trust the module, give its folder: -python DIR"
            raise user_modules.NotImported(what, where=self.locate("python_param", "module"), remedy=remedy)
        try:
            return load(name)
        except Exception as mistake:  # a user's module may raise anything
            if isinstance(mistake, ModuleNotFoundError) and mistake.name and f"{name}.".startswith(f"{mistake.name}."):
                expected = " or ".join(["one on PYTHONPATH", *user_modules.folders()])
                what = f'there is no module "{name}"'
                raise self.error(what, "module", expected=expected, remedy=self._remedy(name)) from None
            what = f'module "{name}" {described(mistake, None)}'
            raise self.error(what, "module", remedy=conversion(mistake, None)) from mistake

    def _remedy(self, name: str) -> str:
        """The remedy for a module that is not found; it may be in a folder that is not searched by default."""
        parts = name.split(".")
        for folder in (Path(self.locate.file).parent, Path()):
            for file in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
                if parts[0] and file.is_file():
                    return (
                        f"{file} is imported only if you give its folder: -python {quoted(folder)}, or "
                        f"{user_modules.VARIABLE}={quoted(folder)}"
                    )
        return f"give the folder of {parts[0]}.py: -python DIR, or {user_modules.VARIABLE}=DIR"

    def _call(self, method: str, *arguments):
        try:
            with caffe_importable():
                return getattr(self.user, method)(*arguments)
        except Exception as mistake:  # a user's class may raise anything
            what = f"{self.p.layer}.{method} {described(mistake, self.file)}"
            raise self.error(what, remedy=conversion(mistake, self.file)) from mistake

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self._reshape(bottoms)
        for blob in self.user.blobs:
            self.add_param(blob.shape, pb.FillerParameter())
        self.top_shapes = [blob.shape for blob in self.top]
        return self.top_shapes

    def _reshape(self, bottoms: list[Shape]) -> None:
        """Gives the blobs their shapes; the first time makes them and the user's object."""
        first = self.user is None
        if first:
            self.bottom, self.top = ([HostBlob() for _ in names] for names in (self.spec.bottom, self.spec.top))
            try:
                with caffe_importable():
                    self.user = self.kind()
            except Exception as mistake:
                raise self.error(f"{self.p.layer}() {described(mistake, self.file)}") from mistake
            self.user.param_str, self.user.phase, self.user.blobs = self.p.param_str, self.phase, HostBlobs()
        for blob, shape in zip(self.bottom, bottoms, strict=True):
            blob.reshape(*shape)
        if first:
            self._call("setup", self.bottom, self.top)
        self._call("reshape", self.bottom, self.top)

    def bound(self, dev: Device, params: list, context: ExecutionContext, replica: bool = False) -> Self:
        """A replica has an object of the class of its own."""
        copied = super().bound(dev, params, context, replica)
        if replica:
            copied.user = None
            copied._reshape([blob.shape for blob in copied.bottom])
            copied.started = True
        return copied

    def build(self, dev: Device) -> None:
        for blob in (*self.bottom, *self.top, *self.user.blobs):
            blob.retype(dev.dtype)
        for blob, param in zip(self.user.blobs, self.params, strict=True):
            if not getattr(self, "started", False):  # what setup wrote into its parameters is how they start
                dev.upload(param.data, blob.data)
            if dev.traits.host_memory:
                blob.attach(param.data, param.diff)
        self.started = True

    def keep_tops(self, y: list) -> None:
        """From now on forward begins with what the tops y hold, which a program may have written: now what setup
        wrote. Only where no other blob lies in their memory."""
        self.keeps_tops = True
        for blob, array in zip(self.top, y, strict=True):
            self.dev.upload(array, blob.data)

    def forward(self, x: list, y: list) -> None:
        if self.keeps_tops:
            for blob, array in zip(self.top, y, strict=True):
                blob.data[...] = self.dev.download(array)
        for blob, array in (
            *zip(self.bottom, x, strict=True),
            *zip(self.user.blobs, (p.data for p in self.params), strict=True),
        ):
            if blob.data is not array:
                blob.data[...] = self.dev.download(array)
        self._call("reshape", self.bottom, self.top)
        self._call("forward", self.bottom, self.top)
        shapes = [blob.shape for blob in self.top]
        if shapes != self.top_shapes:
            for name, shape in zip(self.spec.top, shapes, strict=True):
                if min(shape, default=1) < 1:
                    raise self.error(f'{self.p.layer} gave top "{name}" an empty shape', found=list(shape))
            self.top_shapes = shapes
            y = self.resize(shapes)
        for blob, array in zip(self.top, y, strict=True):
            self.dev.upload(array, blob.data)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for blob, gradient in zip(self.top, dy, strict=True):
            blob.diff[...] = 0 if gradient is None else self.dev.download(gradient)
        gradients = [gradient_of(self, i) for i in range(len(self.user.blobs))]
        earlier = [np.array(self.dev.download(g)) if g is not None and add else 0 for g, add in gradients]
        for blob in (*self.bottom, *self.user.blobs):
            blob.diff[...] = 0
        self._call("backward", self.top, [gradient is not None for gradient in dx], self.bottom)
        for blob, gradient in zip(self.bottom, dx, strict=True):
            if gradient is not None:
                self.dev.upload(gradient, blob.diff)
        for blob, (gradient, _), before in zip(self.user.blobs, gradients, earlier, strict=True):
            if gradient is not None:
                self.dev.upload(gradient, blob.diff + before)
