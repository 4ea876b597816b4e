"""The interface of a device: what layers, nets and training call.

All devices have these members with these signatures: tests/devices/test_conformance.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from . import interfaces
from .context import ExecutionContext
from .formula import Formula
from .interfaces import Array, Kernel
from .traits import DeviceTraits
from .window import Window

Shape = tuple[int, ...]
Gather = Callable[[Any], list[Any]]  # value → the values of all processes, in the order of their ranks


class Event(Protocol):
    """A moment in the device's queue; only ``Device.elapsed_ms`` reads it."""


class Ring(Protocol):
    """A ring buffer on the device: the last rows that were appended."""

    def __len__(self) -> int:
        """Rows that it holds at most."""

    def append(self, source: Array, divisor: float = 1.0, clear: bool = False) -> None:
        """Appends source / divisor. clear: source becomes 0."""

    def reset(self, rows: np.ndarray) -> None:
        """Holds these rows (count, width) and no others."""

    def last(self, count: int, total: int) -> np.ndarray:
        """The last ``count`` rows, oldest first. total: how many were ever appended. Waits for the device."""


class CapturedGraph(Protocol):
    """A function that only queues operations. A device may capture these and launch them as a graph afterwards."""

    eager: str  # why it is not captured; "" where it is

    def __call__(self, *key: Any) -> None:
        """Queues what the function queues for this key."""


class LossScale(Protocol):
    """Dynamic loss scaling: the factor that keeps gradients of 16-bit numbers in range. Arrays of one number each.

    factor: of the loss, and so of all gradients. share: an update multiplies gradients by it. skip: 1 where this
    iteration's gradients are not finite and nothing may be updated.
    """

    factor: Array
    share: Array
    skip: Array

    def check(self, gradients: Array) -> None:
        """Tests whether all gradients, one flat array, are finite, and adapts share, skip and the next factor."""

    def check_square(self, square: Array) -> None:
        """The same from the sum of their squares."""

    def load(self, factor: float, good: int = 0) -> None:
        """Continues from a factor after ``good`` iterations in a row with finite gradients."""

    def held(self) -> tuple[float, int]:
        """The factor, and how many iterations in a row had finite gradients: what ``load`` takes. Waits for the
        device."""


class Device(Protocol):
    """Allocates arrays and builds operations.

    Operations of one device run one after the other, in the order of their calls; only ``download``, ``synchronize``
    and methods whose docstrings say so wait for them. One thread at a time uses a device.
    """

    traits: DeviceTraits
    name: str
    number: int | None  # which GPU, None for a CPU
    dtype: np.dtype[Any]  # of arrays where no other is given: float32 or float64
    precision: str  # of products: fp32, tf32, fp16 or bf16
    eager: str  # why nothing is captured; "" where functions are captured
    inference: interfaces.Inference | None  # where the traits say ``prepares_convolutions``
    algorithms: interfaces.Algorithms | None  # where algorithms that the numbers depend on are chosen by measuring

    # memory

    def empty(self, shape: Shape | int, dtype: DTypeLike | None = None) -> Array: ...

    def zeros(self, shape: Shape | int, dtype: DTypeLike | None = None) -> Array: ...

    def view(self, raw: Array, offset: int, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        """An array over bytes of ``raw`` (uint8) from ``offset``, which must satisfy the dtype's alignment. BFLOAT16
        means the device's 16-bit dtype, which is float16 where the precision is fp16."""

    def upload(self, array: Array, host: np.ndarray) -> None:
        """array = host, broadcast and converted to the array's dtype."""

    def download(self, array: Array) -> np.ndarray:
        """A copy on the host. Waits for the device."""

    def copy(self, source: Array, target: Array) -> None:
        """target = source, of equal size and dtype."""

    def assign(self, source: Array, target: Array) -> None:
        """target = source; both may be views (slices, transposes) that do not overlap; source is broadcast."""

    def add(self, source: Array, target: Array) -> None:
        """target += source; views as in ``assign``, but arrays of 16-bit numbers are contiguous."""

    def fill(self, array: Array, value: float) -> None: ...

    def transpose(self, source: Array, target: Array) -> None:
        """target (N, B, A) = source (N, A, B) with the last two axes swapped."""

    def copy_into(self, part: Array, whole: Array, start: int) -> None:
        """whole[:, start : start + S] = part, of whole (R, T) and part (R, S)."""

    def copy_out(self, whole: Array, start: int, part: Array, more: Sequence[Array] = ()) -> None:
        """part = whole[:, start : start + S] + the same columns of at most 7 arrays ``more``."""

    def conversions(self) -> tuple[Kernel, Kernel]:
        """``to_half(x, y)`` rounds float32 numbers to 16 bits, ``to_float(x, y)`` converts them back."""

    def to_float32(self, array: Array) -> Array:
        """A float32 copy of an array of 16-bit numbers."""

    def workspace(self, count: int, dtype: DTypeLike | None = None) -> Array:
        """Scratch memory that all operations share, valid until the operation returns: request it on every run."""

    # time and order

    def synchronize(self) -> None:
        """Returns when all operations have finished."""

    def record_event(self) -> Event: ...

    def elapsed_ms(self, begin: Event, end: Event) -> float:
        """Milliseconds from one event to another. Waits for the later one."""

    def run_concurrently(self, work: int, *parts: Callable[[], None]) -> None:
        """Calls functions with independent operations. work: multiply-adds of each; a GPU runs the
        parts at the same time where each is small."""

    # execution

    def make_context(self, seed: int = 0) -> ExecutionContext:
        """The context of a net. seed: key of its random numbers, 64 bits."""

    def ring(self, rows: int, width: int = 1) -> Ring: ...

    def loss_scale(self, start: float | None) -> LossScale | None:
        """Dynamic loss scaling that starts from this factor (None: the default); None where no precision needs it."""

    def capture(
        self,
        body: Callable[..., None],
        context: ExecutionContext,
        signature: Callable[[], tuple[Any, ...]] = tuple,
        gather: Gather | None = None,
    ) -> CapturedGraph:
        """A function that does the same as ``body(*key)``, which must only queue operations.

        context: of the net with the inputs that the body reads. signature: values besides the key that the queued
        arguments depend on. gather: where the body queues sums over processes, so that all capture in the same call.
        """

    def why_eager(self) -> str:
        """Why something is not captured; "" where everything is."""

    def drop_graphs(self) -> None:
        """Destroys all captured graphs; later calls capture again."""

    # formulas

    def map(self, formula: Formula, **constants: float) -> Kernel:
        """``run(*arrays, *scalars, out)``: out = formula, element by element; out may be one of the arrays."""

    def sum(self, formula: Formula, scale: float = 1.0, **constants: float) -> Kernel:
        """``run(*arrays, *scalars, out, add=False)``: out[0] = [out[0] +] scale · Σ formula, summed in float64."""

    def channel_map(
        self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, **constants: float
    ) -> Kernel:
        """``run(*arrays, *scalars, out)``: ``map`` over (N, C, P); the arrays named in ``channels`` have C elements."""

    def channel_sum(
        self,
        formula: Formula,
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        **constants: float,
    ) -> Kernel:
        """``run(*arrays, *scalars, out, add=False)``: out (C) = [out +] scale · Σ formula over N and P, summed in
        float64; arrays as in ``channel_map``."""

    def channel_sums(
        self,
        formulas: tuple[Formula, ...],
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        kept: bool = False,
        **constants: float,
    ) -> Kernel:
        """``run(*arrays, outs)``: ``channel_sum`` of several formulas; arrays are those of all formulas, each once.
        kept: ``run(*arrays, outs, kept)``, where ``kept``, which may be one of the arrays, receives the values of the
        first formula."""

    def batch_moments(self, n: int, c: int, p: int, eps: float, keep: float) -> Kernel:
        """``run(x, mean, scale, means, variances, count)``: statistics of each channel of x (N, C, P) for batch
        normalisation.

        scale = 1 / √(variance + eps). means and variances (C, unbiased) and count (1) are running sums: multiplied by
        ``keep``, then added to.
        """

    def relu_backward(self, n: int, c: int, p: int, slope: float) -> Kernel:
        """``run(y, dy, db=None, add=False)``: dy (N, C, P), the gradient of a leaky ReLU's top y, becomes that of its
        bottom; db (C) = [db +] its sum over N and P. Where P is 1, y and dy may be slices of wider rows on a device
        that ``takes_slices``."""

    def updater(
        self, formula: Formula, chunks: np.ndarray, lr_mult: np.ndarray, decay: np.ndarray, **constants: float
    ) -> Kernel:
        """``run(numbers, scale, *arrays)``: an update rule over flat buffers.

        chunks (K, 2): ranges of elements; lr_mult and decay (K): their multipliers. numbers: the rate, then those of
        the formula's constants that are not given here, in its order; scale (1): factor of g. Both are arrays of the
        device.
        """

    @property
    def fused_updater(self) -> Callable[..., Kernel] | None:
        """``fused_updater(formula, lr_mult, decay, **constants)``: an update rule that computes the gradient of weights
        as it applies the rule; None on a device whose traits never say ``fuses_updates``.

        Returns ``run(numbers, scale, x, dy, w, *history)``: the gradient of w (N, K) is dyᵀ x, x (M, K) and dy (M, N);
        the rest as for ``updater``.
        """

    # operations

    def inner_product(
        self, m: int, k: int, n: int, transpose: bool = False, half: bool = False
    ) -> interfaces.InnerProduct:
        """half: multiplies 16-bit numbers and sums in float32."""

    def convolution(
        self,
        x: Shape,
        y: Shape,
        window: Window,
        groups: int = 1,
        channels_last: bool = False,
        half: bool = False,
        name: str = "",
        algorithm: str | None = None,
        context: ExecutionContext | None = None,
    ) -> interfaces.Convolution:
        """x, y: shapes as N×C×H×W. half: x and y are of 16-bit numbers. name: of the layer, for warnings. algorithm:
        one of algorithms.py, for a CPU; None for the fastest. context: of the net, whose forward passes are within
        ``context.forward_pass()``; None where these make the weights."""

    def pooling(
        self,
        method: str,
        x: Shape,
        y: Shape,
        window: Window,
        stream: int | None = None,
        context: ExecutionContext | None = None,
    ) -> interfaces.Pooling:
        """method: "MAX", "AVE" or "STOCHASTIC". STOCHASTIC with a context chooses a pixel with probability x / Σx,
        keyed like Dropout's mask; without one it computes the expectation Σx² / Σx, which has no backward. index is
        int32."""

    def channels_last_pooling(
        self, method: str, x: Shape, y: Shape, window: Window, half: bool = False
    ) -> interfaces.Pooling:
        """MAX or AVE of images stored as (N, H, W, C). x, y: shapes as N×C×H×W. index: uint8 or int32."""

    def lrn(self, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float) -> interfaces.LRN: ...

    def im2col(self, x: Shape, window: Window) -> interfaces.Im2col: ...

    def interpolation(self, x: Shape, y: Shape, start: Shape, size: Shape) -> interfaces.Interpolation:
        """x, y: shapes as N×C×H×W. start, size: the part of each image of x that becomes y, by rows and columns."""

    def unpooling(self, planes: int, p: int, q: int) -> interfaces.Unpooling: ...

    def take(self, rows: int, width: int, count: int) -> interfaces.Take: ...

    def top_k(self, n: int, c: int, p: int, k: int) -> interfaces.TopK: ...

    def region_pooling(self, method: str, x: Shape, y: Shape, scale: float, pad: float = 0) -> interfaces.RegionPooling:
        """method: "MAX" (ROIPooling), "POSITION" (PSROIPooling) or "ALIGN" (ROIAlign). scale: pixels of x per pixel of
        a box. pad: of ALIGN, see ROIPoolingParameter.pad_ratio."""

    def multibox_loss(self, options: interfaces.MultiBoxOptions) -> interfaces.MultiBoxLoss | None:
        """None on a CPU, where the layer computes with NumPy."""

    def detections(self, options: interfaces.DetectionOptions) -> interfaces.Detections | None:
        """None on a CPU, as for ``multibox_loss``."""

    def proposals(self, options: interfaces.ProposalOptions) -> interfaces.Proposals | None:
        """None on a CPU, as for ``multibox_loss``."""

    def region_loss(self, options: interfaces.RegionOptions) -> interfaces.RegionLoss | None:
        """None on a CPU, as for ``multibox_loss``."""

    def lstm(self, t: int, n: int, d: int, half: bool = False) -> interfaces.LSTM:
        """half: products of 16-bit numbers summed in float32, for an even D; hidden is then of 16-bit numbers."""

    def lstm_unit(self, n: int, d: int) -> interfaces.LSTMUnit: ...

    def softmax(self, n: int, c: int, p: int) -> interfaces.Softmax: ...

    def softmax_loss(
        self, n: int, c: int, p: int, ignore: int | None, divisor: float | None, weights: Array | None = None
    ) -> interfaces.SoftmaxLoss:
        """ignore: a label that does not count. divisor: None for the number of labels that count. weights (C): the loss
        of each label is multiplied by its weight; then a divisor of None is the sum of the weights."""

    def accuracy(self, n: int, c: int, p: int, top_k: int, ignore: int | None) -> interfaces.Accuracy: ...

    def dropout(
        self,
        n: int,
        d: int,
        ratio: float,
        stream: int,
        context: ExecutionContext,
        part: interfaces.MaskPart | None = None,
        channels: int = 0,
        scale: float | None = None,
    ) -> interfaces.Dropout:
        """part: of the mask of a larger blob that several devices divide. channels: of channels_last images (N, P, C),
        which have the mask of N×C×H×W; 0 for other blobs. scale: of what stays, by default 1 / (1 - ratio)."""

    def uniform(
        self, n: int, d: int, low: float, high: float, stream: int, context: ExecutionContext
    ) -> interfaces.Uniform: ...

    def distances(self, m: int, n: int, k: int, squared: bool) -> interfaces.Distances:
        """squared: sums of squares; else of absolute values."""

    def preprocess(
        self,
        out: Shape,
        mean: np.ndarray | None,
        scale: float,
        context: ExecutionContext,
        channels_last: bool = False,
    ) -> interfaces.Preprocess:
        """out: shape as N×C×H×W. channels_last: how it is stored, where the traits say ``writes_pixels``. mean: None,
        (C, 1, 1), or an image (C, H, W), which is cropped like the pixels unless it has the crop's size."""
