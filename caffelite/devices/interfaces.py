"""The interfaces of the operations that a device builds.

An operation is built once, for shapes that never change, and run on the arrays that it receives. All arrays are
contiguous unless a docstring says otherwise. A gradient that is None is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from .window import Window

Array: TypeAlias = Any  # numpy.ndarray on a CPU, cupy.ndarray on a GPU
Peer: TypeAlias = tuple[int, int]  # stage and shard of a device that holds a piece of a net
Kernel: TypeAlias = Callable[..., None]  # a compiled formula: its docstring in Device lists the arguments


class Algorithms(Protocol):
    """The algorithms that were chosen by measuring."""

    def shared(self, rank: int, gather: Callable[[Any], list[Any]]) -> AbstractContextManager[None]:
        """Inside it all processes use the algorithms that the process of rank 0 chooses."""

    def recorded(self) -> list[str]:
        """All of them, for a checkpoint."""

    def restore(self, lines: Iterable[str]) -> None:
        """Takes those that a checkpoint recorded, before the first pass."""


class InnerProduct(Protocol):
    """y (M, N) = x (M, K) wᵀ + b (N), w (N, K), or (K, N) where it is transposed."""

    def forward(
        self, x: Array, w: Array, b: Array | None, y: Array, slope: float | None = None, kept: Array | None = None
    ) -> None:
        """slope: negative slope of the fused leaky ReLU, None for no ReLU. kept (M, K): receives x rounded to 16 bits
        where the operation multiplies 16-bit numbers; backward takes it for x."""

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


class Convolution(Protocol):
    """y (N, M, OH, OW) = w (M, C/groups, kh, kw) * x (N, C, H, W) + b (M); with channels_last, x and y are stored as
    (N, H, W, C)."""

    def forward(self, x: Array, w: Array, b: Array | None, y: Array, slope: float | None = None) -> None:
        """slope: negative slope of the fused leaky ReLU, None for no ReLU."""

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


class PreparedConvolution(Protocol):
    """A Convolution with weights that seldom change, of float32 in host memory, for channels_last images.

    step_bytes: -1 where it cannot be joined with others, see Inference.joined.
    """

    @property
    def step_bytes(self) -> int: ...

    def prepare(self, w: Array, b: Array, slopes: Array) -> None:
        """w (M, C/groups, kh, kw), b (M), slopes (M): they must stay as they are until the next call."""

    def run(self, x: Array, y: Array) -> None:
        """y = w * x + b; what is not positive is multiplied by its channel's slope."""


class Watch(Protocol):
    """Detects changes of arrays."""

    def changed(self) -> bool:
        """Whether the arrays have changed since the last call; True at first."""


class Inference(Protocol):
    """Operations of nets that only test. ``every``: the number of all threads."""

    every: int

    def convolution(
        self,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        groups: int = 1,
        half: bool = False,
        algorithm: str | None = None,
    ) -> PreparedConvolution:
        """As Device.convolution, of channels_last images."""

    def watch(self, arrays: Sequence[Array]) -> Watch: ...

    def threads(self, multiply_adds: int, numbers: int) -> int:
        """How many threads a step pays for. numbers: those that it reads and writes."""

    def joined(self, operations: Sequence[tuple[Any, Array, Array]]) -> Callable[[], None] | None:
        """One call for several prepared convolutions, each with its x and y, that run on one thread and have run
        before; None where there is none."""

    def limit(self, threads: int) -> None:
        """The operations that run from now on use so many threads."""


class Pooling(Protocol):
    """x (N, C, H, W) → y (N, C, OH, OW), or both channels_last."""

    def forward(self, x: Array, y: Array, index: Array | None) -> None:
        """index (like y): receives the position of each maximum; None where the method has none."""

    def backward(self, dy: Array, index: Array | None, dx: Array) -> None: ...


class LRN(Protocol):
    """y = x · scale^-beta, scale = k + alpha / size · Σ x² over ``size`` neighbouring channels of x (N, C, P)."""

    def forward(self, x: Array, scale: Array, y: Array) -> None:
        """scale: like x, saved for backward; y may be x."""

    def backward(self, x: Array, y: Array, scale: Array, dy: Array, dx: Array) -> None:
        """dx must not overlap the other arrays."""


class Im2col(Protocol):
    """x (N, C, H, W) → columns (N, C·kh·kw, OH, OW): the pixels of each window, 0 outside the image."""

    def forward(self, x: Array, columns: Array) -> None: ...

    def backward(self, dcolumns: Array, dx: Array) -> None: ...


class Interpolation(Protocol):
    """x (N, C, H, W) → y (N, C, OH, OW): bilinear interpolation."""

    def forward(self, x: Array, y: Array) -> None: ...

    def backward(self, dy: Array, dx: Array) -> None: ...


class Unpooling(Protocol):
    """y (planes, Q) = 0, but for x (planes, P) at ``places`` (planes, P), the last of equal places.

    bad (int64, one element): 0, or 1 + the position of the first place outside of 0 to Q - 1. Its number is left out,
    and gets no gradient.
    """

    bad: Array

    def forward(self, x: Array, places: Array, y: Array) -> None: ...

    def backward(self, dy: Array, places: Array, dx: Array) -> None: ...


class Take(Protocol):
    """out[i] = table[index[i]]: table (rows, width), index (count), out (count, width).

    bad (int64, one element): 0, or 1 + the position of the first index that names no row. Such a row of out is 0 and
    gets no gradient.
    """

    bad: Array

    def forward(self, table: Array, index: Array, out: Array) -> None: ...

    def backward(self, index: Array, dout: Array, dtable: Array, add: bool = False) -> None:
        """add: add to dtable instead of overwriting it."""


class RegionPooling(Protocol):
    """y (R, C', PH, PW) of the boxes rois (R, 5) of x (N, C, H, W); a box is (image, x1, y1, x2, y2).

    bad (int64, one element): 0, or 1 + the position of the first box that names no image. Such a box, and one that is
    not finite, gives zeros and no gradient.
    """

    bad: Array

    def forward(self, x: Array, rois: Array, y: Array, index: Array | None) -> None:
        """index (int32, like y): receives the place of each maximum of MAX; None for the other methods."""

    def backward(self, dy: Array, rois: Array, index: Array | None, dx: Array) -> None: ...


class TopK(Protocol):
    """The k largest over the middle axis of x (N, C, P), largest first, the first of equals, NaN last."""

    def forward(self, x: Array, values: Array, places: Array) -> None:
        """values, places (N, k, P): the numbers and their positions, both in the device's dtype."""


class LSTM(Protocol):
    """T steps of N sequences of D units: c = k σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c), with sums (i, f, o, g) =
    gates + w (k h); cont (T, N): k, 0 where a sequence starts; w (4D, D)."""

    def forward(self, gates: Array, cont: Array, w: Array, last: Array, hidden: Array, c: Array, h: Array) -> None:
        """gates (T, N, 4D): the other terms of the sums, overwritten by σ(i), σ(f), σ(o), tanh(g); last (N, D): h
        before the first step; c (T + 1, N, D): c[0] is c before it; hidden (T, N, D): receives k h before each step;
        h (T, N, D)."""

    def backward(
        self,
        gates: Array,
        cont: Array,
        w: Array,
        c: Array,
        above: Array | None,
        dh: Array,
        dc: Array,
        dgates: Array,
    ) -> None:
        """gates: as forward leaves them; above (T, N, D): h's gradient; dh, dc (N, D): the gradients of the last
        states, overwritten by those of the first; dgates (T, N, 4D): receives the gradients of the sums."""


class LSTMUnit(Protocol):
    """One step of an LSTM from its sums, gates (N, 4D), which become σ(i), σ(f), σ(o), tanh(g)."""

    def forward(self, gates: Array, cont: Array, before: Array, c: Array, h: Array) -> None: ...

    def backward(self, gates: Array, cont: Array, before: Array, c: Array, dh: Array, dc: Array, dgates: Array) -> None:
        """dc: the gradient of c from above, overwritten by that of the cell before; dgates (N, 4D)."""


class Softmax(Protocol):
    """y = softmax of x over the middle axis of (N, C, P)."""

    def forward(self, x: Array, y: Array) -> None:
        """y may be x."""

    def backward(self, y: Array, dy: Array, dx: Array) -> None: ...


class SoftmaxLoss(Protocol):
    """prob = softmax of x over the middle axis of (N, C, P), loss = -Σ log prob[label] / divisor over label (N, P).

    bad (int64, one element): 0, or 1 + the position of the first label that is no class. divisor (1): of the last run.
    With class weights the loss of a label is multiplied by its weight.
    """

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

    def backward(self, prob: Array, label: Array, dloss: Array, dx: Array) -> None:
        """dx: the gradient of x."""


class Accuracy(Protocol):
    """The share of labels (N, P) that are among the ``top_k`` scores of x (N, C, P).

    counts (C): the samples of each class in the last run. bad: as in SoftmaxLoss.
    """

    bad: Array
    counts: Array

    def forward(self, x: Array, label: Array, score: Array, per_class: Array | None) -> None:
        """per_class (C): receives the share of each class."""


class MultiBoxOptions(NamedTuple):
    """What MultiBoxLoss computes: see the fields of MultiBoxLossParameter.

    shape: images, priors, classes, sets of offsets of a prior (1, or one of each class) and rows of objects. each:
    the overlap from which on every prior is matched; None: only the best of each object. ratio: hard negatives for
    each matched prior; None: all priors count. divisor: None for the matched priors. weights: of the losses of offsets
    and of scores in the total.
    """

    shape: tuple[int, int, int, int, int]
    background: int
    code: int
    each: float | None
    within: bool  # whether priors that cross the border are left out
    difficult: bool
    agnostic: bool
    ratio: float | None
    most_overlap: float  # below which a prior may be a hard negative
    logistic: bool
    squares: bool
    in_target: bool  # variances
    weight: float  # of the gradient of the offsets
    divisor: float | None
    weights: tuple[float, float]


class MultiBoxLoss(Protocol):
    """Matches priors with objects, and computes the loss and the gradients of offsets (N, P·4·L) and scores (N, P·C)
    without the division by ``divisor``. ``bad`` (int64, one element): 0, or 1 + the first row whose label is no class
    of objects."""

    bad: Array

    def forward(
        self,
        offsets: Array,
        scores: Array,
        priors: Array,
        rows: Array,
        gradients: tuple[Array, Array],
        loss: Array,
        divisor: Array,
    ) -> None: ...


class DetectionOptions(NamedTuple):
    """What DetectionOutput computes: see the fields of DetectionOutputParameter.

    shape: images, priors, classes and sets of offsets of a prior. labels: classes but for the background. least: scores
    above it are looked at. most: the best scores of a class that are, at least 1.
    """

    shape: tuple[int, int, int, int]
    labels: int
    background: int
    code: int
    in_target: bool  # variances
    least: float
    threshold: float
    most: int


class Detections(Protocol):
    """The boxes that non-maximum suppression leaves: ``rows`` (N · labels, most, 5) of score and corners, the best
    first, and ``counts`` (N · labels), how many."""

    rows: Array
    counts: Array

    def forward(self, offsets: Array, scores: Array, priors: Array) -> None: ...


class ProposalOptions(NamedTuple):
    """What Proposal computes: see the fields of ProposalParameter.

    map: height and width of the scores. base: the anchors of its first place. wide: numbers of an image in im_info.
    small: the least side; strict: whether smaller boxes are dropped. most: the best scores that are looked at. enough:
    boxes of an image that are needed.
    """

    images: int
    map: tuple[int, ...]
    base: tuple[tuple[float, ...], ...]
    stride: int
    wide: int
    small: float
    strict: bool
    threshold: float
    most: int
    enough: int


class Proposals(Protocol):
    """The boxes that non-maximum suppression leaves: ``rows`` (N, most, 5) of score and corners, the best first, and
    ``counts`` (N), how many; more than enough, it may be."""

    rows: Array
    counts: Array

    def forward(self, scores: Array, offsets: Array, info: Array) -> None: ...


class RegionOptions(NamedTuple):
    """What RegionLoss computes: see the fields of RegionLossParameter.

    shape: of predictions, (N, A, 5 + K, H, W). wide: the label has ``rows`` rows of 8 numbers, else so many of 5 for
    each image. sizes: of anchors, in cells. most: the overlap beyond which a prediction may be an object.
    """

    shape: tuple[int, int, int, int, int]
    rows: int
    wide: bool
    sizes: tuple[tuple[float, float], ...]
    most: float
    empty: float  # scales of errors
    of_object: float
    of_class: float
    of_box: float
    rescore: bool
    matches_sizes: bool


class RegionLoss(Protocol):
    """The errors of predictions, like these, and the sum of their squares / N. ``bad`` (int64, one element): 0, or 1 +
    the first row whose class is none."""

    bad: Array

    def forward(self, x: Array, label: Array, errors: Array, loss: Array) -> None: ...


class MaskPart(NamedTuple):
    """The part of a mask that one of several devices draws. first_row: its first of the mask's ``rows`` samples;
    first_column: its first number of each sample."""

    first_row: int
    rows: int
    first_column: int


class Dropout(Protocol):
    """y = x · mask / (1 - ratio); each element of (N, D) is kept with probability 1 - ratio.

    The mask follows from the context's seed and clock, from ``stream`` (which layer) and from the sample: it is the
    same on every device.
    """

    def forward(self, x: Array, mask: Array, y: Array) -> None:
        """mask: uint8, like x, saved for backward."""

    def backward(self, mask: Array, dy: Array, dx: Array) -> None: ...


class Uniform(Protocol):
    """Random numbers from low to high. They follow from the context's seed and clock, from ``stream`` (which layer) and
    from the sample: they are the same on every device."""

    def forward(self, out: Array) -> None:
        """out (N, D)."""


class Distances(Protocol):
    """y (M, N): the distance of each row of x (M, K) to each row of w (N, K): Σ (x - w)², or Σ |x - w|."""

    def forward(self, x: Array, w: Array, y: Array) -> None: ...

    def backward_x(self, x: Array, w: Array, dy: Array, dx: Array) -> None: ...

    def backward_w(self, x: Array, w: Array, dy: Array, dw: Array, add: bool = False) -> None:
        """add: add to dw instead of overwriting it."""


class Preprocess(Protocol):
    """out (N, C, h, w) = (pixels - mean) · scale, in float32."""

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


class Pending(Protocol):
    """An array that is being sent."""

    def wait(self) -> None:
        """Returns when the array may be overwritten; on a GPU, queues the wait."""


class Links(Protocol):
    """Moves arrays between the devices that hold the parts of one net.

    All arrays are contiguous and of the device's dtype. A peer is a stage and a shard. Calls are queued in the order
    of the net's steps on every device; on a CPU they have finished when they return, unless the docstring says
    otherwise.
    ``captures``: a captured graph may contain its calls, if ``finish`` precedes and ends them. Otherwise arrays pass
    through the host.
    Errors: a device that ends or hangs ends the job, see parallel/watchdog.py.
    """

    captures: bool

    def connect(self, pairs: Iterable[tuple[Peer, Peer]]) -> None:
        """Makes the links between pairs of sender and receiver that are not there yet. The devices of the group call it
        together, before their first transfer."""

    def send(self, array: Array, peer: Peer, tag: int) -> Pending:
        """Starts to send an array and returns without waiting for the peer. The array must not change before
        ``wait`` of the result has returned. Arrays that are sent to one peer with one tag arrive in the order of the
        calls."""

    def receive(self, array: Array, peer: Peer, tag: int) -> None:
        """Receives what ``peer`` sends with the tag. Waits for it."""

    def all_gather(self, part: Array, whole: Array) -> None:
        """whole (K, ...): the ``part`` (...) of each of the K devices of the stage, in the order of shards."""

    def reduce_scatter(self, whole: Array, part: Array) -> None:
        """part (...): the sum of ``whole`` (K, ...) at this shard over the K devices of the stage, in the
        order of shards."""

    def all_reduce(self, array: Array) -> None:
        """Sums an array over the devices of the stage, in place and in the order of shards: the same bits on each."""

    def all_reduce_group(self, array: Array) -> None:
        """Sums an array over all devices of the group, in place: the same bits on each. Where it ``captures``."""

    def finish(self) -> None:
        """Waits for the arrays that are being sent; on a GPU, queues the wait. Their ``Pending`` need no ``wait``."""

    def progress(self) -> None:
        """Lets arrays that were sent move; called while this device computes."""

    def close(self, failed: bool = False) -> None:
        """No more calls follow. failed: this process ends in an error, so that nothing is waited for."""
