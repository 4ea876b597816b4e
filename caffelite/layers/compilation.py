"""What a layer type declares: how it may be wired and stored, and what its passes read."""

from __future__ import annotations

from collections.abc import Collection

from .config import LayerConfig, Shape

Which = bool | Collection[int]  # all, none, or those with these indices


class Compilable:
    """The properties of a layer that needs, reads and fuses nothing special. Some types set them from the message or
    the shapes; the answers of methods, but for ``multiply_adds``, may depend on ``config``.

    - ``bottoms``, ``tops``: fewest and most (None: any number);
    - ``field``: its message in LayerParameter;
    - ``in_place``: the first top may overwrite the first bottom; ``view``: the top is the bottom under another shape;
    - ``loss``: its first top has loss_weight 1 unless the message gives another;
    - ``differentiable``: backward exists; ``constant_bottoms``: bottoms that never get a gradient (labels);
      ``constant_tops``: tops whose gradient goes no further down;
    - ``files``: the fields of its message that name files to read, or ``message.field`` of another one;
    - ``requires_host``: its passes need the host and cannot be captured in a graph;
    - ``backward_reads_bottoms``, ``backward_reads_tops``: which of them;
    - ``needs_images``: its bottoms are images;
    - ``couples_samples``: the numbers of a sample (its index on axis 0) may depend on other samples of the batch, or a
      loss of the batch is not the mean of the losses of its equal parts;
    - ``divisible_axes``: for which axes of the tops ``divisible`` holds (None: 0, unless samples are coupled);
    - ``saved_shapes``: what forward keeps for backward, by name: shape and dtype (None: the net's).
    """

    type = ""
    field = ""
    bottoms: tuple[int, int | None] = (1, 1)
    tops: tuple[int, int | None] = (1, 1)
    constant_bottoms: frozenset[int] = frozenset()
    constant_tops: frozenset[int] = frozenset()
    files: tuple[str, ...] = ()
    differentiable = True
    in_place = view = loss = requires_host = needs_images = False
    couples_samples = True
    divisible_axes: Which | None = None
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

    def divisible(self, axis: int) -> bool:
        """Whether a part of each top along ``axis`` (0: samples, 1: channels) depends on the same part of the bottoms
        alone, and on all of each parameter or the same part of it."""
        if self.divisible_axes is None:
            return axis == 0 and not self.couples_samples
        return self.divisible_axes if isinstance(self.divisible_axes, bool) else axis in self.divisible_axes
