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
from .base import require, sliding
from .base.compilation import Which
from .base.config import SavedBlobs
from .base.facets import Coordinates, Described
from .base.image_layout import ImageLayout
from .base.layer import Layer, Shape, random_key, register, register_variant
from .base.state import SavesByConfig

METHODS = pb.PoolingParameter.PoolMethod
SIDES = "pad_l", "pad_r", "pad_t", "pad_b"


def pooled(layer: Layer, spatial: Shape, k: Window, ceil: bool = True, after: Shape | None = None) -> Shape:
    """How many windows there are along each axis: the last may reach beyond the image where ``ceil``, but must begin
    within. after: the pad at the end of each axis, if it is another one than at the start.

    So one window of a kernel that is larger than the padded image, by less than the stride, stays.
    """
    after = k.pad if after is None else after
    for pads in (k.pad, after):
        sliding.check_padded(layer, spatial, pads)
    out = []
    for size, kernel, stride, pad, end in zip(spatial, k.kernel, k.stride, k.pad, after, strict=True):
        room = size + pad + end - kernel
        count = (-(-room // stride) if ceil else room // stride) + 1
        if count < 1:
            found = f"an image of {'×'.join(map(str, spatial))}"
            raise layer.error(f"its kernel {list(k.kernel)} does not fit", "kernel_size", found=found)
        count -= any((*k.pad, *after)) and (count - 1) * stride >= size + pad
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


class WindowPooling(Pooled):
    """A layer that pools windows of any number of axes, in steps over two axes at most."""

    def divide(self, shape: Shape, counts: Shape, window: Window) -> None:
        """Divides the pooling into ``steps``: over the last two axes, then over each axis before them, which gives the
        same values and winners. counts: windows along each axis."""
        n, c, *spatial = shape
        rows = c * math.prod(spatial[:-2])
        images = sliding.image((n, rows, *spatial[-2:])), sliding.image((n, rows, *counts[-2:]))
        self.steps = [(*images, sliding.flat(window))]
        for axis in reversed(range(len(spatial) - 2)):
            rows, inner = c * math.prod(spatial[:axis]), math.prod(counts[axis + 1 :])
            along = Window((window.kernel[axis], 1), (window.stride[axis], 1), (window.pad[axis], 0))
            self.steps.append(((n, rows, spatial[axis], inner), (n, rows, counts[axis], inner), along))
        for i, (_, top, _) in enumerate(self.steps):
            self.index(f"index {i}", top)
            if i < len(self.steps) - 1:
                self.saved_shapes[f"step {i}"] = (top, None)

    def build_steps(self, dev: Device) -> None:
        self.ops = [self.operation(dev, *step, random_key(self)) for step in self.steps]

    def _calls(self, first: Any, last: Any) -> Iterator[tuple[ops.BuiltPooling, Any, Any, Any]]:
        """(operation, bottom, top, index) of each step between a bottom and a top, or between their gradients."""
        blobs = [first, *(self.saved[f"step {i}"] for i in range(len(self.steps) - 1)), last]
        for i, (op, (bottom, top, _)) in enumerate(zip(self.ops, self.steps, strict=True)):
            ends = blobs[i], blobs[i + 1]
            if len(self.steps) > 1:
                ends = blobs[i].reshape(bottom), blobs[i + 1].reshape(top)
            yield op, *ends, self.saved.get(f"index {i}")

    def forward_steps(self, x: Any, y: Any) -> None:
        for op, bottom, top, index in self._calls(x, y):
            op.forward(bottom, top, index)

    def backward_steps(self, dy: Any, dx: Any) -> None:
        for op, bottom, top, index in reversed([*self._calls(dx, dy)]):
            op.backward(top, index, bottom)


@register
@Described(purpose="makes the blob smaller and the answer independent of small shifts")
@Coordinates("window")
class Pooling(SavesByConfig, ImageLayout, WindowPooling):
    """One number of each window, channel by channel: the largest (MAX), the mean (AVE; AVE_EXC_PAD: of the window's
    pixels in the image), or STOCHASTIC: in TRAIN one that is drawn with probability x / Σx, in TEST what to expect of
    that, Σx² / Σx.

    x (N, C, H, W), (N, C, W) or (N, C, L, H, W, ...); y (N, C, OH, OW) with OH = ⌈(H + 2·pad - kernel) / stride⌉ + 1
    (round_mode FLOOR or ceil_mode false: ⌊⌋), less a last window that would start beyond the image and its left pad. A
    second top of MAX: the winners' places in their planes, h·W + w. AVE divides by the window clipped to the padded
    image. global_pooling: one window, the image. kernel_size, stride and pad may be given once for each axis; pad_l,
    pad_r, pad_t and pad_b for each side. Defaults: MAX, stride 1, pad 0. Errors: a kernel that is larger than the
    padded image by the stride or more, a pad as large as the kernel, a pad for STOCHASTIC; STOCHASTIC or a second top
    over three axes. As in Caffe; over three axes by the same rules, MAX as in naibaf7/caffe; pads by side as in
    foss-for-synopsys-dwc-arc-processors/synopsys-caffe, src/caffe/layers/pooling_layer.cpp.
    """

    field = "pooling_param"
    unread = dict.fromkeys(("kernel_depth", "temporal_stride", "kernel_l", "stride_l"), "Pooling3D")
    converted = (*sliding.SHAPES, "round_below")
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
        require.fits(self, bottoms, 0, len(shape) > 2, "N×C×H×W, N×C×W or N×C×L×H×W", "is no batch of images")
        spatial = shape[2:]
        deep = len(spatial) > 2
        if deep and (self.method == "STOCHASTIC" or len(self.spec.top) > 1):
            what = "pools over more than two axes by MAX or AVE, with one top"
            raise self.error(what, "pool", found=f"{self.method}, {len(self.spec.top)} tops")
        one = (1,) * len(spatial)
        self.window = k = (
            Window(spatial, one, (0,) * len(spatial), one)
            if self.p.global_pooling
            else sliding.window(self, len(spatial))
        )
        self._pads_by_side(len(spatial))
        k = self.window
        if self.method == "STOCHASTIC":
            no_padding(self, k, "pad")
        if any(pad >= kernel for pad, kernel in zip((*k.pad, *self.pad_after), k.kernel * 2, strict=True)):
            what = "pad must be less than the kernel"
            raise self.error(what, "pad", found=f"pad {list(k.pad)}, kernel {list(k.kernel)}")
        out = pooled(self, spatial, k, self.up, self.pad_after)
        self.x_shape, self.y_shape = shape, (*shape[:2], *out)
        self.divide(shape, out, k)
        self.excludes_pad = self.method == "AVE" and self.counts_image_alone and any((*k.pad, *self.pad_after))
        self.rescales = self.excludes_pad or (self.method == "AVE" and self.pad_after != k.pad)
        if self.rescales:
            self.saved_shapes["scaled"] = (self.y_shape, None)
        self.follows_precision = not (self.rescales or deep)
        self.follows_layout = (
            len(self.spec.top) == 1
            and not deep
            and (self.method == "MAX" or (self.method == "AVE" and self._plain_means() and not self.rescales))
        )
        return [self.y_shape] * len(self.spec.top)

    def _pads_by_side(self, rank: int) -> None:
        """The pads at the end of each axis, and in the window those at its start."""
        p, named = self.p, [side for side in SIDES if getattr(self.p, side)]
        self.pad_after = self.window.pad
        if not named:
            return
        if any(self.window.pad) or rank != 2 or self.method == "STOCHASTIC" or p.global_pooling:
            what, expected = "pads by side", "MAX or AVE over height and width, without another pad"
            raise self.error(what, named[0], expected=expected)
        self.window = self.window._replace(pad=(p.pad_t, p.pad_l))
        self.pad_after = p.pad_b, p.pad_r

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

    def tiles_maxima(self) -> bool:
        """Whether it computes nothing but the largest number of windows that cover a plane and do not overlap."""
        k, whole = self.window, self.method == "MAX" and len(self.spec.top) == 1 and len(self.x_shape) == 4
        sizes = zip(self.y_shape[2:], k.stride, self.x_shape[2:], strict=True)
        covers = whole and all(count * step >= size for count, step, size in sizes)
        return covers and k.kernel == k.stride and not any((*k.pad, *self.pad_after))

    def planes_operation(self) -> ops.Pooling:
        """Over images that are not channels_last."""
        return ops.Pooling(self.method, *self.steps[0])

    def saved_blobs(self) -> SavedBlobs:
        if not self.channels_last or self.method != "MAX":
            return self.saved_shapes
        dtype = "uint8" if math.prod(self.window.kernel) < 255 else "int32"
        return {"index 0": (self.y_shape, dtype)}  # positions in their windows, not in their planes

    def build(self, dev: Device) -> None:
        if self.channels_last:
            half = self.config.format.dtype is not None
            self._description = ops.Pooling(self.method, self.x_shape, self.y_shape, self.window, True, half)
            self.op = dev.build(self._description)
        else:
            self.build_steps(dev)
        if self.rescales:
            planes, pixels = math.prod(self.y_shape[:2]), math.prod(self.y_shape[2:])
            self._scale = dev.channel_map(Formula("x * f", ("x", "f")), ("f",), planes, pixels, 1)
            self._factors = dev.empty(pixels)
            dev.upload(self._factors, self._shares().reshape(-1))

    def inference_operation(self) -> object | None:
        return self._description if self.channels_last else None

    def _shares(self) -> np.ndarray:
        """The size of each window, which AVE divides by, as a multiple of what it is to be divided by: the window's
        pixels in the image, or in the image and its pads."""
        sides = []
        geometry = zip(self.y_shape[2:], self.x_shape[2:], *self.window[:3], self.pad_after, strict=True)
        for outs, size, kernel, stride, pad, after in geometry:
            first = np.arange(outs) * stride - pad
            last = np.minimum(first + kernel, size + pad)
            before, end = (np.maximum(first, 0), size) if self.excludes_pad else (first, size + after)
            sides.append((last - first) / (np.minimum(first + kernel, end) - before))
        return functools.reduce(np.multiply.outer, sides)

    def forward(self, x: list, y: list) -> None:
        if self.channels_last:
            self.op.forward(x[0], y[0], self.saved.get("index 0"))
        else:
            self.forward_steps(x[0], y[0])
        if self.rescales:
            self._scale(y[0], self._factors, y[0])
        if len(y) == 2:
            self.dev.assign(self.saved["index 0"].reshape(y[1].shape), y[1])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        above = dy[0]
        if self.rescales:
            above = self.saved["scaled"]
            self._scale(dy[0], self._factors, above)
        if self.channels_last:
            self.op.backward(above, self.saved.get("index 0"), dx[0])
        else:
            self.backward_steps(above, dx[0])


@register
class Pooling3D(WindowPooling):
    """The largest number (MAX) or the mean (AVE) of each window of frames, channel by channel.

    x (N, C, L, H, W); y (N, C, OL, OH, OW), whose sides are as in Pooling; kernel_depth, temporal_stride: along L,
    kernel_size, stride, pad along H and W; L has no pad. AVE divides by the window clipped to the padded images.
    Defaults: MAX, stride 1. Errors: STOCHASTIC, a pad for MAX, no kernel_size or kernel_depth. Source:
    facebookarchive/C3D C3D-v1.0 src/caffe/layers/pool3d_layer.cpp; of equal numbers the first gets the gradient. P3D's
    nets name kernel_depth and temporal_stride kernel_l and stride_l.
    """

    upstream = False
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
        images = sliding.window(self, 2)
        kernel, stride, pad, dilation = images
        if self.method == "MAX" and any(pad):
            raise self.error("MAX has no pad", "pad", expected="pad 0", found=f"pad {list(pad)}")
        if self.p.pad_l:
            raise self.error("has no pad along the frames", "pad_l", expected="pad_l 0", found=self.p.pad_l)
        if any(p >= k for p, k in zip(pad, kernel, strict=True)):
            raise self.error("pad must be less than the kernel", "pad", found=f"pad {list(pad)}, kernel {list(kernel)}")
        depth, step = self._along("kernel_depth", "kernel_l"), self._along("temporal_stride", "stride_l")
        self.window = Window((depth, *kernel), (step, *stride), (0, *pad), (1, *dilation))
        counts = self._frames(length, depth, step), *pooled(self, tuple(image), images)
        self.divide(shape, counts, self.window)
        return [(n, c, *counts)]

    def _along(self, *names: str) -> int:
        """A number along the frames, which C3D and P3D name differently."""
        name = next((name for name in names if self.p.HasField(name)), names[0])
        value = getattr(self.p, name)
        if not 1 <= value <= sliding.LARGEST:
            expected = f"1 to {sliding.LARGEST}"
            raise self.error(f"{name} must be at least 1", name, expected=expected, found=value)
        return value

    def _frames(self, length: int, kernel: int, stride: int) -> int:
        count = -(-(length - kernel) // stride) + 1
        if count < 1 or (count - 1) * stride >= length:
            name = "kernel_depth" if count < 1 else "temporal_stride"
            what = "its kernel does not fit" if count < 1 else "its last window is outside the frames"
            raise self.error(what, name, found=f"{length} frames", expected=f"at most {length}")
        return count

    def build(self, dev: Device) -> None:
        self.build_steps(dev)

    def forward(self, x: list, y: list) -> None:
        self.forward_steps(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.backward_steps(dy[0], dx[0])


@register_variant(lambda spec: any(step != 1 for step in spec.pooling_param.dilation))
class DilatedPooling(Layer):
    """The largest number of each window with gaps, over any number of axes: x (N, C, L, H, W, ...) → (N, C, OL, OH, OW,
    ...). Selected by a dilation other than 1.

    O = ⌈(size + 2 pad - reach) / stride⌉ + 1, reach = dilation (kernel_size - 1) + 1, less a last window that would
    start beyond the pad. Defaults: stride 1, pad 0. The host computes it. Errors: AVE, STOCHASTIC, a kernel that does
    not fit, another number of values than of axes. Source: naibaf7/caffe src/caffe/layers/pooling_layer.cpp.
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
        if named := [side for side in SIDES if getattr(p, side)]:
            raise self.error("pads by side", named[0], expected="pad, for windows with gaps")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        require.fits(self, bottoms, 0, len(shape) >= 3, "N×C×...", "has no spatial axes")
        self.kernel, self.stride, self.pad, self.dilation = sliding.window(self, len(shape) - 2)
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
