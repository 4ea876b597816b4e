"""Layers without bottoms, which provide a net's inputs."""

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import ops
from ..devices.context import ExecutionContext
from ..devices.protocol import Device
from ..errors import Locator
from .base import fillers
from .base.compilation import Which
from .base.feeding import Feeding
from .base.layer import Layer, Shape, gradient_of, register


def no_files(param: Any, path: Path) -> Iterator[str]:
    """The ``listed_files`` of a layer whose source names no other file."""
    return iter(())


class Feed(Feeding, Layer):
    """Tops that a data source fills batch by batch. The net reads shapes and batches from it (see caffelite/data).

    divides_samples: devices can read a part of each batch each.
    """

    bottoms = (0, 0)
    tops: tuple[int, int | None] = (1, None)
    reads_source = batched = True
    differentiable = couples_samples = False
    divides_samples = False
    source: Any = None
    _shard: tuple[int, int] | None = None  # of each batch: index and count

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Any:
        """The source of a layer with this message, see ``data.open_source``, but for its shard."""
        raise NotImplementedError

    @staticmethod
    def listed_files(param: Any, path: Path) -> Iterator[str]:
        """The files that the list, table or folder of a layer names, as the layer reads them, with root_folder. param:
        the layer's message ``field``; path: of the list. Errors: a list that the layer refuses, too."""
        raise NotImplementedError

    @property
    def divisible_axes(self) -> Which:
        return (0,) if self.divides_samples else ()

    def sample_shard(self, shard: int, shards: int) -> Self:
        """A copy that feeds a shard of each batch, once ``divide_source`` is called."""
        copied = copy.copy(self)
        copied._shard = shard, shards
        return copied

    def divide_source(self) -> None:
        """Makes the source of a shard return no more than the shard."""
        if self._shard:
            self.source.divide(*self._shard)
            self._shard = None

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.source is None:
            raise self.error("its data is not available")
        shapes = list(self.source.shapes)
        self.converts_pixels = self._pixel_transform() is not None
        if len(shapes) < len(self.spec.top):
            raise self.error(
                f"its source fills {len(shapes)} tops",
                "top",
                len(shapes),
                expected=f"at most {len(shapes)}",
                found=len(self.spec.top),
                outer=True,
            )
        shards = self._shard[1] if self._shard else 1
        return [(shape[0] // shards, *shape[1:]) for shape in shapes[: len(self.spec.top)]]

    def _pixel_transform(self) -> Any:
        """The transform of pixels that the device is to convert, or None."""
        return None if getattr(self.source, "on_host", False) else getattr(self.source, "transform", None)

    def build(self, dev: Device) -> None:
        """Where a source returns pixels, the device converts them into numbers."""
        transform = self._pixel_transform()
        self._finish = None
        if transform:
            pixels = transform.mean, transform.scale, self.context, self.config.format.channels_last
            self._finish = dev.build(ops.Preprocess(self.source.shapes[0], *pixels))
        if self._finish:
            self.source.allocate = self._finish.host_buffer
        shapes = self.source.shapes[: len(self.spec.top)]
        self._arrays = [self.context.input_buffer.field(shape) for shape in (shapes[1:] if transform else shapes)]

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        if self._finish:
            self._finish.wait()  # drawing gives the last batch's memory back
            batch = self.source.draw()
            self._finish.set_batch(which, batch.pixels, batch.picks, batch.resident)
            arrays = batch.arrays
        else:
            arrays = self.source.next()
        for field, array in zip(self._arrays, arrays, strict=False):
            field.set(which, array)

    def feeds_ahead(self) -> bool:
        return self._finish is not None and self._finish.deep

    def signature(self) -> tuple:
        return self._finish.signature() if self._finish else ()

    def forward(self, x: list, y: list) -> None:
        if self._finish:
            return self._finish.forward(y[0], self._arrays, y[1:])
        for top, field in zip(y, self._arrays, strict=True):
            field.copy_to(top)


def legacy_shapes(layer: Layer) -> list[Shape]:
    """DummyData's shapes: ``shape`` messages, or the old num, channels, height and width; one for all tops or one
    each."""
    p = layer.p
    old = [p.num, p.channels, p.height, p.width]
    if len(p.shape) and any(old):
        raise layer.error("gives shape and num/channels/height/width", "shape", remedy="keep shape")
    shapes = [tuple(s.dim) for s in p.shape] or [tuple(dims) for dims in zip(*old, strict=False)]
    positive(layer, shapes, *[("shape", i) for i in range(len(shapes))])
    if any(old) and len({len(values) for values in old}) != 1:
        raise layer.error("num, channels, height and width differ in number", "num", expected="the same number of each")
    return for_tops(layer, shapes)


def for_tops(layer: Layer, shapes: list[Shape]) -> list[Shape]:
    """A shape for each top, of one for all or one each."""
    tops = len(layer.spec.top)
    if len(shapes) not in (1, tops):
        raise layer.error(f"has {len(shapes)} shapes for {tops} tops", "shape", expected=f"1 or {tops}")
    return shapes * tops if len(shapes) == 1 else shapes


def positive(layer: Layer, shapes: list[Shape], *paths: tuple) -> list[Shape]:
    """Checks that every dimension of the shapes is 1 or more; ``paths``: their fields, for errors."""
    for shape, path in zip(shapes, paths, strict=True):
        for i, d in enumerate(shape):
            if d < 1:
                raise layer.error("a bad dimension", *path, "dim", i, expected="1 or more", found=d)
    return shapes


@register
class DummyData(Feeding, Layer):
    """Tops of any shape, from data_filler: none (0), one for all or one each. Constants are filled once, random numbers
    in every iteration. Random numbers depend on the sample, not on the process."""

    field = "dummy_data_param"
    bottoms, tops = (0, 0), (1, None)
    filled_once = sets_shapes = True
    differentiable = couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        messages = list(self.p.data_filler) or [pb.FillerParameter()]
        if len(messages) not in (1, len(self.spec.top)):
            raise self.error(
                f"has {len(messages)} fillers for {len(self.spec.top)} tops",
                "data_filler",
                expected=f"0, 1 or {len(self.spec.top)}",
            )
        self.fillers = messages * len(self.spec.top) if len(messages) == 1 else messages
        self.top_shapes = legacy_shapes(self)
        for i, (filler, shape) in enumerate(zip(self.fillers, self.top_shapes, strict=True)):
            fillers.check(filler, shape, self.locate.at(self.field, "data_filler", min(i, len(messages) - 1)))
        return self.top_shapes

    def set_shapes(self, shapes: list[Shape]) -> None:
        self.top_shapes = shapes

    def bound(self, dev: Device, params: list, context: ExecutionContext, replica: bool = False) -> Self:
        copied = super().bound(dev, params, context, replica)
        copied.filled = False
        return copied

    def build(self, dev: Device) -> None:
        self.filled = False
        self._random = {
            i: self.context.input_buffer.field(self.top_shapes[i])
            for i, filler in enumerate(self.fillers)
            if filler.type != "constant"
        }

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        for i, field in self._random.items():
            first = micro_batch * (self.top_shapes[i][:1] or (1,))[0]
            generator = functools.partial(self._generator, i, iteration, first)
            field.set(which, fillers.fill_rows(self.fillers[i], self.top_shapes[i], generator))

    def _generator(self, top: int, iteration: int, first: int, row: int) -> np.random.Generator:
        """The random numbers of a row. first: the number of the batch's first row."""
        return fillers.generator(self.context.seed, self.name, top, iteration, first + row)

    def forward(self, x: list, y: list) -> None:
        for i, top in enumerate(y):
            if i in self._random:
                self._random[i].copy_to(top)
            elif not self.filled:
                self.dev.fill(top, self.fillers[i].value)
        self.filled = True


@register
class MemoryData(Feeding, Layer):
    """Arrays that the caller gives with ``set_input_arrays``, batch after batch, over and over.

    Tops: data (N, C, H, W), and, if there is a second, label (N), N = batch_size, C = channels, H = height, W = width;
    or data of the shape dim, N first, as in naibaf7/caffe (OpenCL). Errors: a pass without arrays, arrays of another
    shape. As in Caffe, which knows no transformation of them either.
    """

    field = "memory_data_param"
    bottoms, tops = (0, 0), (1, 2)
    batched = True
    differentiable = couples_samples = False

    def setup(self) -> None:
        p, names = self.p, ("batch_size", "channels", "height", "width")
        for name in () if p.dim else names:
            if not getattr(p, name):
                raise self.error(f"{name} must be positive", name, remedy="set batch_size, channels, height and width")
        self.shape: Shape = tuple(p.dim) or tuple(getattr(p, name) for name in names)
        for i, size in enumerate(p.dim):
            if size < 1:
                raise self.error("a bad dimension", "dim", i, expected="1 or more", found=size)
        self.arrays: tuple[np.ndarray, np.ndarray] | None = None

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [self.shape, self.shape[:1]][: len(self.spec.top)]

    def set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        """data (M, C, H, W) and labels (M), M a multiple of the batch size; they are read, not copied, from the next
        pass on."""
        (batch, *sample), count = self.shape, len(data)
        if list(data.shape[1:]) != sample or count % batch or not count:
            expected = f"M×{'×'.join(map(str, sample))}, M a multiple of batch_size {batch}"
            raise self.error("its data does not fit", expected=expected, found=list(data.shape))
        if labels.size != count:
            raise self.error("its labels do not fit the data", expected=count, found=list(labels.shape))
        self.arrays, self.position = (data, labels.reshape(-1)), 0

    def build(self, dev: Device) -> None:
        self._fields = [self.context.input_buffer.field(shape) for shape in self.shapes([])]

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        if self.arrays is None:
            raise self.error("has no data", remedy="give it some with set_input_arrays(data, labels)")
        for field, array in zip(self._fields, self.arrays, strict=False):
            field.set(which, array[self.position : self.position + self.shape[0]])
        self.position = (self.position + self.shape[0]) % len(self.arrays[0])

    def forward(self, x: list, y: list) -> None:
        for field, top in zip(self._fields, y, strict=True):
            field.copy_to(top)


@register
class Input(Feeding, Layer):
    """Tops that the user fills (deploy nets): input_param.shape, one for all tops or one each."""

    field = "input_param"
    bottoms, tops = (0, 0), (1, None)
    filled_once = sets_shapes = True
    differentiable = couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shapes = [tuple(s.dim) for s in self.p.shape]
        tops = for_tops(self, shapes)
        positive(self, shapes, *[("shape", i) for i in range(len(shapes))])
        return tops

    def forward(self, x: list, y: list) -> None:
        pass


@register
class Parameter(Layer):
    """A top that is itself a learned parameter: parameter_param.shape, from blob_filler (default 0)."""

    field = "parameter_param"
    bottoms = (0, 0)
    couples_samples = False
    backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = positive(self, [tuple(self.p.shape.dim)], ("shape",))[0]
        self.add_param(shape, self.p.blob_filler, "blob_filler")
        return [shape]

    def forward(self, x: list, y: list) -> None:
        self.dev.copy(self.params[0].data, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        dw, add = gradient_of(self, 0)
        if dw is not None:
            (self.dev.add if add else self.dev.copy)(dy[0], dw)
