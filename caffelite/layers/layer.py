"""What a layer is: its shapes, its parameters, its mathematics, and what its backward pass reads."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError, Locator, Where
from . import fillers
from .config import LayerConfig, SavedBlobs, Shape

REGISTRY: dict[str, type[Layer]] = {}


def register(cls: type[Layer]) -> type[Layer]:
    REGISTRY[cls.type or cls.__name__] = cls
    return cls


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a layer: its shape, and the filler that initialises it."""

    shape: Shape
    filler: pb.FillerParameter


class Layer:
    """A layer of one net: its type, message, shapes, parameters and mathematics.

    A layer that ``graph.build`` makes is static. ``configured`` returns a copy with what the compiler decided about it,
    ``bound`` a copy with a device and arrays, which then runs.

    Class attributes declare how the layer may be wired and stored; some types set them by their message or shapes:

    - ``bottoms``, ``tops``: fewest and most (None: any number);
    - ``field``: its message in LayerParameter;
    - ``in_place``: the top may overwrite the bottom; ``view``: the top is the bottom under another shape;
    - ``loss``: its first top has loss_weight 1 unless the message gives another; ``adds_loss``: forward adds its first
      top, weighted, to the net's loss (see ``total``);
    - ``differentiable``: backward exists; ``constant_bottoms``: bottoms that never get a gradient (labels);
      ``constant_tops``: tops whose gradient goes no further down; ``takes_over_gradient``: gives its bottom its top's
      gradient memory, as Caffe's Flatten does;
    - ``feeds``: tops come from outside (a source, the user) and not from bottoms; ``reads_source``: from a source;
      ``reads_images``: of images, then labels; ``batched``: its message has a batch_size; ``files``: the fields of its
      message that name files to read; ``filled_once``: the tops stay filled from one pass to the next;
      ``feeds_ahead``: several passes can be fed at once;
    - ``frozen_params``: how many of its parameters, the first ones, the layer itself changes, and no solver;
    - ``varies``: its tops' shapes depend on the data (it calls ``resize``);
    - ``requires_host``: its passes need the host and cannot be captured in a graph; ``writes``: forward writes a file;
    - ``can_fuse_relu``: forward can apply a leaky ReLU to its top;
    - ``follows_layout``: works on channels_last images too; ``follows_precision``: then also on 16-bit ones;
    - ``sums_spatially``: each number of a top may depend on all places of the bottoms; ``needs_images``: its bottoms
      are images.
    """

    type = ""
    field = ""
    bottoms: tuple[int, int | None] = (1, 1)
    tops: tuple[int, int | None] = (1, 1)
    constant_bottoms: frozenset[int] = frozenset()
    constant_tops: frozenset[int] = frozenset()
    files: tuple[str, ...] = ()
    frozen_params = 0
    differentiable = feeds_ahead = True
    in_place = view = loss = adds_loss = takes_over_gradient = False
    feeds = reads_source = reads_images = batched = filled_once = varies = requires_host = writes = False
    can_fuse_relu = follows_layout = follows_precision = sums_spatially = needs_images = False
    config = LayerConfig()

    def __init__(self, spec: pb.LayerParameter, phase: int, locate: Locator):
        self.spec, self.phase, self.locate = spec, phase, locate
        self.name = spec.name
        self.p = getattr(spec, self.field) if self.field else None
        self.param_blobs: list[ParameterSpec] = []
        self.saved_shapes: dict[str, tuple[Shape, str | None]] = {}  # for ``saved_blobs``
        self.setup()

    # What a type defines: facts, before compilation

    def setup(self) -> None:
        """Checks of the message that need no shapes."""

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        """Top shapes from bottom shapes; fills ``param_blobs`` and ``saved_shapes``; raises an error that names the
        blob."""
        raise NotImplementedError

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        """Products with learned weights in one forward pass."""
        return 0

    def prefers_channels_last(self, traits: DeviceTraits) -> bool:
        """Whether the layer runs faster on channels_last images on a device of these traits."""
        return False

    # What a type defines: facts that may depend on ``config``

    def rounds_bottoms(self) -> bool:
        """Whether forward saves copies of its bottoms of 16-bit numbers, which its products multiply."""
        return False

    def saved_blobs(self) -> SavedBlobs:
        """What forward keeps for backward, by name: shape, dtype (None: the net's)."""
        return self.saved_shapes

    def backward_reads_bottom(self, index: int) -> bool:
        return True

    def backward_reads_top(self, index: int) -> bool:
        return True

    def can_fuse(self, follower: Layer) -> bool:
        """Whether the layer can do the work, forward and backward, of one that alone reads its top (a Scale)."""
        return False

    def can_fuse_sum(self, follower: Layer) -> bool:
        """Whether the layer can do the work, forward and backward, of one that adds its top and another blob."""
        return False

    def can_fuse_relu_backward(self) -> bool:
        """Whether backward includes that of a fused ReLU."""
        return self.relu_backward_overwrites()

    def relu_backward_overwrites(self) -> bool:
        """Whether backward multiplies the top's gradient by the slope of a fused ReLU in place."""
        return False

    def most_gradient_parts(self) -> int:
        """In how many arrays, at most, backward takes its only top's gradient: ``dy`` then are these parts."""
        return 1

    def takes_slices(self) -> bool:
        """Whether its tops, and their gradients, may be slices of wider rows."""
        return False

    def passes_gradient(self, index: int) -> bool:
        """Whether a bottom's gradient is that of the first top; backward then writes nothing where both are one
        array."""
        return False

    def top_slices(self) -> list[tuple[int, int]]:
        """For a layer that only copies its bottoms into its top: (start, pitch) of each, as in net/slices.py."""
        return []

    # What a type defines: how it runs, once it is bound

    def build(self, dev) -> None:
        """Makes the device operations, once."""

    def feed(self, which: int, iteration: int, part: int) -> None:
        """Before a forward pass, writes what it takes from the host into the device's input buffer, as pass
        ``which``."""

    def signature(self) -> tuple:
        """What forward and backward depend on, where that may change, besides their arrays and the input buffer."""
        return ()

    def forward(self, x: list, y: list) -> None:
        """x: bottoms, y: tops to write."""
        raise NotImplementedError

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        """dy: gradients of tops (None where nothing needs it), dx: gradients of bottoms to write (None where not
        wanted).

        An array of ``x`` or ``y`` that backward does not read may have been overwritten.
        """
        raise NotImplementedError

    def faults(self) -> str | None:
        """What is wrong with the data of the last passes, or None. May wait for the device."""
        return None

    def counted(self, top: int):
        """How many samples the last pass's top is a mean of, a number or one for each of its values; None where that
        never changes."""
        return None

    # Compilation and binding

    def configured(self, config: LayerConfig) -> Self:
        """A copy that has ``config``."""
        copied = copy.copy(self)
        copied.config = config
        return copied

    def bound(self, dev, params: list) -> Self:
        """A copy on a device. params: a ParameterView each."""
        copied = copy.copy(self)
        copied.dev, copied.params, copied.carried, copied.total = dev, params, [], ()
        return copied

    saved: dict  # arrays by name, as ``saved_blobs`` says
    carried: list = ()  # arrays that keep their values from one pass to the next; snapshots store them
    total: tuple = ()  # where it adds its loss: the net's, and the weight
    resize: Callable[
        [list[Shape]], list
    ]  # where it varies: reshapes the tops and all layers above; returns the new tops
    fused_scale: Layer  # the bound Scale layer that runs as part of this one, where ``config`` says so

    # Helpers

    @property
    def channels_last(self) -> bool:
        """Whether its images are stored as N×H×W×C."""
        return self.config.format.channels_last

    def stored_split(self, split: tuple[int, int, int]) -> tuple[int, int, int]:
        """(N, C, P) of an image as it is stored: (N·P, C, 1) where it is channels_last."""
        n, c, p = split
        return (n * p, c, 1) if self.channels_last else split

    def as_stored(self, formula: Formula, *others: str) -> Formula:
        """A formula over images as they are stored: of 16-bit ones, all its arrays but ``others`` are of that dtype."""
        if self.config.format.dtype is None:
            return formula
        return replace(formula, halves=tuple(name for name in (*formula.arrays, "out") if name not in others))

    def rounded_blobs(self, shapes: list[Shape]) -> SavedBlobs:
        """The saved blobs for 16-bit copies of bottoms of these shapes; see ``rounds_bottoms``."""
        dtype = self.config.traits.product_dtype
        return {f"half {i}": (shape, dtype) for i, shape in enumerate(shapes)}

    def where(self, *path: str | int) -> Where:
        return self.locate(*((self.field, *path) if self.field and path else path))

    def error(self, what: str, *path: str | int, **parts: object) -> CaffeliteError:
        return CaffeliteError(f'layer "{self.name}" ({self.spec.type}): {what}', where=self.where(*path), **parts)

    def outer_error(self, what: str, *path: str | int, **parts: object) -> CaffeliteError:
        """An error in a field that every layer has."""
        return CaffeliteError(f'layer "{self.name}" ({self.spec.type}): {what}', where=self.locate(*path), **parts)

    def bottom_error(self, index: int, what: str, **parts: object) -> CaffeliteError:
        blob = self.spec.bottom[index]
        return CaffeliteError(
            f'layer "{self.name}" ({self.spec.type}): bottom "{blob}" {what}',
            where=self.locate("bottom", index),
            **parts,
        )

    def same_count(self, bottoms: list[Shape], a: int, b: int) -> None:
        if math.prod(bottoms[a]) != math.prod(bottoms[b]):
            expected = f'{math.prod(bottoms[a])} values, as "{self.spec.bottom[a]}" {list(bottoms[a])} has'
            raise self.bottom_error(
                b, "does not fit", expected=expected, found=f"{math.prod(bottoms[b])} {list(bottoms[b])}"
            )

    def axis(self, value: int, rank: int, name: str = "axis", end: bool = False) -> int:
        """A possibly negative axis made absolute; one that the bottom does not have is an error."""
        if not -rank <= value < rank + end:
            raise self.error(
                f"{name} {value} is outside the bottom's {rank} axes",
                name,
                expected=f"{-rank} to {rank - 1 + end}",
                found=value,
            )
        return value + rank if value < 0 else value

    def add_param(self, shape: Shape, filler: pb.FillerParameter, *path: str | int) -> None:
        fillers.check(filler, shape, self.locate.at(self.field, *path))
        self.param_blobs.append(ParameterSpec(shape, filler))

    @property
    def stream(self) -> int:
        """The layer's key for random numbers: from its name, so that other layers may come and go."""
        return zlib.crc32(self.name.encode())

    def _param_args(self, index: int) -> tuple:
        """A parameter's gradient (None where not wanted) and whether to add to it; absent parameters give None."""
        if index >= len(self.params):
            return None, False
        p = self.params[index]
        return (p.diff if p.wanted else None), p.add


def split_axis(shape: Shape, axis: int) -> tuple[int, int, int]:
    """(N, C, P): the product of the axes before, the axis itself, the product of those after."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def elementwise(name: str, y, dx, field: str = "", check: Callable | None = None, **constants) -> type[Layer]:
    """Registers a layer that is a formula: y of x, and dx of x, y and dy; None for dx: no gradient.

    y and dx may be functions of the message that give the text; a constant is a field's name or a function of the
    message. check(layer) raises an error for values that make no sense.
    """

    class Elementwise(Layer):
        in_place = follows_layout = follows_precision = True
        differentiable = dx is not None

        def setup(self) -> None:
            if check:
                check(self)
            self.constants = {c: f(self.p) if callable(f) else getattr(self.p, f) for c, f in constants.items()}
            self.y, self.dx = (self._formula(text(self.p) if callable(text) else text) for text in (y, dx or "0"))

        def _formula(self, text: str) -> Formula:
            """With no more arrays and constants than it uses."""
            every = Formula(text, ("x", "y", "dy"), constants=tuple(self.constants))
            return Formula(
                text, tuple(filter(every.uses, every.arrays)), constants=tuple(filter(every.uses, every.constants))
            )

        def shapes(self, bottoms: list[Shape]) -> list[Shape]:
            return [bottoms[0]]

        def backward_reads_bottom(self, index: int) -> bool:
            return "x" in self.dx.arrays

        def backward_reads_top(self, index: int) -> bool:
            return "y" in self.dx.arrays

        def build(self, dev) -> None:
            self._y, self._dx = (dev.map(self.as_stored(f), **self.constants) for f in (self.y, self.dx))

        def forward(self, x: list, y: list) -> None:
            self._y(*[x[0]] * len(self.y.arrays), y[0])

        def backward(self, x: list, y: list, dy: list, dx: list) -> None:
            arrays = {"x": x[0], "y": y[0], "dy": dy[0]}
            self._dx(*[arrays[a] for a in self.dx.arrays], dx[0])

    Elementwise.type = Elementwise.__name__ = Elementwise.__qualname__ = name
    Elementwise.field = field
    texts = [text if isinstance(text, str) else "see its formula" for text in (y, dx or "none")]
    Elementwise.__doc__ = f"y = {texts[0]}; dx = {texts[1]}; any shape."
    return register(Elementwise)
