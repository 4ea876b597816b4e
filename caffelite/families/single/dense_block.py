"""DenseBlock: the layers of a dense block as one layer."""

import math
from collections.abc import Iterator

from ... import caffelite_pb2 as pb
from ...devices import Window, ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.types import Array
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, gradient_of, random_key, register

EPS = 1e-5
# fields with the only values that the fork computes with throughout
FIXED = {"pad_h": 1, "pad_w": 1, "conv_verticalStride": 1, "conv_horizentalStride": 1, "filter_H": 3, "filter_W": 3}
XHAT = "(x - u) * s"
# the blobs of a transition, in the order of caffemodels: first those of the outer one
FILTERS, SCALES, SHIFTS, MEANS, VARIANCES, INNER = range(6)


class NormalizedReLU:
    """y = max(0, a · x̂ + b), x̂ = (x - u) · s, of images (N, C, P): u and s are the moments of the batch, or stored."""

    def __init__(self, dev: Device, split: tuple[int, int, int], stored: bool, fraction: float):
        n, c, p = split
        m, value = n * p, f"({XHAT} * a + b)"
        each = ("u", "s", "a", "b")
        self.dev, self.stored = dev, stored
        self.mean, self.variance, self.count = dev.zeros(c), dev.zeros(c), dev.zeros(1)
        self.total, self.dot = dev.zeros(c), dev.zeros(c)
        self._y = dev.channel_map(Formula(f"where({value} > 0, {value}, 0 * {value})", ("x", *each)), each, *split)
        above = f"where({value} > 0, dy, 0)"
        formulas = tuple(Formula(text, ("dy", "x", *each)) for text in (above, f"{above} * {XHAT}"))
        self._sums = dev.channel_sums(formulas, each, *split)
        if stored:
            self._mean = dev.map(Formula("where(f == 0, v, v / f)", ("v",), ("f",)))
            text = "1 / sqrt(where(f == 0, v, v / f) + eps)"
            self._scale = dev.map(Formula(text, ("v",), ("f",), ("eps",)), eps=EPS)
            self._dx = dev.channel_map(Formula(f"{above} * s * a", ("dy", "x", *each)), each, *split)
            return
        self._moments = dev.batch_moments(*split, EPS, 0.0)  # running sums that keep nothing: the batch's own
        keep = Formula("old * keep + v * fraction", ("old", "v"), constants=("keep", "fraction"))
        self._keep = dev.map(keep, keep=1 - fraction, fraction=fraction)
        text, sums = f"({above} - t / m - d / m * {XHAT}) * s * a", (*each, "t", "d")
        self._dx = dev.channel_map(Formula(text, ("dy", "x", *sums), constants=("m",)), sums, *split, m=m)

    def measure(self, x: Array, moments: tuple[Array, Array], running: tuple[Array, Array], factor: Array) -> None:
        """Fills the moments u and s; a training pass changes the running ones."""
        if self.stored:
            self._mean(running[0], factor, moments[0])
            self._scale(running[1], factor, moments[1])
            return
        self._moments(x, *moments, self.mean, self.variance, self.count)
        for kept, value in zip(running, (moments[0], self.variance), strict=True):
            self._keep(kept, value, kept)

    def forward(self, x: Array, moments: tuple[Array, Array], affine: tuple[Array, Array], y: Array) -> None:
        self._y(x, *moments, *affine, y)

    def backward(self, x: Array, moments: tuple[Array, Array], affine: tuple[Array, Array], dy: Array) -> None:
        """dy becomes dx; ``total`` and ``dot`` the gradients of b and a."""
        each = (*moments, *affine)
        self._sums(dy, x, *each, (self.total, self.dot))
        self._dx(dy, x, *each, *(() if self.stored else (self.total, self.dot)), dy)


@register
class DenseBlock(Layer):
    """A dense block: y_0 = x and y_t = y_{t-1} with growthRate more channels, conv(relu(bn(y_{t-1}))), a convolution of
    3 × 3 with pad 1, for t = 1 ... numTransition. With use_BC a convolution of 1 × 1 with 4 · growthRate outputs, a bn
    and a ReLU come before that of 3 × 3. With use_dropout the new channels are dropped in TRAIN by dropout_amount.

    x (N, C, H, W) → y (N, D, H, W), D = C + numTransition · growthRate. bn: eps 1e-5, with scale
    and bias; TEST takes running moments, which each training pass makes f · its own + (1 - f) · old, f
    moving_average_fraction (0.1). Blobs, each for all t: filters, scales, biases, running means, running variances;
    with use_BC then the same of 1 × 1 and of the bn behind it; last a factor (1), by which TEST divides running
    moments unless it is 0, as in caffemodels that were trained on a CPU. gpuIdx, workspace_MB,
    BC_ultra_space_efficient and initChannel have no effect: the bottom has its channels. Errors: values of fields of
    kernels and strides other than their defaults. Source: Huang et al. 2017, as in Tongcheng/caffe,
    src/caffe/layers/DenseBlock_layer.cu.
    """

    field = "denseblock_param"
    needs_images = True
    backward_reads_bottoms = False
    divisible_axes = False

    def setup(self) -> None:
        p = self.p
        for name, value in FIXED.items():
            if getattr(p, name) != value:
                raise self.error(f"{name} is not supported", name, expected=value, found=getattr(p, name))
        require.positive(self, "numTransition", "growthRate")
        require.value(self, "dropout_amount", 0 <= p.dropout_amount < 1, "0 to 1, less than 1")
        require.shares(self, "moving_average_fraction")
        self.training = self.phase == pb.TRAIN
        self.couples_samples = self.training
        self.drops = self.training and p.use_dropout and p.dropout_amount > 0

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        p, (n, channels, h, w) = self.p, bottoms[0]
        steps, g = p.numTransition, p.growthRate
        self.n, self.h, self.w = n, h, w
        self.widths = [channels + t * g for t in range(steps + 1)]
        self.inner = 4 * g if p.use_BC else 0
        self._add_params(self.widths[:-1], [(g, self.inner or c, 3, 3) for c in self.widths[:-1]])
        if self.inner:
            self._add_params([self.inner] * steps, [(self.inner, c, 1, 1) for c in self.widths[:-1]])
        self.add_param((1,), pb.FillerParameter(), statistic=True, ignores_rate=True)
        for t, c in enumerate(self.widths[:-1]):
            self.saved_shapes |= {f"mean{t}": ((c,), None), f"scale{t}": ((c,), None)}
            if self.inner:
                each = (self.inner,), None
                inner = (n, self.inner, h, w), None
                self.saved_shapes |= {f"inner mean{t}": each, f"inner scale{t}": each, f"inner{t}": inner}
            if self.drops:
                self.saved_shapes[f"mask{t}"] = ((n, g, h, w), "uint8")
        return [(n, self.widths[-1], h, w)]

    def _add_params(self, widths: list[int], filters: list[Shape]) -> None:
        """Filters, scales, biases, means and variances, each of all transitions."""
        p, statistic = self.p, {"statistic": True, "ignores_rate": True}
        for shape in filters:
            self.add_param(shape, p.Filter_Filler, "Filter_Filler")
        for name in ("BN_Scaler_Filler", "BN_Bias_Filler"):
            for c in widths:
                self.add_param((1, c, 1, 1), getattr(p, name), name)
        for value in (0.0, 1.0):
            for c in widths:
                filler = pb.FillerParameter(type="constant", value=value)
                self.add_param((1, c, 1, 1), filler, **statistic)

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        g, inner = self.p.growthRate, self.inner
        each = sum(9 * g * (inner or c) + inner * c for c in self.widths[:-1])
        return self.n * self.h * self.w * each

    def build(self, dev: Device) -> None:
        p, n, size = self.p, self.n, (self.h, self.w)
        pixels, g, widest = math.prod(size), self.p.growthRate, self.widths[-2]
        rest = {"stored": not self.training, "fraction": p.moving_average_fraction}
        self.norms = [NormalizedReLU(dev, (n, c, pixels), **rest) for c in self.widths[:-1]]
        self.inner_norms = [NormalizedReLU(dev, (n, self.inner, pixels), **rest)] if self.inner else []
        wide, square, point = (n, g, *size), Window((3, 3), pad=(1, 1)), Window((1, 1))
        self.convolutions = []
        for c in self.widths[:-1]:
            x, inner = (n, c, *size), (n, self.inner, *size)
            outer = dev.build(ops.Convolution(inner if self.inner else x, wide, square, name=self.name))
            reducing = ops.Convolution(x, inner, point, name=self.name)
            self.convolutions.append((outer, dev.build(reducing) if self.inner else None))
        self._channels, self._active = (dev.empty(n * widest * pixels) for _ in range(2))
        self._new = dev.empty(wide)
        if self.inner:
            self._hidden = dev.empty((n, self.inner, *size))
        self._gradients: tuple[Array, ...] = ()
        if self.training:
            self._make_gradients()
        if self.drops:
            key, d = random_key(self), g * pixels
            drawn = (ops.Dropout(n, d, p.dropout_amount, key ^ t, self.context) for t in range(p.numTransition))
            self._dropouts = [dev.build(op) for op in drawn]

    def _make_gradients(self) -> None:
        """Work space for the gradients of the top, of a transition's bottom, and of its inner images."""
        sizes = self.widths[-1], self.widths[-2], self.inner
        self._gradients = tuple(self.dev.empty(self.n * c * self.h * self.w) for c in sizes)

    def _images(self, flat: Array, channels: int) -> Array:
        """Images in the memory of ``flat``."""
        shape = self.n, channels, self.h, self.w
        return flat[: math.prod(shape)].reshape(shape)

    def _steps(self, y: Array) -> Iterator[tuple[int, Array, Array, Array, int]]:
        """For each transition its number, its bottom and what its ReLU makes of it, both as work space, y as rows, and
        where in these the new channels are."""
        rows, pixels = y.reshape(self.n, -1), self.h * self.w
        for t, c in enumerate(self.widths[:-1]):
            yield t, self._images(self._channels, c), self._images(self._active, c), rows, c * pixels

    def _index(self, kind: int, t: int, inner: bool = False) -> int:
        """Of a parameter blob."""
        return ((INNER if inner else 0) + kind) * self.p.numTransition + t

    def _data(self, kind: int, t: int, inner: bool = False) -> Array:
        data = self.params[self._index(kind, t, inner)].data
        return data if kind == FILTERS else data.reshape(-1)

    def _normalize(self, t: int, x: Array, y: Array, inner: bool, measure: bool) -> None:
        norm, name = (self.inner_norms[0], "inner ") if inner else (self.norms[t], "")
        moments = self.saved[f"{name}mean{t}"], self.saved[f"{name}scale{t}"]
        if measure:
            running = self._data(MEANS, t, inner), self._data(VARIANCES, t, inner)
            norm.measure(x, moments, running, self.params[-1].data)
        norm.forward(x, moments, (self._data(SCALES, t, inner), self._data(SHIFTS, t, inner)), y)

    def forward(self, x: list, y: list) -> None:
        dev = self.dev
        dev.copy_into(x[0].reshape(self.n, -1), y[0].reshape(self.n, -1), 0)
        for t, bottom, active, rows, start in self._steps(y[0]):
            dev.copy_out(rows, 0, bottom.reshape(self.n, -1))
            self._normalize(t, bottom, active, inner=False, measure=True)
            outer, first = self.convolutions[t]
            if first:
                inner = self.saved[f"inner{t}"]
                first.forward(active, self._data(FILTERS, t, True), None, inner)
                self._normalize(t, inner, self._hidden, inner=True, measure=True)
                active = self._hidden
            outer.forward(active, self._data(FILTERS, t), None, self._new)
            if self.drops:
                self._dropouts[t].forward(self._new, self.saved[f"mask{t}"], self._new)
            dev.copy_into(self._new.reshape(self.n, -1), rows, start)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        dev = self.dev
        if not self._gradients:  # of a net in TEST
            self._make_gradients()
        above, slopes, hidden = self._gradients
        dev.copy(dy[0].reshape(-1), above)
        above = above.reshape(self.n, -1)
        for t, bottom, active, rows, start in reversed(list(self._steps(y[0]))):
            dnew = self._new
            dev.copy_out(above, start, dnew.reshape(self.n, -1))
            if self.drops:
                self._dropouts[t].backward(self.saved[f"mask{t}"], dnew, dnew)
            dev.copy_out(rows, 0, bottom.reshape(self.n, -1))
            self._normalize(t, bottom, active, inner=False, measure=False)
            slope = self._images(slopes, self.widths[t])
            outer, first = self.convolutions[t]
            if first:
                inner = self.saved[f"inner{t}"]
                self._normalize(t, inner, self._hidden, inner=True, measure=False)
                dinner = hidden.reshape(inner.shape)
                self._convolve_back(outer, self._hidden, dnew, dinner, t, False)
                self._normalize_back(t, inner, dinner, True)
                self._convolve_back(first, active, dinner, slope, t, True)
            else:
                self._convolve_back(outer, active, dnew, slope, t, False)
            self._normalize_back(t, bottom, slope, False)
            dev.add(slope.reshape(self.n, -1), above[:, :start])
        if dx[0] is not None:
            dev.copy_out(above, 0, dx[0].reshape(self.n, -1))

    def _convolve_back(self, operation, x: Array, dy: Array, dx: Array, t: int, inner: bool) -> None:
        index = self._index(FILTERS, t, inner)
        dw, add = gradient_of(self, index)
        operation.backward(x, self.params[index].data, dy, dx, dw, None, add)

    def _normalize_back(self, t: int, x: Array, dy: Array, inner: bool) -> None:
        """dy becomes dx."""
        norm, name = (self.inner_norms[0], "inner ") if inner else (self.norms[t], "")
        moments = self.saved[f"{name}mean{t}"], self.saved[f"{name}scale{t}"]
        norm.backward(x, moments, (self._data(SCALES, t, inner), self._data(SHIFTS, t, inner)), dy)
        for kind, found in ((SCALES, norm.dot), (SHIFTS, norm.total)):
            gradient, add = gradient_of(self, self._index(kind, t, inner))
            if gradient is not None:
                (self.dev.add if add else self.dev.copy)(found, gradient.reshape(-1))
