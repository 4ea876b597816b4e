"""What layers compute between the convolutions of a net that only tests, as data: `Inference.joined` runs them in one
call with these. Besides these, `ops.Pooling`, `ops.Softmax` and what was built of an `ops.PreparedConvolution`."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from .types import Array


class Call(NamedTuple):
    """An operation, with the arrays that it reads and writes, and the keys of these: an array may be that of several
    blobs, one after the other."""

    operation: object
    bottoms: Sequence[Array]
    tops: Sequence[Array]
    reads: Sequence[Hashable]
    writes: Sequence[Hashable]


class Arena(NamedTuple):
    """Memory of one sample for the tops that nobody but the calls of a program reads. offsets: in bytes, by key."""

    offsets: Mapping[Hashable, int]
    bytes: int


class Join(NamedTuple):
    """Each x (samples·rows, width) into the columns of y (samples·rows, pitch) from its start on; None for one that is
    there already."""

    samples: int
    rows: int
    widths: tuple[int, ...]
    starts: tuple[int | None, ...]
    pitch: int


class Sum(NamedTuple):
    """y = a + b, what is not positive times slope, each of ``samples`` samples of so many numbers."""

    samples: int
    numbers: int
    slope: float


class Interleave(NamedTuple):
    """y (samples, pixels, channels) = x (samples, channels, pixels)."""

    samples: int
    channels: int
    pixels: int


class View(NamedTuple):
    """y is x, nothing is to be done."""
