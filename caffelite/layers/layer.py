"""What a layer is: its shapes, its parameters, its mathematics, and what its backward pass reads."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..errors import CaffeliteError, Locator, Where
from . import fillers

Shape = tuple[int, ...]
REGISTRY: dict[str, type[Layer]] = {}


def register(cls: type[Layer]) -> type[Layer]:
    REGISTRY[cls.type or cls.__name__] = cls
    return cls


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter that a layer asks for: its shape and how it starts."""

    shape: Shape
    filler: pb.FillerParameter


class Layer:
    """A layer of one net. It learns its shapes from ``shapes``, its device and arrays from the net that binds it.

    Class attributes say how it may be wired and stored:

    - ``bottoms``, ``tops``: fewest and most (None: any number);
    - ``field``: its message in LayerParameter;
    - ``in_place``: the top may overwrite the bottom; ``view``: the top is the bottom under another shape;
    - ``loss``: its first top has loss_weight 1 unless told otherwise;
    - ``differentiable``: backward exists; ``constant_bottoms``: bottoms that never get a gradient (labels);
      ``constant_tops``: tops whose gradient goes no further down;
    - ``feeds``: tops come from outside (a source, the user) and not from bottoms.
    """

    type = ""
    bottoms: tuple[int, int | None] = (1, 1)
    tops: tuple[int, int | None] = (1, 1)
    field = ""
    in_place = False
    view = False
    loss = False
    adds_loss = False  # forward adds its first top, weighted, to the net's loss itself: see ``total``
    differentiable = True
    constant_bottoms: frozenset[int] = frozenset()
    constant_tops: frozenset[int] = frozenset()
    feeds = False
    takes_over_gradient = False  # hands its bottom its top's gradient memory, as Caffe's Flatten and Reshape do
    filled_once = False  # its tops stand from one pass to the next
    frozen_params = 0  # how many parameters, the first ones, are its own to change, not the solver's
    varies = False  # its tops' shapes depend on the data: it calls ``resize``
    requires_host = False  # its passes need the host: they cannot be captured in a graph
    writes = False  # its forward pass writes a file
    deep = True  # whether several passes can be fed at once
    can_fuse_relu = False  # forward can apply a leaky ReLU to its top: see ``slope``
    can_fuse_relu_backward = False  # where it does, its backward is that one's too
    most_parts = 1  # in how many parts at most backward takes its only top's gradient: ``dy`` then are these
    # in ``saved``: the first bottom's, which forward brings where the plan grants it; backward then does nothing
    ahead = "gradient"
    fuses_relu_backward = (
        False  # and multiplies the top's gradient by the slope where the top is not positive, in place
    )
    follows_layout = False  # works on images that lie channels last (N, H, W, C) as well: see ``last``
    last = False  # its images lie channels last
    follows_precision = (
        False  # where it follows the layout: works on images of bfloat16 numbers as well: see ``narrow``
    )
    narrow = False  # its images are of bfloat16 numbers
    takes_slices = (
        False  # where its images lie channels last: its tops, and their gradients, may be slices of wider rows
    )
    half = False  # its products are of numbers of half the width: what it keeps of its bottoms is ``saved["half i"]``

    def __init__(self, spec: pb.LayerParameter, phase: int, locate: Locator):
        self.spec, self.phase, self.locate = spec, phase, locate
        self.name = spec.name
        self.p = getattr(spec, self.field) if self.field else None
        self.param_blobs: list[ParameterSpec] = []
        self.saved_shapes: dict[
            str, tuple[Shape, str | None]
        ] = {}  # kept from forward to backward: name → shape, dtype (None: the net's)
        self.setup()

    # What a layer defines

    def setup(self) -> None:
        """Checks of the message that need no shapes."""

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        """Top shapes from bottom shapes; fills ``param_blobs`` and ``saved_shapes``; raises an error that names the
        blob."""
        raise NotImplementedError

    def backward_reads_bottom(self, index: int) -> bool:
        return True

    def backward_reads_top(self, index: int) -> bool:
        return True

    def can_fuse(self, follower: Layer) -> bool:
        """Whether it can do a layer's work, forward and backward, that alone reads its top: see ``fused_layer``."""
        return False

    def can_fuse_sum(self, follower: Layer) -> bool:
        """Whether it can do the work, forward and backward, of a layer that sums its top and another blob: see
        ``joined``."""
        return False

    def passes_gradient(self, index: int) -> bool:
        """Whether a bottom's gradient is that of the first top; backward then writes nothing where both are one
        array."""
        return False

    def slots(self) -> list[tuple[int, int]]:
        """Of each bottom, where in the top it is copied to, for layers that do no more than that: (start, pitch) as in
        slices.Slice."""
        return []

    def prefers_channels_last(self, dev) -> bool:
        """Whether its images should lie channels last (N, H, W, C) on this device."""
        return False

    def configure_for(self, dev) -> None:
        """Told, before the plan, which device it will run on."""

    def keep_halves(self, shapes: list[Shape]) -> None:
        """Asks for memory for what forward rounds of its bottoms, in whose place backward reads it."""
        self.half = True
        self.saved_shapes |= {f"half {i}": (shape, "uint16") for i, shape in enumerate(shapes)}

    def halves(self, bottoms: list) -> list:
        """What forward keeps of each bottom; None where it computes in full."""
        return [self.saved[f"half {i}"] if self.half else None for i in range(len(bottoms))]

    def use_channels_last(self) -> None:
        """Told, before the plan, that its images will lie channels last."""

    def spread(self, split: tuple[int, int, int]) -> tuple[int, int, int]:
        """(N, C, P) as it lies in memory: (N·P, C, 1) where channels are last."""
        n, c, p = split
        return (n * p, c, 1) if self.last else split

    def as_stored(self, formula: Formula, *others: str) -> Formula:
        """A formula over images as they are stored: where ``narrow``, all its arrays but for ``others`` are of bfloat16
        numbers."""
        if not self.narrow:
            return formula
        return replace(formula, halves=tuple(name for name in (*formula.arrays, "out") if name not in others))

    def build(self, dev) -> None:
        """Makes the device operations, once."""

    def feed(self, which: int, iteration: int, part: int) -> None:
        """Before a forward pass, what it takes from the host: put into fields of the device's input buffer, as its pass
        ``which``."""

    def signature(self) -> tuple:
        """What forward and backward depend on besides their arrays and what the input buffer brings, where that may
        change."""
        return ()

    def forward(self, x: list, y: list) -> None:
        """x: bottoms, y: tops to write."""
        raise NotImplementedError

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        """dy: gradients of tops (None where nothing needs it), dx: gradients of bottoms to write (None where not
        wanted).

        Where the plan says that backward does not read a bottom or top, its array holds something else by now.
        """
        raise NotImplementedError

    def faults(self) -> str | None:
        """What is wrong with the data that the last passes saw, or None. May wait for the device."""
        return None

    def counted(self, top: int):
        """How many samples the last pass's top is a mean of, a number or one for each of its values; None where that
        never changes."""
        return None

    # What the net sets when it binds a layer

    dev = None
    context = None  # of the net: see devices.context
    params: list = ()  # Param: data, diff, add (to what diff holds), wanted
    carried: list = ()  # arrays that go on from one pass to the next; snapshots keep them
    saved: dict
    resize: Callable[
        [list[Shape]], list
    ]  # where it varies: gives the tops other shapes, and the layers above; returns the new tops
    fused_layer: Layer | None = None  # the layer behind it that the plan fused into this one, with its parameters
    placed: set[int] = frozenset()  # bottoms that the plan has made in the top, as ``slots`` says
    handed: set[int] = frozenset()  # bottoms whose gradients it has in the top's
    joined = False  # the plan fused a sum into it: the other summand is its last bottom, whose gradient is the sum's
    total: tuple = ()  # where it adds its loss: the net's, and the weight
    slope: float | None = None  # of the leaky ReLU that the plan fused into this layer, or behind that one

    # Helpers

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
