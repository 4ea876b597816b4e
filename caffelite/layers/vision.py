"""Layers over images: convolution and pooling, (N, C, H, W)."""

from __future__ import annotations

from .. import caffelite_pb2 as pb
from ..devices import Window
from .layer import Layer, Shape, register


def pair(layer: Layer, name: str, default: int, stem: str | None = None) -> tuple[int, int]:
    """(vertical, horizontal) from ``name`` (none, one or two values) or from ``stem_h`` and ``stem_w``, as Caffe allows."""
    p, stem = layer.p, stem or name
    value = getattr(p, name)
    both = ([value] if p.HasField(name) else []) if isinstance(value, int) else list(value)
    high, wide = f"{stem}_h", f"{stem}_w"
    if high in p.DESCRIPTOR.fields_by_name and (p.HasField(high) or p.HasField(wide)):
        if both:
            raise layer.error(f"gives {name} and {high}/{wide}", name, remedy="keep one of the two")
        return getattr(p, high), getattr(p, wide)
    if len(both) > 2:
        raise layer.error(f"has {len(both)} values of {name}", name, 2, expected="one, or one for each of the 2 spatial axes")
    return tuple((both or [default]) * 2)[:2]


def window(layer: Layer, shape: Shape) -> Window:
    """Kernel, stride, pad and dilation of a Convolution or Pooling over a bottom (N, C, H, W), checked."""
    p = layer.p
    if layer.spec.type == "Pooling" and p.global_pooling:
        if p.HasField("kernel_size") or p.HasField("kernel_h") or p.HasField("kernel_w"):
            raise layer.error("global_pooling takes its kernel from the bottom", "global_pooling", remedy="drop kernel_size")
        kernel = (shape[2], shape[3])
    else:
        kernel = pair(layer, "kernel_size", 0, "kernel")
    dilation = pair(layer, "dilation", 1) if "dilation" in p.DESCRIPTOR.fields_by_name else (1, 1)
    found = Window(kernel, pair(layer, "stride", 1), pair(layer, "pad", 0), dilation)
    for name, values, least in (("kernel_size", found.kernel, 1), ("stride", found.stride, 1), ("dilation", found.dilation, 1)):
        if min(values) < least:
            raise layer.error(f"{name} must be at least 1", name, found=min(values) if any(values) or name != "kernel_size" else "none")
    return found


@register
class Convolution(Layer):
    """y[n, m] = Σ_c w[m, c] * x[n, c] + b[m]: correlation with learned kernels.

    x (N, C, H, W); w (M, C/group, kh, kw), b (M); y (N, M, OH, OW) with OH = ⌊(H + 2·pad - (dilation·(kh - 1) + 1)) / stride⌋ + 1.
    Defaults: stride 1, pad 0, dilation 1, group 1, bias_term true. Errors: channels that group does not divide, a kernel larger than the
    padded image. As in Caffe.
    """

    field = "convolution_param"
    bottoms, tops = (1, None), (1, None)
    absorbs_relu = True

    def setup(self) -> None:
        if not self.p.num_output:
            raise self.error("num_output must be positive", "num_output", remedy="set num_output, the number of kernels")
        if len(self.spec.bottom) != len(self.spec.top):
            raise self.error(f"has {len(self.spec.top)} tops for {len(self.spec.bottom)} bottoms", expected="as many tops as bottoms")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, h, w = self._images(bottoms)
        self.window = k = window(self, bottoms[0])
        m, group = self.p.num_output, self.p.group
        for what, count in (("input channels", c), ("num_output", m)):
            if group < 1 or count % group:
                raise self.error(f"group {group} does not divide the {count} {what}", "group")
        out = [
            (size + 2 * pad - (d * (kernel - 1) + 1)) // stride + 1
            for size, kernel, stride, pad, d in zip((h, w), k.kernel, k.stride, k.pad, k.dilation, strict=True)
        ]
        if min(out) < 1:
            raise self.error(
                f"its kernel {list(k.kernel)} does not fit", "kernel_size", found=f"an image of {h}×{w} with pad {list(k.pad)}"
            )
        self.add_param((m, c // group, *k.kernel), self.p.weight_filler, "weight_filler")
        if self.p.bias_term:
            self.add_param((m,), self.p.bias_filler, "bias_filler")
        self.x_shape, self.y_shape = bottoms[0], (n, m, *out)
        return [self.y_shape] * len(bottoms)

    def _images(self, bottoms: list[Shape]) -> Shape:
        for i, shape in enumerate(bottoms):
            if len(shape) != 4 or self.axis(self.p.axis, 4) != 1:
                raise self.bottom_error(i, "is no batch of images", expected="4 axes N×C×H×W, axis 1", found=f"shape {list(shape)}")
            if shape != bottoms[0]:
                raise self.bottom_error(i, "differs from the first", expected=list(bottoms[0]), found=list(shape))
        return bottoms[0]

    def backward_reads_top(self, index: int) -> bool:
        return False

    def build(self, dev) -> None:
        self.op = dev.convolution(self.x_shape, self.y_shape, self.window, self.p.group)

    def forward(self, x: list, y: list) -> None:
        bias = self.params[1].data if self.p.bias_term else None
        for bottom, top in zip(x, y, strict=True):
            self.op.forward(bottom, self.params[0].data, bias, top, self.slope)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        (dw, add_w), (db, add_b) = self._param_args(0), self._param_args(1)
        for i, top in enumerate(dy):
            if top is not None:
                self.op.backward(x[i], self.params[0].data, top, dx[i], dw, db, add_w, add_b)
                add_w = add_b = True
            elif dx[i] is not None:
                self.dev.fill(dx[i], 0)


@register
class Pooling(Layer):
    """The largest (MAX) or the mean (AVE) of each window, channel by channel.

    x (N, C, H, W); y (N, C, OH, OW) with OH = ⌈(H + 2·pad - kernel) / stride⌉ + 1 (round_mode FLOOR: ⌊⌋), less a last window that
    would start beyond the image and its left pad. AVE divides by the window clipped to the padded image. global_pooling: one window, the
    image. Defaults: MAX, stride 1, pad 0. Errors: a kernel larger than the padded image, a pad as large as the kernel. As in Caffe.
    """

    field = "pooling_param"

    def setup(self) -> None:
        if self.p.pool == pb.PoolingParameter.STOCHASTIC:
            raise self.error("stochastic pooling is not built yet", "pool", expected="MAX or AVE", found="STOCHASTIC")
        if self.p.global_pooling and (pair(self, "stride", 1) != (1, 1) or pair(self, "pad", 0) != (0, 0)):
            raise self.error("global_pooling has one window", "global_pooling", expected="stride 1 and pad 0")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if len(bottoms[0]) != 4:
            raise self.bottom_error(0, "is no batch of images", expected="4 axes N×C×H×W", found=f"shape {list(bottoms[0])}")
        self.window = k = window(self, bottoms[0])
        if any(pad >= kernel for pad, kernel in zip(k.pad, k.kernel, strict=True)):
            raise self.error("pad must be less than the kernel", "pad", found=f"pad {list(k.pad)}, kernel {list(k.kernel)}")
        ceil = self.p.round_mode == pb.PoolingParameter.CEIL
        out = []
        for size, kernel, stride, pad in zip(bottoms[0][2:], k.kernel, k.stride, k.pad, strict=True):
            room = size + 2 * pad - kernel
            if room < 0:
                raise self.error(
                    f"its kernel {list(k.kernel)} does not fit", "kernel_size", found=f"an image of {bottoms[0][2]}×{bottoms[0][3]}"
                )
            count = (-(-room // stride) if ceil else room // stride) + 1
            count -= any(k.pad) and (count - 1) * stride >= size + pad
            if (count - 1) * stride >= size + pad:
                raise self.error(
                    "its last window lies beyond the image",
                    "stride",
                    found=f"stride {stride}",
                    remedy="use round_mode: FLOOR, or a smaller stride",
                )
            out.append(count)
        self.x_shape, self.y_shape = bottoms[0], (*bottoms[0][:2], *out)
        self.maximum = self.p.pool == pb.PoolingParameter.MAX
        if self.maximum:
            self.saved_shapes["index"] = (self.y_shape, "int32")
        return [self.y_shape]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        self.op = dev.pooling("MAX" if self.maximum else "AVE", self.x_shape, self.y_shape, self.window)

    def forward(self, x: list, y: list) -> None:
        self.op.forward(x[0], y[0], self.saved.get("index"))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self.op.backward(dy[0], self.saved.get("index"), dx[0])
