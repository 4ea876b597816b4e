"""Convolution and Deconvolution, also with constant weights."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import ops
from ..devices.formula import Formula
from ..devices.protocol import Device
from ..devices.traits import DeviceTraits
from .activation import PReLU
from .base import require, sliding
from .base.division import OutputDivision
from .base.facets import Coordinates, Described
from .base.fusing import FusingProduct
from .base.image_layout import ImageLayout
from .base.layer import Layer, Shape, gradient_of, register
from .batch_norm import BatchNorm
from .scale_bias import Scale

ALGORITHMS = {
    pb.ConvolutionParameter.FASTEST: None,
    pb.ConvolutionParameter.DIRECT: "direct",
    pb.ConvolutionParameter.WINOGRAD_2: "winograd2",
    pb.ConvolutionParameter.WINOGRAD_4: "winograd4",
}


class Kernels(ImageLayout, OutputDivision):
    """A layer of learned kernels over x (N..., C, spatial...), channels at ``axis`` (default 1); any number of bottoms
    share them."""

    field = "convolution_param"
    converted = sliding.CONVERTED
    bottoms, tops = (1, None), (1, None)
    needs_images = True

    def setup(self) -> None:
        require.positive(self, "num_output", meaning="the number of kernels")
        if len(self.spec.bottom) != len(self.spec.top):
            what = f"has {len(self.spec.top)} tops for {len(self.spec.bottom)} bottoms"
            raise self.error(what, expected="as many tops as bottoms")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        first, m, group = bottoms[0], self.p.num_output, self.p.group
        for i, shape in enumerate(bottoms):
            require.fits(self, bottoms, i, shape == first, list(first), "differs from the first")
        axis = self.channels_axis = spatial_axis(self, first, 0)
        self.couples_samples = axis == 0
        c, spatial = first[axis], first[axis + 1 :]
        self.window = sliding.window(self, len(spatial)) if spatial else sliding.point(self)
        for what, count in (("input channels", c), ("num_output", m)):
            if group < 1 or count % group:
                raise self.error(f"group {group} does not divide the {count} {what}", "group")
        out = self.sizes(spatial or (1,))
        kernel = self.window.kernel if spatial else ()
        self.add_param((*self.channels(c, m, group), *kernel), self.p.weight_filler, "weight_filler")
        if self.p.bias_term:
            self.add_param((m,), self.p.bias_filler, "bias_filler")
        n = math.prod(first[:axis])
        self.x_shape, self.y_shape = (n, c, *(spatial or (1,))), (n, m, *out)
        self.reads_images = len(first) == 4 and axis == 1
        return [(*first[:axis], m, *out[: len(spatial)])] * len(bottoms)

    def sizes(self, spatial: Shape) -> Shape:
        """The output's spatial shape."""
        raise NotImplementedError

    def channels(self, c: int, m: int, group: int) -> Shape:
        """The weights' first two axes."""
        raise NotImplementedError

    def output_part(self, count: int) -> pb.LayerParameter:
        """Of several groups, the part has its own."""
        message = super().output_part(count)
        group = self.p.group
        if group % count and group > 1:
            remedy = "or leave it out of the divided layers: placement { shards: 1 }"
            what = f"{count} devices cannot divide its groups"
            raise self.error(what, "group", expected=f"1, or a multiple of {count}", found=group, remedy=remedy)
        if group > 1:
            message.convolution_param.group = group // count
        return message

    def input_part_axis(self, count: int) -> int | None:
        return self.channels_axis if self.p.group > 1 else None


def spatial_axis(layer: Layer, shape: Shape, least: int = 1) -> int:
    """The channels' axis, absolute; ``least`` spatial axes or more follow it."""
    axis = layer.axis(layer.p.axis, len(shape)) if layer.p.axis < len(shape) else len(shape)
    if axis + 1 + least > len(shape):
        what = "has no spatial axes" if axis < len(shape) else f"has no axis {axis}"
        expected = f"N×C×H×W, with channels at axis {layer.p.axis}"
        raise layer.bottom_error(0, what, expected=expected, found=f"shape {list(shape)}")
    return axis


@register
@Described(purpose="filters that find the same pattern anywhere in the image")
@Coordinates("window")
class Convolution(FusingProduct, Kernels):
    """y[n, m] = Σ_c w[m, c] * x[n, c] + b[m]: correlation with learned kernels, over any number of spatial axes.

    x (N, C, H, W); w (M, C/group, kh, kw), b (M); y (N, M, OH, OW) with OH = ⌊(H + 2·pad - (dilation·(kh - 1) + 1)) /
    stride⌋ + 1. Where channels are the last axis, w (M, C/group) and kernel_size is ignored. Defaults: axis 1, stride
    1, pad 0, dilation 1, group 1, bias_term true. Errors: channels that group does not divide, a kernel larger than the
    padded image. As in Caffe.
    """

    makes_weights = False  # in each forward pass, so that they cannot be converted before it

    def sizes(self, spatial: Shape) -> Shape:
        return sliding.whole_windows(self, spatial, self.window)

    def channels(self, c: int, m: int, group: int) -> Shape:
        return m, c // group

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return sum(map(math.prod, tops)) * math.prod(self.param_blobs[0].shape[1:])

    def prefers_channels_last(self, traits: DeviceTraits) -> bool:
        return traits.channels_last and self.reads_images

    def can_fuse_relu(self) -> bool:
        return len(self.x_shape) < 5

    def can_fuse_pooling(self) -> bool:
        plain = self.slope is None and self.reads_images and not self.channels_last and self.config.format.dtype is None
        small = ops.small_images(self.x_shape, self.param_blobs[0].shape, self.y_shape)
        return self.config.traits.fuses_pooling and plain and small

    def takes_slices(self) -> bool:
        """Whether its tops, and their gradients, may be slices of wider rows."""
        return self.channels_last and self.config.traits.takes_slices

    def build(self, dev: Device) -> None:
        split = self.stored_split((*self.y_shape[:2], math.prod(self.y_shape[2:])))
        self._bias = self.params[1].data if self.p.bias_term else None
        self._relu_backward = self.build_relu_backward(dev, *split)
        self.op: Any
        if self.channels_last:
            self.op = dev.build(self.channels_last_operation())
        elif self.pools:
            (pooling,) = self.fused_layers
            operation = ops.Convolution(self.x_shape, self.y_shape, self.window, self.p.group, name=self.name)
            self.op = dev.build(ops.PooledConvolution(operation, pooling.planes_operation()))
        else:
            self.op = sliding.convolution(dev, self.x_shape, self.y_shape, self.window, self.p.group, self.name)

    def channels_last_operation(self) -> ops.Convolution:
        return ops.Convolution(
            self.x_shape,
            self.y_shape,
            self.window,
            self.p.group,
            channels_last=True,
            half=self.config.format.dtype is not None,
            name=self.name,
            algorithm=ALGORITHMS[self.p.algorithm],
            context=None if self.makes_weights else self.context,
        )

    def weights(self):
        """The weights that the passes compute with."""
        return self.params[0].data

    def forward(self, x: list, y: list) -> None:
        """y: the tops, or that of a fused pooling, then the one that it pools."""
        if self.pools:
            (pooling,), (pooled, whole) = self.fused_layers, y
            index = pooling.saved["index 0"]
            self.op.forward_pooled(x[0], self.weights(), self._bias, whole, pooled, index)
            return
        for bottom, top in zip(x, y, strict=True):
            self.op.forward(bottom, self.weights(), self._bias, top, self.slope)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add_w), (db, add_b) = gradient_of(self, 0), gradient_of(self, 1)
        for i, top in enumerate(dy):
            if top is not None:
                if self._relu_backward:
                    self._relu_backward(y[i], top, db, add_b)
                self.op.backward(
                    x[i], self.weights(), top, dx[i], dw, None if self._relu_backward else db, add_w, add_b
                )
                add_w = add_b = True
            elif dx[i] is not None:
                self.dev.fill(dx[i], 0)


@register
@Coordinates("spread")
class Deconvolution(Kernels):
    """Transposed convolution: y is the bottom's gradient of a Convolution with these kernels, plus b.

    x (N, C, H, W); w (C, M/group, kh, kw), b (M); y (N, M, OH, OW) with OH = stride·(H - 1) + dilation·(kh - 1) + 1 -
    2·pad. Any number of spatial axes; defaults as Convolution's. Errors: channels that group does not divide, a pad
    that leaves nothing. As in Caffe.
    """

    backward_reads_tops = False

    def sizes(self, spatial: Shape) -> Shape:
        k = self.window
        out = tuple(
            s * (size - 1) + far - 2 * pad
            for s, size, far, pad in zip(k.stride, spatial, sliding.reach(k), k.pad, strict=True)
        )
        if min(out) < 1:
            what = "its pad leaves nothing of the output"
            raise self.error(what, "pad", found=f"pad {list(k.pad)}, output {list(out)}")
        sliding.check_padded(self, out, k.pad)
        return out

    def channels(self, c: int, m: int, group: int) -> Shape:
        return c, m // group

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return sum(map(math.prod, bottoms)) * math.prod(self.param_blobs[0].shape[1:])

    def build(self, dev: Device) -> None:
        self.op = sliding.convolution(dev, self.y_shape, self.x_shape, self.window, self.p.group, self.name)
        split = *self.y_shape[:2], math.prod(self.y_shape[2:])
        self._bias = dev.channel_map(Formula("y + b", ("y", "b")), ("b",), *split)
        self._db = dev.channel_sum(Formula("dy", ("dy",)), (), *split)

    def forward(self, x: list, y: list) -> None:
        for bottom, top in zip(x, y, strict=True):
            self.op.backward(top, self.params[0].data, bottom, top, None, None)
            if self.p.bias_term:
                self._bias(top, self.params[1].data, top)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add_w), (db, add_b) = gradient_of(self, 0), gradient_of(self, 1)
        w = self.params[0].data
        for i, top in enumerate(dy):
            if top is None:
                if dx[i] is not None:
                    self.dev.fill(dx[i], 0)
                continue
            if dw is not None:
                self.op.backward(top, w, x[i], None, dw, None, add_w)
            if db is not None:
                self._db(top, db, add=add_b)
            if dx[i] is not None:
                self.op.forward(top, w, None, dx[i], None)
            add_w = add_b = True


class PreparedConvolution(Convolution):
    """What net/fusion.py puts in the place of a Convolution, on devices that ``prepares_convolutions``. ``folded``:
    layers behind it that its weights do the work of; ``stale``: weights have changed since they were packed."""

    folded: tuple[Layer, ...] = ()
    stale = True

    @classmethod
    def of(cls, layer: Convolution) -> PreparedConvolution:
        prepared = cls.__new__(cls)
        vars(prepared).update(vars(layer))
        return prepared

    @staticmethod
    def fits(layer: Convolution) -> bool:
        """Whether a convolution can be prepared."""
        return layer.channels_last and len(layer.spec.bottom) == 1 and not layer.makes_weights

    def can_fold(self, layer: BatchNorm | Scale | PReLU) -> bool:
        by_channel = layer.split[:2] == self.y_shape[:2] and len(layer.spec.bottom) == 1
        return by_channel and (not isinstance(layer, BatchNorm) or layer.stored)

    def build(self, dev: Device) -> None:
        self.stale = True
        self.operation: Any = dev.build(ops.PreparedConvolution(self.channels_last_operation()))

    def prepare(self) -> None:
        """Packs the weights, with the folded layers in them."""
        m = self.p.num_output
        w, b = self.params[0].data, self.params[1].data if self.p.bias_term else np.zeros(m)
        slopes = np.full(m, 1 if self.slope is None else self.slope, np.float32)
        arrays = iter([param.data for param in self.fused_params])
        for layer in self.folded:
            params = [*itertools.islice(arrays, len(layer.param_blobs))]
            if isinstance(layer, BatchNorm | Scale):
                scale, shift = layer.channel_affine(params)
                w, b = w * scale.reshape(-1, 1, 1, 1), b * scale + shift
            else:
                slopes = np.ascontiguousarray(np.broadcast_to(params[0], m), np.float32)
        self.operation.prepare(np.ascontiguousarray(w, np.float32), np.ascontiguousarray(b, np.float32), slopes)
        self.stale = False

    def inference_operation(self) -> object | None:
        return self.operation

    def forward(self, x: list, y: list) -> None:
        if self.stale:
            self.prepare()
        self.operation.run(x[0], y[0])
