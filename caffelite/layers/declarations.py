"""The properties that layer types declare. Some types set them from the message or the shapes."""

from __future__ import annotations


class Declarations:
    """How a layer may be wired, fed and stored:

    - ``bottoms``, ``tops``: fewest and most (None: any number);
    - ``field``: its message in LayerParameter;
    - ``in_place``: the first top may overwrite the first bottom; ``view``: the top is the bottom under another shape;
    - ``loss``: its first top has loss_weight 1 unless the message gives another;
    - ``differentiable``: backward exists; ``constant_bottoms``: bottoms that never get a gradient (labels);
      ``constant_tops``: tops whose gradient goes no further down; ``takes_over_gradient``: gives its bottom its top's
      gradient memory, as Caffe's Flatten does;
    - ``feeds``: tops come from outside (a source, the user) and not from bottoms, see `Feeding`; ``scheduled``:
      ``feed`` sets numbers that depend on the iteration, though the tops come from bottoms; ``files``: the fields of
      its message that name files to read, or ``message.field`` of another one;
    - ``reads_shapes_only``: its tops depend on the shapes of its bottoms, not on their numbers;
    - ``requires_host``: its passes need the host and cannot be captured in a graph; ``writes``: forward writes a file;
    - ``sums_spatially``: each number of a top may depend on all places of the bottoms; ``needs_images``: its bottoms
      are images;
    - ``couples_samples``: the numbers of a sample (its index on axis 0) may depend on other samples of the batch, or a
      loss of the batch is not the mean of the losses of its equal parts.
    """

    type = ""
    field = ""
    bottoms: tuple[int, int | None] = (1, 1)
    tops: tuple[int, int | None] = (1, 1)
    constant_bottoms: frozenset[int] = frozenset()
    constant_tops: frozenset[int] = frozenset()
    files: tuple[str, ...] = ()
    differentiable = True
    in_place = view = loss = takes_over_gradient = False
    feeds = scheduled = False
    requires_host = writes = False
    reads_shapes_only = False
    sums_spatially = needs_images = False
    couples_samples = True
