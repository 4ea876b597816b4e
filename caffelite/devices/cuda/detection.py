"""The GPU's operations of detectors."""

import functools

import numpy as np

from .. import detection_ops as ops
from ..formula import Formula
from .formula_kernels import FormulaKernels
from .kernels import BLOCK
from .operations import Labels
from .registry import implements

LEAST_OVERLAP = 1e-6  # from which on an object is matched


@implements(ops.MultiBoxLoss)
class MultiBoxLoss(Labels):
    """Chooses what the CPU chooses where losses of negatives differ by more than rounding, or not at all."""

    MOST_BLOCKS = 1024

    def __init__(self, device: FormulaKernels, op: ops.MultiBoxLoss):
        super().__init__(device)
        o, images, priors, classes, rows = op, op.images, op.priors, op.classes, op.objects
        count = images * priors
        mines = o.negative_ratio is not None
        kernel = functools.partial(device.kernel, "detection")
        threshold = float(max(o.overlap_threshold or 0, LEAST_OVERLAP))
        self._lists = kernel("object_lists", rows + images + 1, o.difficult, o.background, classes, images, rows)
        self._priors = kernel(
            "match_priors", count, threshold, o.overlap_threshold is not None, o.inside_only, images, priors
        )
        self._objects = kernel("match_objects", images * BLOCK, images, priors)
        of_scores = o.negative_overlap, mines, o.logistic, o.background, o.agnostic, classes, images, priors
        self._keys = kernel("score_keys", count, *of_scores)
        ratio = np.float64(o.negative_ratio or 0)
        self._hard = kernel("hard_negatives", images * BLOCK, ratio, images, priors) if mines else None
        weights = (-1 if o.divisor is None else o.divisor, o.location_weight, *o.weights)
        kinds = mines, o.logistic, o.squared, o.code_type, o.variance_in_target
        tail = *map(np.float64, weights), *kinds, o.locations, classes, images, priors
        self._loss = kernel("multibox_loss", min(count, self.MOST_BLOCKS * BLOCK), *tail)
        self._rows = [device.empty(rows, np.int32), device.empty(images + 1, np.int32)]
        self._best = device.empty(rows), device.empty(rows, np.int32)
        self._matched, self._wanted = (device.empty(count, np.int32) for _ in range(2))
        self._overlaps, self._taken = device.empty(count), device.empty(count, np.uint8)
        self._negatives = device.empty(count, np.uint64), device.zeros(images, np.uint64)
        self._sums = device.empty(3 * self.MOST_BLOCKS, np.float64), self._come

    def forward(self, offsets, scores, priors, objects, gradients, loss, divisor) -> None:
        lists, matched, (keys, hard) = self._rows, self._matched, self._negatives
        self._lists(objects, *lists, self._first)
        self._priors(objects, *lists, priors, matched, self._overlaps, self._taken)
        self._objects(objects, *lists, priors, matched, self._taken, *self._best)
        self._keys(scores, objects, matched, self._overlaps, lists[1], self._wanted, keys)
        if self._hard:
            self._hard(matched, keys, hard)
        chosen = objects, matched, self._wanted, keys, hard
        self._loss(offsets, scores, priors, *chosen, *gradients, loss, divisor, self.bad, *self._sums, self._first)


class Suppression:
    """Non-maximum suppression in segments of ``count`` boxes, of which ``each`` in a row share their boxes. most: the
    best that are looked at; enough: how many may stay at least."""

    def __init__(
        self,
        device: FormulaKernels,
        segments: int,
        each: int,
        count: int,
        most: int,
        threshold: float,
        pixels: bool = False,
        enough: int | None = None,
    ):
        words, tail = -(-most // 64), (most, segments, count)

        def kernel(name, threads, *fixed):
            return device.kernel("detection", name, threads, *fixed, *tail)

        self._select = kernel("select_best", segments * BLOCK)
        self._sort = kernel("sort_best", segments * count)
        self._masks = kernel("overlap_masks", segments * most * words, float(threshold), pixels, each, words)
        self._suppress = kernel("suppressed", segments * BLOCK, most if enough is None else enough, each, words)
        candidates = segments * count
        self.boxes, self.values = device.empty(candidates // each * 4), device.empty(candidates)
        self.keys, self._bound = device.empty(candidates, np.uint64), device.empty(segments, np.uint64)
        self._order, self.counts = device.empty(segments * most, np.int32), device.empty(segments, np.int32)
        self._dropped = device.empty(segments * words, np.uint64)
        self._table = functools.partial(device.workspace, segments * most * words, np.uint64)
        self.rows = device.empty((segments, most, 5))

    def run(self) -> None:
        self._select(self.keys, self._bound, self.counts)
        self._sort(self.keys, self._bound, self._order)
        self._masks(self.boxes, self._order, self.counts, masks := self._table())
        self._suppress(self.boxes, self.values, self._order, masks, self._dropped, self.counts, self.rows)


@implements(ops.Detections)
class Detections(Suppression):
    """The boxes of SSD's priors are the CPU's but for ``exp``."""

    def __init__(self, device: FormulaKernels, op: ops.Detections):
        segments, each = op.images * op.labels, 1 if op.locations > 1 else op.labels
        super().__init__(device, segments, each, op.priors, op.top_k, op.nms_threshold)
        fixed = float(op.confidence_threshold), op.background, op.code_type, op.variance_in_target
        sizes = op.locations, op.classes, op.images, op.priors
        self._candidates = device.kernel("detection", "ssd_candidates", op.images * op.priors, *fixed, *sizes)

    def forward(self, offsets, scores, priors) -> None:
        self._candidates(offsets, scores, priors, self.boxes, self.values, self.keys)
        self.run()


@implements(ops.Proposals)
class Proposals(Suppression):
    """The boxes are the CPU's but for ``exp``."""

    def __init__(self, device: FormulaKernels, op: ops.Proposals):
        o, images, (height, width), anchors = op, op.images, op.map, len(op.anchors)
        count = height * width * anchors
        super().__init__(device, images, 1, count, min(count, o.pre_nms), o.nms_threshold, True, o.post_nms)
        fixed = float(o.min_size), o.strict, o.stride, o.info, anchors, images, height, width
        self._candidates = device.kernel("detection", "region_candidates", images * count, *fixed)
        self._base = device.uploaded(np.array(o.anchors, device.dtype))

    def forward(self, scores, offsets, info) -> None:
        self._candidates(scores, offsets, info, self._base, self.boxes, self.values, self.keys)
        self.run()


@implements(ops.RegionLoss)
class RegionLoss(Labels):
    """Equal to the CPU's but for the last bits of a double."""

    def __init__(self, device: FormulaKernels, op: ops.RegionLoss):
        super().__init__(device)
        o, (images, anchors, _, height, width) = op, op.shape
        tail, limits = (o.wide, o.rows, *o.shape), map(np.float64, (o.noobject_scale, o.threshold))
        scales = map(np.float64, (o.object_scale, o.class_scale, o.coord_scale))
        rules, predictions = (o.rescore, o.bias_match), images * anchors * height * width
        self._objects = device.kernel("grids", "region_objects", predictions, *limits, *tail)
        self._truths = device.kernel("grids", "region_truths", images * BLOCK, *scales, *rules, *tail)
        self._sizes = device.uploaded(np.array(o.anchors, np.float64).reshape(-1))
        self._sum = device.sum(Formula("e * e", ("e",)), scale=1 / images)

    def forward(self, x, label, errors, loss) -> None:
        self._objects(x, label, self._sizes, errors, self._first)
        self._truths(x, label, self._sizes, errors, self._first, self.bad)
        self._sum(errors, loss)
