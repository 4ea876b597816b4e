"""What a layer type declares: how it may be wired and stored, and what its passes read."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from .config import LayerConfig, Shape

Which = bool | Collection[int]  # all, none, or those with these indices
MOST_AXES = 32  # of a blob, as in Caffe


def includes(which: Which, index: int) -> bool:
    return which if isinstance(which, bool) else index in which


def all_but(axis: int) -> Which:
    """Every axis of a blob but one."""
    return frozenset(range(MOST_AXES)) - {axis}


class Compilable:
    """The properties of a layer that needs, reads and fuses nothing special. Some types set them from the message or
    the shapes; the answers of methods, but for ``multiply_adds``, may depend on ``config``.

    - ``bottoms``, ``tops``: fewest and most (None: any number);
    - ``field``: its message in LayerParameter; ``upstream``: BVLC's Caffe has the type;
    - ``in_place``: the first top may overwrite the first bottom; ``view``: the top is the bottom under another shape;
    - ``loss``: its first top has loss_weight 1 unless the message gives another;
    - ``differentiable``: backward exists; ``constant_bottoms``: bottoms that never get a gradient (labels);
      ``constant_tops``: tops whose gradient goes no further down;
    - ``unread``: fields of its message that another type reads, each with that type;
    - ``converted``: fields of its message that reading a file converts: none is left with an effect;
    - ``files``: the fields of its message that name files to read, or ``message.field`` of another one;
    - ``requires_host``: its passes need the host and cannot be captured in a graph;
    - ``backward_reads_bottoms``, ``backward_reads_tops``: which of them;
    - ``needs_images``: its bottoms are images;
    - ``couples_samples``: the numbers of a sample (its index on axis 0) may depend on other samples of the batch, or a
      loss of the batch is not the mean of the losses of its equal parts;
    - ``divisible_axes``: the axes of the tops (0: samples, 1: channels) of which a shard depends on the same shard of
      the bottoms alone, and on all of each parameter or the same shard of it; by default 0, unless samples are coupled;
    - ``saved_shapes``: what forward keeps for backward, by name: shape and dtype (None: the net's).
    """

    type = ""
    field = ""
    upstream = True
    bottoms: tuple[int, int | None] = (1, 1)
    tops: tuple[int, int | None] = (1, 1)
    more_tops_remedy: str | None = None  # what a layer with too many tops should be
    constant_bottoms: frozenset[int] = frozenset()
    constant_tops: frozenset[int] = frozenset()
    unread: Mapping[str, str] = MappingProxyType({})
    converted: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    differentiable = True
    in_place = view = loss = requires_host = needs_images = False
    couples_samples = True
    config = LayerConfig()
    saved_shapes: dict[str, tuple[Shape, str | None]]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        """Products with learned weights in one forward pass."""
        return 0

    @property
    def backward_reads_bottoms(self) -> Which:
        return True

    @property
    def backward_reads_tops(self) -> Which:
        return True

    @property
    def divisible_axes(self) -> Which:
        return () if self.couples_samples else (0,)
