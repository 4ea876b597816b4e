"""AnchorTarget, and the anchors that Proposal moves too.

A box is a row x1, y1, x2, y2 in pixels, whose last row and column belong to it: its width is x2 - x1 + 1. Source:
rbgirshick/py-faster-rcnn lib/rpn/generate_anchors.py.
"""

import math
from collections.abc import Sequence

import numpy as np

from ...detection import boxes
from ...layers.base import fillers, require
from ...layers.base.facets import Learned
from ...layers.base.layer import Layer, Shape, register

RATIOS, SCALES = (0.5, 1.0, 2.0), (8.0, 16.0, 32.0)


def base_anchors(
    base_size: int, ratios: Sequence[float], scales: Sequence[float], halves_to_even: bool = False
) -> np.ndarray:
    """A×4 of float64: for each ratio of height to width, for each scale, a box about the center of the first
    ``base_size`` pixels. The sides of a ratio are rounded before they are scaled: halves up, or to the even number."""
    area, center = float(base_size * base_size), 0.5 * (base_size - 1)
    nearest = np.rint if halves_to_even else lambda side: np.floor(side + 0.5)
    anchors = []
    for ratio in ratios:
        width = nearest(np.sqrt(area / ratio))
        height = nearest(width * ratio)
        for scale in scales:
            half = 0.5 * (np.array([width, height]) * scale - 1)
            anchors.append([*(center - half), *(center + half)])
    return np.array(anchors)


def shifted_anchors(base: np.ndarray, stride: int, height: int, width: int) -> np.ndarray:
    """(H·W·A)×4: the anchors of each place of a feature map, in the order row, column, anchor."""
    y, x = np.mgrid[:height, :width] * stride
    shift = np.stack([x, y, x, y], -1).astype(base.dtype)
    return (shift[:, :, None] + base).reshape(-1, 4)


class Anchored(Layer):
    """The base class of layers that know the anchors of a feature map. Runs on the host."""

    differentiable = False
    requires_host = True

    def setup(self) -> None:
        p = self.p
        require.positive(self, "feat_stride", "base_size")
        for name in ("ratio", "scale"):
            for i, value in enumerate(getattr(p, name)):
                if not 0 < value < math.inf:
                    raise self.error(f"a bad {name}", name, i, expected="a finite number above 0", found=f"{value:g}")
        self.of_python = self.spec.HasField("python_param")  # see python_names.py
        ratios, scales = list(p.ratio) or RATIOS, list(p.scale) or SCALES
        self.base = base_anchors(p.base_size, ratios, scales, halves_to_even=self.of_python)


@register
@Learned(only_shapes=True)
class AnchorTarget(Anchored):
    """What a region proposal network shall say of one image: scores (1, 2·A, H, W), of which only the shape counts,
    boxes (G, 5), x1, y1, x2, y2 and label, im_info (1, 3), and optionally the image → labels (1, 1, A·H, W), 1, 0 or
    -1 (none), offsets, inside weights and outside weights (1, 4·A, H, W). A (N, ...) blob has N = 1.

    An anchor inside the image is positive (1) if it overlaps a box by positive_overlap, or most of all anchors (and at
    all); it is negative (0) if it overlaps all boxes by less than negative_overlap. Of both kinds random ones are
    dropped, so that batch_size stay, of which at most fg_fraction are positive. The random numbers depend on seed,
    layer and iteration.
    Inside weights are 1 for positive anchors; outside weights are 1 / (number of labels). A row of boxes with a label
    below 1 is no box. No gradients. Errors: several images. Source: Ren et al. 2015; as the Python layer
    rpn.anchor_target_layer.AnchorTargetLayer of rbgirshick/py-faster-rcnn lib/rpn.
    """

    field = "anchor_target_param"
    bottoms, tops = (3, 4), (4, 4)
    constant_bottoms = frozenset(range(4))

    def setup(self) -> None:
        super().setup()
        p = self.p
        require.shares(self, "fg_fraction", "positive_overlap", "negative_overlap")
        require.positive(self, "batch_size")
        require.value(self, "positive_weight", p.positive_weight == -1 or 0 < p.positive_weight < 1, "0 to 1, or -1")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        scores, count = bottoms[0], len(self.base)
        require.fits(self, bottoms, 0, len(scores) == 4 and scores[0] == 1, f"1×{2 * count}×H×W", "is not of one image")
        check_objects(self, bottoms[1], 1)
        require.fits(self, bottoms, 2, math.prod(bottoms[2]) >= 3, "height, width, scale")
        self.map = scores[2:]
        height, width = self.map
        return [(1, 1, count * height, width), *[(1, 4 * count, height, width)] * 3]

    def forward(self, x: list, y: list) -> None:
        objects = real_objects(self.dev.download(x[1]))
        height, width = (float(v) for v in self.dev.download(x[2]).reshape(-1)[:2])
        shifted = shifted_anchors(self.base, self.p.feat_stride, *self.map)
        border = self.p.allowed_border
        within = (
            (shifted[:, :2] >= -border).all(1) & (shifted[:, 2] < width + border) & (shifted[:, 3] < height + border)
        )
        inside = np.flatnonzero(within)
        labels, targets = self._labels(shifted[inside], objects)
        drawn = fillers.generator(self.context.seed, self.name, 0, *self.context.clock)
        self._sample(labels, drawn)
        weights = np.zeros((2, len(inside), 4))
        weights[0, labels == 1] = 1
        ones, zeros = (max(1, int(np.count_nonzero(labels == kind))) for kind in (1, 0))
        positive = negative = 1 / max(1, int(np.count_nonzero(labels >= 0)))
        if self.p.positive_weight != -1:
            positive, negative = self.p.positive_weight / ones, (1 - self.p.positive_weight) / zeros
        weights[1, labels == 1], weights[1, labels == 0] = positive, negative
        every = np.full(len(shifted), -1.0)
        every[inside] = labels
        self._upload(y[0], every[:, None], 1)
        for top, values in zip(y[1:], (targets, *weights), strict=True):
            spread = np.zeros((len(shifted), 4))
            spread[inside] = values
            self._upload(top, spread, 4)

    def _labels(self, shifted: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of all anchors inside the image, and their offsets to the objects that they overlap most."""
        labels = np.full(len(shifted), -1.0)
        if not len(objects) or not len(shifted):
            labels[:] = 0
            return labels, np.zeros((len(shifted), 4))
        common = boxes.rcnn_overlaps(shifted, objects[:, :4])
        nearest, most = common.argmax(1), common.max(1)
        best = common.max(0)
        negative = most < self.p.negative_overlap
        labels[negative] = 0
        labels[((common == best) & (best > 0)).any(1)] = 1
        labels[most >= self.p.positive_overlap] = 1
        if self.p.clobber_positives:
            labels[negative] = 0
        return labels, boxes.rcnn_encode(shifted, objects[nearest, :4])

    def _sample(self, labels: np.ndarray, drawn: np.random.Generator) -> None:
        most = int(self.p.fg_fraction * self.p.batch_size)
        for kind in (1, 0):
            members = np.flatnonzero(labels == kind)
            if len(members) > most:
                labels[drawn.choice(members, len(members) - most, replace=False)] = -1
            most = self.p.batch_size - np.count_nonzero(labels == 1)

    def _upload(self, top, rows: np.ndarray, values: int) -> None:
        """Rows in the order row, column, anchor, to a blob with the order anchor, value, row, column."""
        spread = rows.reshape(*self.map, len(self.base) * values).transpose(2, 0, 1)
        self.dev.upload(top, spread.reshape(top.shape))


def check_objects(layer: Layer, shape: Shape, index: int) -> None:
    """Checks a bottom with the objects of an image: x1, y1, x2, y2, label."""
    if not shape or math.prod(shape[1:]) != 5:
        expected = "G×5: x1, y1, x2, y2, label"
        raise layer.bottom_error(index, "is no list of objects", expected=expected, found=list(shape))


def real_objects(rows: np.ndarray) -> np.ndarray:
    """The rows with a label of 1 or more and four finite numbers, as float64."""
    rows = rows.reshape(-1, 5).astype(np.float64)
    return rows[(rows[:, 4] >= 1) & np.isfinite(rows).all(1)]
