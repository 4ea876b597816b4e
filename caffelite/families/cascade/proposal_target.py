"""ProposalTarget of cascades: the boxes that train a stage."""

import math

import numpy as np

from ...detection import boxes
from ...detection.matching import sampled
from ...layers.base import fillers, require
from ...layers.base.layer import Layer, Shape, register_variant
from ...layers.base.state import Varying
from .stages import normalization

LEAST_SIDE = 32  # of a random box
TRIES = 1000  # random boxes that may all be objects


FIELDS = (  # of proposal_target_param, which make it this layer
    *("cls_num", "num_img_per_batch", "fg_thr", "bg_thr_hg", "bg_thr_lw", "img_width", "img_height"),
    *("iou_weighted", "bbox_thr_lw", "bbox_thr_hg", "pickup_discard", "append_gtbox"),
)


@register_variant(lambda spec: any(map(spec.proposal_target_param.HasField, FIELDS)))
class CascadeProposalTarget(Varying, Layer):
    """The sample of boxes that a stage of a cascade learns from: boxes (R, 5), image, x1, y1, x2, y2, and objects
    (G, C), image, x1, y1, x2, y2, label, ignored, … → boxes (S, 5), labels (S), offsets, inside and outside weights
    (S, W), the matched objects (S, 6), label, x1, y1, x2, y2, overlap, and optionally weights (S); W is 4 · cls_num, or
    8 where bbox_reg_param has cls_aware: false. Selected by the fields cls_num, fg_thr, … of proposal_target_param.

    A box has the label of the object of its image that it overlaps most, if by fg_thr; it is background if by less
    than bg_thr_hg and at least bg_thr_lw. Boxes of ignored objects are no candidates, nor are boxes that are not
    finite. batch_size boxes are drawn, of which at most fg_fraction are objects; other boxes fill the sample where
    pickup_discard; batch_size -1: all boxes. Where none is left: a random box of background. Weights: 1 or, with
    iou_weighted, the overlap, scaled so that objects have the share fg_fraction of their sum. The random numbers
    depend on seed, layer and iteration. No gradients. Errors: no cls_num, thresholds that overlap, an image or a label
    out of range. Source: zhaoweicai/cascade-rcnn src/caffe/layers/proposal_target_layer.cpp.
    """

    type = "ProposalTarget"
    field = "proposal_target_param"
    bottoms, tops = (2, 2), (6, 7)
    constant_bottoms = frozenset(range(2))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        p = self.p
        if p.HasField("num_classes"):
            raise self.error("has both num_classes and cls_num", "num_classes", remedy="leave out num_classes")
        require.value(self, "cls_num", p.cls_num >= 2, "2 or more, the background included")
        require.value(self, "batch_size", p.batch_size >= 1 or p.batch_size == -1, "1 or more, or -1")
        require.shares(self, "fg_fraction")
        if not p.bg_thr_lw <= p.bg_thr_hg <= p.fg_thr:
            expected = "bg_thr_lw <= bg_thr_hg <= fg_thr"
            found = f"{p.bg_thr_lw:g}, {p.bg_thr_hg:g}, {p.fg_thr:g}"
            raise self.error("bad thresholds", "bg_thr_hg", expected=expected, found=found)
        self.mean, self.deviation = normalization(self)
        self.columns = p.cls_num if self.spec.bbox_reg_param.cls_aware else 2

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.boxes(self, bottoms, 0)
        if not bottoms[1] or math.prod(bottoms[1][1:]) < 7:
            expected, found = "G×8: image, x1, y1, x2, y2, label, ignored, difficult", f"shape {list(bottoms[1])}"
            raise self.bottom_error(1, "is no list of objects", expected=expected, found=found)
        every = bottoms[0][0] + (bottoms[1][0] if self.p.append_gtbox else 0)
        count = every if self.p.batch_size == -1 else self.p.batch_size
        wide = (count, 4 * self.columns)
        shapes: list[Shape] = [(count, 5), (count,), wide, wide, wide, (count, 6), (count,)]
        return shapes[: len(self.spec.top)]

    def forward(self, x: list, y: list) -> None:
        rois, objects = (self.dev.download(array).astype(float).reshape(len(array), -1) for array in x)
        rois, objects = rois[np.isfinite(rois).all(1)], objects[objects[:, 0] != -1]
        self._check(rois, objects)
        every = np.concatenate([rois, objects[:, :5]]) if self.p.append_gtbox else rois
        overlap, nearest = self._matches(every, objects)
        generator = fillers.generator(self.context.seed, self.name, 0, *self.context.clock)
        positive, negative = self._sample(generator, overlap, nearest, objects)
        if not len(positive) and not len(negative):
            every = np.concatenate([every, [self._random_box(generator, objects)]])
            overlap, nearest, negative = np.append(overlap, 0.0), np.append(nearest, -1), np.array([len(every) - 1])
        tops = self._targets(every, objects, np.concatenate([positive, negative]), len(positive), overlap, nearest)
        self.write_tops(y, tops[: len(y)])

    def _check(self, rois: np.ndarray, objects: np.ndarray) -> None:
        images = np.concatenate([rois[:, 0], objects[:, 0]])
        wrong = images[~((images >= 0) & (images < self.p.num_img_per_batch))]
        if len(wrong):
            expected = f"0 to {self.p.num_img_per_batch - 1}, by num_img_per_batch"
            raise self.error("a box of no image", "num_img_per_batch", expected=expected, found=f"{wrong[0]:g}")
        labels = objects[objects[:, 6] == 0, 5]
        wrong = labels[~((labels >= 1) & (labels < self.p.cls_num))]
        if len(wrong):
            what = f'a label in bottom "{self.spec.bottom[1]}" is no class'
            raise self.error(what, "cls_num", expected=f"1 to {self.p.cls_num - 1}", found=f"{wrong[0]:g}")

    def _matches(self, every: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest overlap of each box with an object of its image, and the object's index, -1: no object."""
        if not len(objects):
            return np.zeros(len(every)), np.full(len(every), -1)
        table = boxes.overlaps(every[:, 1:5], objects[:, 1:5], pixels=True)
        table[every[:, :1] != objects[None, :, 0]] = -1
        nearest = table.argmax(1)
        overlap = table[np.arange(len(every)), nearest]
        return np.maximum(overlap, 0), np.where(overlap < 0, -1, nearest)

    def _sample(
        self, generator: np.random.Generator, overlap: np.ndarray, nearest: np.ndarray, objects: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the boxes of objects and of background that are drawn."""
        p = self.p
        matched = (overlap >= p.fg_thr) & (nearest >= 0)
        background = ~matched & (overlap >= p.bg_thr_lw) & (overlap < p.bg_thr_hg)
        others = np.flatnonzero(~matched & ~background)
        if len(objects):
            matched &= objects[nearest, 6] == 0
        positive, negative = np.flatnonzero(matched), np.flatnonzero(background)
        size, most = len(positive) + len(negative), len(positive)
        if p.batch_size != -1:
            size, most = p.batch_size, math.floor(p.fg_fraction * p.batch_size + 0.5)
        positive = sampled(generator, positive, most)
        left = size - len(positive)
        if len(negative) > left:
            negative = sampled(generator, negative, left)
        elif p.pickup_discard:
            negative = np.concatenate([negative, others[: left - len(negative)]])
        return positive, negative

    def _random_box(self, generator: np.random.Generator, objects: np.ndarray) -> list[float]:
        """A box of at least 32 pixels a side that is no object."""
        p = self.p
        if min(p.img_width, p.img_height) <= LEAST_SIDE:
            remedy = f"set img_width and img_height above {LEAST_SIDE}: a random box replaces it"
            raise self.error("no box of the batch is left", "img_width", remedy=remedy)
        for _ in range(TRIES):
            image = int(generator.integers(p.num_img_per_batch))
            x, y = (int(generator.integers(side - LEAST_SIDE)) for side in (p.img_width, p.img_height))
            sides = [int(generator.integers(side - at)) for side, at in ((p.img_width, x), (p.img_height, y))]
            width, height = (max(LEAST_SIDE, side) for side in sides)
            box: list[float] = [image, x, y, x + width - 1, y + height - 1]
            own = objects[objects[:, 0] == image, 1:5]
            if not (boxes.overlaps(np.array([box[1:]], float), own, pixels=True) >= p.fg_thr).any():
                return box
        raise self.error("no box of the batch is left, and objects cover the image")

    def _targets(
        self,
        every: np.ndarray,
        objects: np.ndarray,
        sampled: np.ndarray,
        positive_count: int,
        overlap: np.ndarray,
        near: np.ndarray,
    ) -> list[np.ndarray]:
        """The values of all tops; the first ``positive_count`` of the boxes ``sampled`` are objects."""
        p, count = self.p, len(sampled)
        labels, matches = np.zeros(count), np.zeros((count, 6))
        targets, weights = np.zeros((2, count, self.columns, 4))
        if positive_count:
            first, rows = sampled[:positive_count], np.arange(positive_count)
            matched = objects[near[first]]
            labels[:positive_count] = matched[:, 5]
            columns = np.minimum(labels[:positive_count], self.columns - 1).astype(int)
            moves = boxes.rcnn_encode(every[first, 1:], matched[:, 1:5])
            targets[rows, columns] = (moves - self.mean) / self.deviation
            within = (overlap[first] >= p.bbox_thr_lw) & (overlap[first] <= p.bbox_thr_hg)
            weights[rows, columns] = within[:, None]
            matches[:positive_count] = np.column_stack([matched[:, 5], matched[:, 1:5], overlap[first]])
        scores = np.ones(count)
        if p.iou_weighted:
            scores[:positive_count] = matches[:positive_count, 5]
        positive, negative = scores[:positive_count].sum(), scores[positive_count:].sum()
        if positive:
            scores[:positive_count] *= p.fg_fraction * count / positive
            scores[positive_count:] *= (1 - p.fg_fraction) * count / negative if negative else 1
        targets, weights = (table.reshape(count, -1) for table in (targets, weights))
        return [every[sampled], labels, targets, weights, weights, matches, scores]
