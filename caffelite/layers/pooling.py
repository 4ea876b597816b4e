"""Pooling over windows of images, of frames, and of any number of axes."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import Window, ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from . import require, sliding
from .compilation import Which
from .config import SavedBlobs
from .facets import Coordinates, Described
from .image_layout import ImageLayout
from .layer import Layer, Shape, random_key, register, register_variant
from .state import SavesByConfig

METHODS = pb.PoolingParameter.PoolMethod


def pooled(layer: Layer, spatial: Shape, k: Window, ceil: bool = True) -> Shape:
    """How many windows there are along each axis: the last may reach beyond the image where ``ceil``, but must begin
    within.

    So one window of a kernel that is larger than the padded image, by less than the stride, stays.
    """
    sliding.check_padded(layer, spatial, k.pad)
    out = []
    for size, kernel, stride, pad in zip(spatial, k.kernel, k.stride, k.pad, strict=True):
        room = size + 2 * pad - kernel
        count = (-(-room // stride) if ceil else room // stride) + 1
        if count < 1:
            found = f"an image of {'×'.join(map(str, spatial))}"
            raise layer.error(f"its kernel {list(k.kernel)} does not fit", "kernel_size", found=found)
        count -= any(k.pad) and (count - 1) * stride >= size + pad
        if (count - 1) * stride >= size + pad:
            remedy = "use round_mode: FLOOR, or a smaller stride"
            raise layer.error("its last window is outside the image", "stride", found=f"stride {stride}", remedy=remedy)
        out.append(count)
    return tuple(out)


def no_padding(layer: Layer, k: Window, *path: str) -> None:
    if any(k.pad):
        what = "stochastic pooling does not support pad"
        raise layer.error(what, *path, expected="pad 0", found=f"pad {list(k.pad)}")


class Pooled(Layer):
    """A layer that pools by p.pool: MAX, AVE or STOCHASTIC, which draws its winners in TRAIN."""

    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        self.method = METHODS.Name(self.p.pool)
        self.drawn = self.method == "STOCHASTIC" and self.phase == pb.TRAIN
        self.differentiable = self.drawn or self.method != "STOCHASTIC"

    @property
    def divisible_axes(self) -> Which:
        return () if self.drawn else (0,)  # the argmax is drawn by the position in the batch

    def index(self, name: str, shape: Shape) -> None:
        """Adds a saved blob for the winners' positions."""
        if self.drawn or self.method == "MAX":
            self.saved_shapes[name] = (shape, "int32")

    def operation(self, dev: Device, x: Shape, y: Shape, window: Window, layer_key: int) -> ops.BuiltPooling:
        context = self.context if self.drawn else None
        return dev.build(ops.Pooling(self.method, x, y, window, layer_key=layer_key, context=context))


@register
@Described(purpose="makes the blob smaller and the answer independent of small shifts")
@Coordinates("window")
class Pooling(SavesByConfig, ImageLayout, Pooled):
    """One number of each window, channel by channel: the largest (MAX), the mean (AVE; AVE_EXC_PAD: of the window's
    pixels in the image), or STOCHASTIC: in TRAIN one that is drawn with probability x / Σx, in TEST what to expect of
    that, Σx² / Σx.

    x (N, C, H, W) or (N, C, W); y (N, C, OH, OW) with OH = ⌈(H + 2·pad - kernel) / stride⌉ + 1 (round_mode FLOOR or
    ceil_mode false: ⌊⌋), less a last window that would start beyond the image and its left pad. A second top of MAX:
    the winners' places in their planes, h·W + w. AVE divides by the window clipped to the padded image. global_pooling:
    one window, the image. Defaults: MAX, stride 1, pad 0. Errors: a kernel that is larger than the padded image by the
    stride or more, a pad as large as the kernel, a pad for STOCHASTIC. As in Caffe.
    """

    field = "pooling_param"
    tops = (1, 2)
    constant_tops = frozenset({1})
    follows_layout = follows_precision = needs_images = True

    def setup(self) -> None:
        super().setup()
        self.counts_image_alone = self.method == "AVE_EXC_PAD" or not self.p.avg_include_pad
        if self.method == "AVE_EXC_PAD":
            self.method = "AVE"
        if len(self.spec.top) > 1 and self.method != "MAX":
            raise self.error(
                "a second top, the winners' places, is for MAX pooling",
                "top",
                1,
                found=f"pool: {self.method}",
                outer=True,
            )
        p = self.p
        self.up = p.round_mode == pb.PoolingParameter.CEIL and p.ceil_mode
        if (
            p.HasField("round_mode")
            and p.HasField("ceil_mode")
            and (p.round_mode == pb.PoolingParameter.CEIL) != p.ceil_mode
        ):
            found = (
                f"round_mode: {pb.PoolingParameter.RoundMode.Name(p.round_mode)}, ceil_mode: {str(p.ceil_mode).lower()}"
            )
            what = "ceil_mode and round_mode contradict each other"
            raise self.error(what, "ceil_mode", found=found, remedy="keep one of the two")
        if p.global_pooling:
            if p.HasField("kernel_size") or p.HasField("kernel_h") or p.HasField("kernel_w"):
                what = "global_pooling takes its kernel from the bottom"
                raise self.error(what, "global_pooling", remedy="drop kernel_size")
            if sliding.per_axis(self, "stride", 2, 1) != (1, 1) or sliding.per_axis(self, "pad", 2, 0) != (0, 0):
                raise self.error("global_pooling has one window", "global_pooling", expected="stride 1 and pad 0")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        require.fits(self, bottoms, 0, len(shape) in (3, 4), "4 axes N×C×H×W, or 3, N×C×W", "is no batch of images")
        spatial = shape[2:]
        one = (1,) * len(spatial)
        self.window = k = (
            Window(spatial, one, (0,) * len(spatial), one)
            if self.p.global_pooling
            else sliding.window(self, len(spatial))
        )
        if self.method == "STOCHASTIC":
            no_padding(self, k, "pad")
        if any(pad >= kernel for pad, kernel in zip(k.pad, k.kernel, strict=True)):
            what = "pad must be less than the kernel"
            raise self.error(what, "pad", found=f"pad {list(k.pad)}, kernel {list(k.kernel)}")
        out = pooled(self, spatial, k, self.up)
        self.x_shape, self.y_shape = shape, (*shape[:2], *out)
        self.index("index", self.y_shape)
        self.excludes_pad = self.method == "AVE" and self.counts_image_alone and any(k.pad)
        if self.excludes_pad:
            self.saved_shapes["scaled"] = (self.y_shape, None)
        self.follows_precision = not self.excludes_pad
        self.follows_layout = len(self.spec.top) == 1 and (
            self.method == "MAX" or (self.method == "AVE" and self._plain_means() and not self.excludes_pad)
        )
        return [self.y_shape] * len(self.spec.top)

    @property
    def divisible_axes(self) -> Which:
        return () if self.drawn else (0, 1)

    def _plain_means(self) -> bool:
        """Whether every mean of AVE covers its full window or the window's part inside the image, so that none is
        clipped to the padded image."""
        k = self.window
        reach = [
            (o - 1) * s + kernel - p
            for o, s, kernel, p in zip(self.y_shape[2:], k.stride, k.kernel, k.pad, strict=True)
        ]
        return not any(k.pad) or all(r <= size + p for r, size, p in zip(reach, self.x_shape[2:], k.pad, strict=True))

    def saved_blobs(self) -> SavedBlobs:
        if not self.channels_last or self.method != "MAX":
            return self.saved_shapes
        dtype = "uint8" if math.prod(self.window.kernel) < 255 else "int32"
        return {"index": (self.y_shape, dtype)}  # positions in their windows, not in their planes

    def build(self, dev: Device) -> None:
        if self.channels_last:
            half = self.config.format.dtype is not None
            self.op = dev.build(ops.Pooling(self.method, self.x_shape, self.y_shape, self.window, True, half))
        else:
            self.op = self.operation(
                dev,
                sliding.image(self.x_shape),
                sliding.image(self.y_shape),
                sliding.flat(self.window),
                random_key(self),
            )
        if self.excludes_pad:
            planes, pixels = math.prod(self.y_shape[:2]), math.prod(self.y_shape[2:])
            self._scale = dev.channel_map(Formula("x * f", ("x", "f")), ("f",), planes, pixels, 1)
            self._factors = dev.empty(pixels)
            dev.upload(self._factors, self._shares().reshape(-1))

    def _shares(self) -> np.ndarray:
        """The size of each window, which AVE divides by, as a multiple of its pixels in the image."""
        sides = []
        for outs, size, kernel, stride, pad in zip(self.y_shape[2:], self.x_shape[2:], *self.window[:3], strict=True):
            first = np.arange(outs) * stride - pad
            last = np.minimum(first + kernel, size + pad)
            sides.append((last - first) / (np.minimum(last, size) - np.maximum(first, 0)))
        return functools.reduce(np.multiply.outer, sides)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], y[0], self.saved.get("index"))
        if self.excludes_pad:
            self._scale(y[0], self._factors, y[0])
        if len(y) == 2:
            self.dev.assign(self.saved["index"], y[1])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        above = dy[0]
        if self.excludes_pad:
            above = self.saved["scaled"]
            self._scale(dy[0], self._factors, above)
        self.op.backward(above, self.saved.get("index"), dx[0])


@register
class Pooling3D(Pooled):
    """The largest number (MAX) or the mean (AVE) of each window of frames, channel by channel.

    x (N, C, L, H, W); y (N, C, OL, OH, OW), whose sides are as in Pooling; kernel_depth, temporal_stride: along L,
    kernel_size, stride, pad along H and W; L has no pad. AVE divides by the window clipped to the padded images.
    Defaults: MAX, stride 1. Errors: STOCHASTIC, a pad for MAX, no kernel_size or kernel_depth. Source:
    facebookarchive/C3D C3D-v1.0 src/caffe/layers/pool3d_layer.cpp; of equal numbers the first gets the gradient.
    """

    field = "pooling3d_param"
    divisible_axes = (0, 1)

    def setup(self) -> None:
        super().setup()
        if self.method not in ("MAX", "AVE"):
            raise self.error("pools frames by MAX or AVE", "pool", expected="MAX or AVE", found=self.method)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        require.fits(self, bottoms, 0, len(shape) == 5, "5 axes N×C×L×H×W", "has no frames")
        n, c, length, *image = shape
        self.images = sliding.window(self, 2)
        kernel, stride, pad, dilation = self.images
        if self.method == "MAX" and any(pad):
            raise self.error("MAX has no pad", "pad", expected="pad 0", found=f"pad {list(pad)}")
        for name in ("kernel_depth", "temporal_stride"):
            if not 1 <= getattr(self.p, name) <= sliding.LARGEST:
                expected = f"1 to {sliding.LARGEST}"
                raise self.error(f"{name} must be at least 1", name, expected=expected, found=getattr(self.p, name))
        if any(p >= k for p, k in zip(pad, kernel, strict=True)):
            raise self.error("pad must be less than the kernel", "pad", found=f"pad {list(pad)}, kernel {list(kernel)}")
        self.frames = Window((self.p.kernel_depth, 1), (self.p.temporal_stride, 1), (0, 0))
        self.window = Window(
            (self.p.kernel_depth, *kernel), (self.p.temporal_stride, *stride), (0, *pad), (1, *dilation)
        )
        high, wide = pooled(self, tuple(image), self.images)
        after = self._lengths(length)
        # Windows are pooled within each frame and then over frames, which gives the same numbers and winners.
        self.spatial = (n, c * length, *image), (n, c * length, high, wide)
        self.temporal = (n, c, length, high * wide), (n, c, after, high * wide)
        self.index("index of places", self.spatial[1])
        self.index("index of frames", self.temporal[1])
        self.saved_shapes["frames"] = (self.spatial[1], None)
        return [(n, c, after, high, wide)]

    def _lengths(self, length: int) -> int:
        kernel, stride = self.p.kernel_depth, self.p.temporal_stride
        count = -(-(length - kernel) // stride) + 1
        if count < 1 or (count - 1) * stride >= length:
            name = "kernel_depth" if count < 1 else "temporal_stride"
            what = "its kernel does not fit" if count < 1 else "its last window is outside the frames"
            raise self.error(what, name, found=f"{length} frames", expected=f"at most {length}")
        return count

    def build(self, dev: Device) -> None:
        self.of_places = self.operation(dev, *self.spatial, self.images, random_key(self))
        self.of_frames = self.operation(dev, *self.temporal, self.frames, random_key(self))

    def forward(self, x: list, y: list) -> None:
        frames = self.saved["frames"]
        self.of_places.forward(x[0].reshape(self.spatial[0]), frames, self.saved.get("index of places"))
        after = y[0].reshape(self.temporal[1])
        self.of_frames.forward(frames.reshape(self.temporal[0]), after, self.saved.get("index of frames"))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        frames = self.saved["frames"]
        after, before = dy[0].reshape(self.temporal[1]), frames.reshape(self.temporal[0])
        self.of_frames.backward(after, self.saved.get("index of frames"), before)
        self.of_places.backward(frames, self.saved.get("index of places"), dx[0].reshape(self.spatial[0]))


NAMES = ("kernel_size", "stride", "pad")


def applies(spec: pb.LayerParameter) -> bool:
    p = spec.pooling_param
    return any(step != 1 for step in p.dilation) or any(getattr(p, f"more_{name}") for name in NAMES)


@register_variant(applies)
class VolumePooling(Layer):
    """The largest number of each window, over any number of axes: x (N, C, L, H, W, ...) → (N, C, OL, OH, OW, ...).
    Selected by a dilation other than 1, or by several values of kernel_size, stride or pad, one for each axis.

    O = ⌈(size + 2 pad - reach) / stride⌉ + 1, reach = dilation (kernel_size - 1) + 1, less a last window that would
    start beyond the pad. Defaults: stride 1, pad 0, dilation 1. The host computes it. Errors: AVE, STOCHASTIC, a kernel
    that does not fit, another number of values than of axes. Source: naibaf7/caffe src/caffe/layers/pooling_layer.cpp.
    """

    type = "Pooling"
    field = "pooling_param"
    requires_host = True
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = (0, 1)

    def setup(self) -> None:
        p = self.p
        if p.pool != p.MAX:
            found = p.PoolMethod.Name(p.pool)
            raise self.error("pools over these axes by MAX alone", "pool", expected="MAX", found=found)
        if p.global_pooling:
            raise self.error("global_pooling takes its kernel from the bottom", "global_pooling", remedy="drop it")

    def _per_axis(self, name: str, rank: int, default: int) -> tuple[int, ...]:
        more = f"more_{name}"
        if name == "dilation" or not getattr(self.p, more):
            return sliding.per_axis(self, name, rank, default, "kernel" if name == "kernel_size" else None)
        values = (getattr(self.p, name), *getattr(self.p, more))
        if len(values) != rank:
            expected = f"one, or one for each of the {rank} spatial axes"
            raise self.error(f"has {len(values)} values of {name}", more, 0, expected=expected)
        return values

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        require.fits(self, bottoms, 0, len(shape) >= 3, "N×C×...", "has no spatial axes")
        rank = len(shape) - 2
        self.kernel, self.stride = self._per_axis("kernel_size", rank, 0), self._per_axis("stride", rank, 1)
        self.pad, self.dilation = self._per_axis("pad", rank, 0), self._per_axis("dilation", rank, 1)
        for name, values in (("kernel_size", self.kernel), ("stride", self.stride), ("dilation", self.dilation)):
            if min(values) < 1:
                raise self.error(f"{name} must be at least 1", name, found=min(values))
        self.counts = tuple(self._count(axis, size) for axis, size in enumerate(shape[2:]))
        top = (*shape[:2], *self.counts)
        self.saved_shapes["index"] = (top, "int32")
        return [top]

    def _count(self, axis: int, size: int) -> int:
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        pad, stride = self.pad[axis], self.stride[axis]
        count = -(-(size + 2 * pad - reach) // stride) + 1
        if pad and (count - 1) * stride >= size + pad:
            count -= 1
        if count < 1 or (count - 1) * stride >= size + pad or pad >= self.kernel[axis]:
            found = f"kernel {self.kernel[axis]}, stride {stride}, pad {pad}, dilation {self.dilation[axis]}"
            raise self.error(f"its windows do not fit {size} along axis {axis + 2}", "kernel_size", found=found)
        return count

    def _offsets(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """For each place of the kernel its number, and the values of a padded blob there, one of each window."""
        for number, offset in enumerate(np.ndindex(self.kernel)):
            starts = (step * at for step, at in zip(self.dilation, offset, strict=True))
            axes = zip(starts, self.counts, self.stride, strict=True)
            yield number, (..., *(slice(start, start + (count - 1) * step + 1, step) for start, count, step in axes))

    def _borders(self, spatial: Shape) -> list[tuple[int, int]]:
        """What surrounds an image so that each window is in it."""
        axes = zip(self.counts, self.stride, self.dilation, self.kernel, spatial, self.pad, strict=True)
        after = (max(0, (n - 1) * s + d * (k - 1) + 1 - size - pad) for n, s, d, k, size, pad in axes)
        return [(0, 0), (0, 0), *zip(self.pad, after, strict=True)]

    def forward(self, x: list, y: list) -> None:
        image = self.dev.download(x[0])
        padded = np.pad(image, self._borders(image.shape[2:]), constant_values=-np.inf)
        top, index = np.full(y[0].shape, -np.inf, image.dtype), np.zeros(y[0].shape, np.int32)
        for number, offset in self._offsets():
            values = padded[offset]
            larger = (values > top) | np.isnan(values)
            top, index = np.where(larger, values, top), np.where(larger, number, index)
        self.dev.upload(y[0], top)
        self.dev.upload(self.saved["index"], index.astype(np.int32))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        above, index = self.dev.download(dy[0]), self.dev.download(self.saved["index"])
        borders = self._borders(dx[0].shape[2:])
        padded = np.zeros([before + size + after for size, (before, after) in zip(dx[0].shape, borders, strict=True)])
        for number, offset in self._offsets():
            padded[offset] += np.where(index == number, above, 0)
        inner = tuple(slice(before, before + size) for size, (before, _) in zip(dx[0].shape, borders, strict=True))
        self.dev.upload(dx[0], padded[inner])
