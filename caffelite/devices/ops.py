"""The operations of devices. Each is data; ``Device.build`` makes what runs it, whose interface stands before it.

What is built has fixed shapes and runs on the arrays that it receives. Arrays are contiguous unless a docstring says
otherwise. A gradient that is None is not computed. ``bad`` (int64, one element) is 0, or 1 + the position of the first
number that names nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from .context import ExecutionContext
from .types import Array, Shape
from .window import Window

T = TypeVar("T", covariant=True)


class Operation(Generic[T]):
    """T: the interface of what a device builds from it."""


class OptionalOperation(Operation[T | None], Generic[T]):
    """An operation that a device may have no kernels for: ``build`` then returns None, and layers do without."""


# products and convolutions


class Weighted(Protocol):
    """What has weights."""

    def backward(
        self,
        x: Array,
        w: Array,
        dy: Array,
        dx: Array | None,
        dw: Array | None,
        db: Array | None,
        add_w: bool = False,
        add_b: bool = False,
    ) -> None:
        """add_w, add_b: add to dw, db instead of overwriting them."""


class BuiltInnerProduct(Weighted, Protocol):
    def forward(
        self, x: Array, w: Array, b: Array | None, y: Array, slope: float | None = None, rounded_x: Array | None = None
    ) -> None:
        """slope: negative slope of the fused leaky ReLU, None for no ReLU. rounded_x (M, K): receives x rounded to 16
        bits where the operation is ``half``; backward takes it for x."""


@dataclass(frozen=True, eq=False, repr=False)
class InnerProduct(Operation[BuiltInnerProduct]):
    """y (M, N) = x (M, K) wᵀ + b (N), w (N, K), or (K, N) with ``transpose``.

    half: multiplies 16-bit numbers and sums in float32; arrays but for ``rounded_x`` are of float32 still.
    """

    m: int
    k: int
    n: int
    transpose: bool = False
    half: bool = False


class BuiltConvolution(Weighted, Protocol):
    def forward(self, x: Array, w: Array, b: Array | None, y: Array, slope: float | None = None) -> None:
        """slope: negative slope of the fused leaky ReLU, None for no ReLU."""


@dataclass(frozen=True, eq=False, repr=False)
class Convolution(Operation[BuiltConvolution]):
    """y (N, M, OH, OW) = w (M, C/groups, kh, kw) * x (N, C, H, W) + b (M).

    x, y: shapes as N×C×H×W. channels_last: both are stored as (N, H, W, C). half: x, y and their gradients are of
    16-bit numbers, with products summed in float32. name: of the layer, for errors. algorithm: one of algorithms.py,
    for a CPU; None for the fastest. context: of the net, whose forward passes are within ``context.forward_pass()``;
    None where these make the weights.
    """

    x: Shape
    y: Shape
    window: Window
    groups: int = 1
    channels_last: bool = False
    half: bool = False
    name: str = ""
    algorithm: str | None = None
    context: ExecutionContext | None = None


class BuiltPreparedConvolution(Protocol):
    def prepare(self, w: Array, b: Array, slopes: Array) -> None:
        """w (M, C/groups, kh, kw), b (M), slopes (M), of float32: they must stay as they are until the next call."""

    def run(self, x: Array, y: Array) -> None:
        """y = w * x + b; what is not positive is multiplied by its channel's slope."""


@dataclass(frozen=True, eq=False, repr=False)
class PreparedConvolution(OptionalOperation[BuiltPreparedConvolution]):
    """A channels_last convolution whose weights seldom change, where traits say ``prepares_convolutions``."""

    convolution: Convolution


# windows


class BuiltPooling(Protocol):
    def forward(self, x: Array, y: Array, indices: Array | None) -> None:
        """indices (like y): receives the position of each maximum, or of what was drawn; None where the method has
        none."""

    def backward(self, dy: Array, indices: Array | None, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Pooling(Operation[BuiltPooling]):
    """x (N, C, H, W) → y (N, C, OH, OW), or with ``channels_last`` both stored as (N, H, W, C).

    method: "MAX", "AVE" or, not channels_last, "STOCHASTIC". x, y: shapes as N×C×H×W. half: of 16-bit numbers. indices
    are int32, with channels_last uint8 or int32. STOCHASTIC with a context chooses a pixel with probability x / Σx,
    keyed like Dropout's mask; without one it computes the expectation Σx² / Σx, which has no backward (Zeiler and
    Fergus 2013).
    """

    method: str
    x: Shape
    y: Shape
    window: Window
    channels_last: bool = False
    half: bool = False
    layer_key: int = 0
    context: ExecutionContext | None = None


class BuiltPooledConvolution(BuiltConvolution, Protocol):
    def forward_pooled(self, x: Array, w: Array, b: Array | None, y: Array, pooled: Array, indices: Array) -> None:
        """y as of the convolution without ReLU, pooled and indices as of the pooling."""


@dataclass(frozen=True, eq=False, repr=False)
class PooledConvolution(OptionalOperation[BuiltPooledConvolution]):
    """A convolution of ``small_images`` and the maxima of its top in windows that cover it and do not overlap, by one
    kernel or by two."""

    convolution: Convolution
    pooling: Pooling


SMALL_IMAGE = 1 << 10  # pixels of small images
SMALL_WORK = 1 << 28  # multiply-adds of a pass over a batch of them


def small_images(x: Shape, w: Shape, y: Shape) -> bool:
    """Whether a convolution is so small that a kernel of its own may compute it in less time than a library that is
    made for large ones. Shapes: as of Convolution."""
    pixels = max(math.prod(shape[2:]) for shape in (x, y))
    return pixels <= SMALL_IMAGE and math.prod(y) * math.prod(w[1:]) <= SMALL_WORK


class BuiltLRN(Protocol):
    def forward(self, x: Array, scale: Array, y: Array) -> None:
        """scale: like x, saved for backward, never of 16 bits; y must not overlap x."""

    def backward(self, x: Array, y: Array, scale: Array, dy: Array, dx: Array) -> None:
        """dx must not overlap the other arrays."""


@dataclass(frozen=True, eq=False, repr=False)
class LRN(Operation[BuiltLRN]):
    """y = x · scale^-beta, scale = k + alpha / size · Σ x² over ``size`` neighboring channels of x (N, C, P)
    (Krizhevsky et al. 2012)."""

    n: int
    c: int
    p: int
    size: int
    alpha: float
    beta: float
    k: float


class BuiltIm2col(Protocol):
    def forward(self, x: Array, columns: Array) -> None: ...

    def backward(self, dcolumns: Array, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Im2col(Operation[BuiltIm2col]):
    """x (N, C, H, W) → columns (N, C·kh·kw, OH, OW): the pixels of each window, 0 outside the image."""

    x: Shape
    window: Window


# sizes of images


class BuiltCorrelation(Protocol):
    def forward(self, a: Array, b: Array, y: Array) -> None: ...

    def backward(self, a: Array, b: Array, dy: Array, da: Array | None, db: Array | None) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Correlation(OptionalOperation[BuiltCorrelation]):
    """y (N, S, OH, OW): for each of S ``shifts`` (rows, columns) Σ a · b / (kernel² C), or Σ |a - b| / (kernel² C) with
    ``subtract``, over patches of a (N, C, H, W) and the shifted ones of b. Images are 0 outside.

    first: row and column of the first pixel of the first patch; stride: between patches.
    """

    x: Shape
    y: Shape
    kernel: int
    first: tuple[int, int]
    stride: int
    shifts: tuple[tuple[int, ...], ...]
    subtract: bool


class BuiltInterpolation(Protocol):
    def forward(self, x: Array, y: Array) -> None: ...

    def backward(self, dy: Array, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Interpolation(Operation[BuiltInterpolation]):
    """y (N, C, OH, OW) = a part of each image of x (N, C, H, W), bilinear; their corners coincide.

    x, y: shapes as N×C×H×W. start, size: of the part, by rows and columns.
    """

    x: Shape
    y: Shape
    start: Shape
    size: Shape


class BuiltUnpooling(Protocol):
    bad: Array

    def forward(self, x: Array, indices: Array, y: Array) -> None: ...

    def backward(self, dy: Array, indices: Array, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Unpooling(Operation[BuiltUnpooling]):
    """y (planes, Q) = 0, but for x (planes, P) at ``indices`` (planes, P), the last of equal ones. An index outside of
    0 to Q - 1 is bad: its number is left out, and gets no gradient."""

    planes: int
    p: int
    q: int


# selection and distances


class BuiltTake(Protocol):
    bad: Array

    def forward(self, table: Array, indices: Array, out: Array) -> None: ...

    def backward(self, indices: Array, dout: Array, dtable: Array, add: bool = False) -> None:
        """dtable: the sums of the rows of dout, in their order. add: add to it instead of overwriting it."""


@dataclass(frozen=True, eq=False, repr=False)
class Take(Operation[BuiltTake]):
    """out[i] = table[indices[i]]: table (rows, width), indices (count) in the device's dtype, out (count, width). An
    index that names no row is bad: its row of out is 0, and gives no gradient."""

    rows: int
    width: int
    count: int


class BuiltTopK(Protocol):
    def forward(self, x: Array, values: Array, indices: Array) -> None:
        """values, indices (N, k, P): both in the device's dtype."""


@dataclass(frozen=True, eq=False, repr=False)
class TopK(Operation[BuiltTopK]):
    """The k largest over the middle axis of x (N, C, P), largest first, the first of equals, NaN last."""

    n: int
    c: int
    p: int
    k: int


class BuiltDistances(Protocol):
    def forward(self, x: Array, w: Array, y: Array) -> None: ...

    def backward_x(self, x: Array, w: Array, dy: Array, dx: Array) -> None: ...

    def backward_w(self, x: Array, w: Array, dy: Array, dw: Array, add: bool = False) -> None:
        """add: add to dw instead of overwriting it."""


@dataclass(frozen=True, eq=False, repr=False)
class Distances(Operation[BuiltDistances]):
    """y (M, N): the distance of each row of x (M, K) to each row of w (N, K): Σ (x - w)² if squared, or Σ |x - w|."""

    m: int
    n: int
    k: int
    squared: bool


# recurrence


class BuiltLSTM(Protocol):
    def forward(self, gates: Array, cont: Array, w: Array, h_0: Array, hidden: Array, c: Array, h: Array) -> None:
        """gates (T, N, 4D): the other terms of the sums, overwritten by σ(i), σ(f), σ(o), tanh(g); h_0 (N, D): h before
        the first step; c (T + 1, N, D): c[0] is c before it; hidden (T, N, D): receives k h before each step; h (T, N,
        D)."""

    def backward(
        self, gates: Array, cont: Array, w: Array, c: Array, dh: Array | None, dh_n: Array, dc_n: Array, dgates: Array
    ) -> None:
        """gates: as forward leaves them; dh (T, N, D): h's gradient; dh_n, dc_n (N, D): the gradients of the last
        states, overwritten by those of the first; dgates (T, N, 4D): receives the gradients of the sums."""


@dataclass(frozen=True, eq=False, repr=False)
class LSTM(Operation[BuiltLSTM]):
    """T steps of N sequences of D units: c = k σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c), with sums (i, f, o, g) =
    gates + w (k h); cont (T, N): k, 0 where a sequence starts; w (4D, D).

    half: products of 16-bit numbers summed in float32, for an even D; hidden is then of 16-bit numbers.
    """

    t: int
    n: int
    d: int
    half: bool = False


class BuiltLSTMUnit(Protocol):
    def forward(self, gates: Array, cont: Array, c_0: Array, c: Array, h: Array) -> None:
        """c_0 (N, D): c before the step."""

    def backward(self, gates: Array, cont: Array, c_0: Array, c: Array, dh: Array, dc: Array, dgates: Array) -> None:
        """dc: the gradient of c, overwritten by that of c_0; dgates (N, 4D)."""


@dataclass(frozen=True, eq=False, repr=False)
class LSTMUnit(Operation[BuiltLSTMUnit]):
    """One step of an LSTM from its sums, gates (N, 4D), which become σ(i), σ(f), σ(o), tanh(g)."""

    n: int
    d: int


# classification


class BuiltSoftmax(Protocol):
    def forward(self, x: Array, y: Array) -> None:
        """y may be x."""

    def backward(self, y: Array, dy: Array, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(Operation[BuiltSoftmax]):
    """y = softmax of x over the middle axis of (N, C, P)."""

    n: int
    c: int
    p: int


class BuiltSoftmaxLoss(Protocol):
    """divisor (1): of the last run."""

    bad: Array
    divisor: Array

    def forward(
        self,
        x: Array,
        label: Array,
        prob: Array,
        loss: Array,
        total: Array | None = None,
        weight: float = 1.0,
        gradient: Array | None = None,
    ) -> None:
        """total (1): the loss times ``weight`` is added to it. gradient (like x): receives the gradient of ``weight``
        times the loss; only where the divisor is a given number."""

    def backward(self, prob: Array, label: Array, dloss: Array, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxLoss(Operation[BuiltSoftmaxLoss]):
    """prob = softmax of x over the middle axis of (N, C, P), loss = -Σ log prob[label] / divisor over label (N, P). A
    label that is no class is bad.

    ignore: a label that does not count. divisor: None for the number of labels that count. weights (C): the loss of
    each label is multiplied by its weight; then a divisor of None is the sum of the weights.
    """

    n: int
    c: int
    p: int
    ignore: int | None
    divisor: float | None
    weights: Array | None = None


class BuiltAccuracy(Protocol):
    """counts (C): the samples of each class in the last run."""

    bad: Array
    counts: Array

    def forward(self, x: Array, label: Array, score: Array, per_class: Array | None) -> None:
        """per_class (C): receives the share of each class."""


@dataclass(frozen=True, eq=False, repr=False)
class Accuracy(Operation[BuiltAccuracy]):
    """The share of labels (N, P) that are among the ``top_k`` scores of x (N, C, P). A label that is no class is bad.
    ignore: a label that does not count."""

    n: int
    c: int
    p: int
    top_k: int
    ignore: int | None


# random numbers


class MaskPiece(NamedTuple):
    """The piece of a mask that one of several devices draws. first_row: its first of the mask's ``rows`` samples;
    first_column: its first number of each sample."""

    first_row: int
    rows: int
    first_column: int


class BuiltDropout(Protocol):
    def forward(self, x: Array, mask: Array, y: Array) -> None:
        """mask: uint8, like x, saved for backward."""

    def backward(self, mask: Array, dy: Array, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Dropout(Operation[BuiltDropout]):
    """y = x · mask · scale; each element of (N, D) stays with probability 1 - ratio.

    The mask follows from the context's seed and clock, from ``layer_key`` and from the sample, by Philox: it is the
    same on every device. piece: of the mask of a larger blob that several devices divide. channels: of channels_last
    images (N, P, C), which have the mask of N×C×H×W; 0 for other blobs. scale: 1 / (1 - ratio) by default.
    """

    n: int
    d: int
    ratio: float
    layer_key: int
    context: ExecutionContext
    piece: MaskPiece | None = None
    channels: int = 0
    scale: float | None = None


class BuiltUniform(Protocol):
    def forward(self, out: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Uniform(Operation[BuiltUniform]):
    """out (N, D): random numbers from low to high, keyed like Dropout's mask."""

    n: int
    d: int
    low: float
    high: float
    layer_key: int
    context: ExecutionContext


# pixels


class BuiltPreprocess(Protocol):
    deep: bool  # whether several passes can be prepared at once

    def host_buffer(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Memory of the host that ``forward`` reads fast."""

    def wait(self) -> None:
        """Returns when the pixels of the last ``set_batch`` may be overwritten."""

    def set_batch(self, which: int, pixels: np.ndarray, picks: np.ndarray, resident: bool = False) -> None:
        """Sets the pixels of pass ``which`` of those that are being prepared.

        pixels (M, C, H, W): uint8 or float32, on the host, of any strides. picks (N, 4): int32; a row is a sample:
        the image's index in pixels, the crop's top and left, 1 where it is mirrored. Pixels that have the crop's size
        are not cropped. resident: the pixels are the complete data set, which a device may keep in its memory.
        """

    def signature(self) -> tuple[Any, ...]:
        """Captured graphs of ``forward`` are valid for equal signatures."""

    def forward(self, out: Array, fields: Sequence[Any] = (), tops: Sequence[Array] = ()) -> None:
        """fields: of the input buffer; each is copied to its top."""


@dataclass(frozen=True, eq=False, repr=False)
class Preprocess(Operation[BuiltPreprocess]):
    """out (N, C, h, w) = (pixels - mean) · scale, in float32.

    out: shape as N×C×H×W. mean: None, (C, 1, 1), or an image (C, H, W), which is cropped like the pixels unless it has
    the crop's size. channels_last: how out is stored, where the traits say ``writes_pixels``.
    """

    out: Shape
    mean: np.ndarray | None
    scale: float
    context: ExecutionContext
    channels_last: bool = False
