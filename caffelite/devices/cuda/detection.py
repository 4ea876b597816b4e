"""The GPU's operations of detectors."""

from __future__ import annotations

import functools

import numpy as np

from ..formula import Formula
from ..interfaces import DetectionOptions, MultiBoxOptions, ProposalOptions, RegionOptions
from .formula_kernels import FormulaKernels
from .kernels import BLOCK
from .operations import Labels

LEAST_OVERLAP = 1e-6  # from which on an object is matched


class MultiBoxLoss(Labels):
    """See interfaces.MultiBoxLoss. Chooses what the CPU chooses where losses of negatives differ by more than rounding,
    or not at all."""

    MOST_BLOCKS = 1024

    def __init__(self, device: FormulaKernels, options: MultiBoxOptions):
        super().__init__(device)
        o, (images, priors, classes, locations, rows) = options, options.shape
        count, mines, kernel = images * priors, o.ratio is not None, functools.partial(device.kernel, "detection")
        threshold = float(max(o.each or 0, LEAST_OVERLAP))
        self._lists = kernel("object_lists", rows + images + 1, o.difficult, o.background, classes, images, rows)
        self._priors = kernel("match_priors", count, threshold, o.each is not None, o.within, images, priors)
        self._objects = kernel("match_objects", images * BLOCK, images, priors)
        of_scores = o.most_overlap, mines, o.logistic, o.background, o.agnostic, classes, images, priors
        self._keys = kernel("score_keys", count, *of_scores)
        ratio = np.float64(o.ratio or 0)
        self._hard = kernel("hard_negatives", images * BLOCK, ratio, images, priors) if mines else None
        weights = (-1 if o.divisor is None else o.divisor, o.weight, *o.weights)
        kinds = mines, o.logistic, o.squares, o.code, o.in_target
        tail = *map(np.float64, weights), *kinds, locations, classes, images, priors
        self._loss = kernel("multibox_loss", min(count, self.MOST_BLOCKS * BLOCK), *tail)
        self._rows = [device.empty(rows, np.int32), device.empty(images + 1, np.int32)]
        self._best = device.empty(rows), device.empty(rows, np.int32)
        self._matched, self._wanted = (device.empty(count, np.int32) for _ in range(2))
        self._overlaps, self._taken = device.empty(count), device.empty(count, np.uint8)
        self._negatives = device.empty(count, np.uint64), device.zeros(images, np.uint64)
        self._sums = device.empty(3 * self.MOST_BLOCKS, np.float64), self._come

    def forward(self, offsets, scores, priors, rows, gradients, loss, divisor) -> None:
        lists, matched, (keys, hard) = self._rows, self._matched, self._negatives
        self._lists(rows, *lists, self._first)
        self._priors(rows, *lists, priors, matched, self._overlaps, self._taken)
        self._objects(rows, *lists, priors, matched, self._taken, *self._best)
        self._keys(scores, rows, matched, self._overlaps, lists[1], self._wanted, keys)
        if self._hard:
            self._hard(matched, keys, hard)
        chosen = rows, matched, self._wanted, keys, hard
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


class Detections(Suppression):
    """See interfaces.Detections. The boxes of SSD's priors are the CPU's but for ``exp``."""

    def __init__(self, device: FormulaKernels, options: DetectionOptions):
        o, (images, priors, classes, locations) = options, options.shape
        super().__init__(device, images * o.labels, 1 if locations > 1 else o.labels, priors, o.most, o.threshold)
        fixed = float(o.least), o.background, o.code, o.in_target, locations, classes, images, priors
        self._candidates = device.kernel("detection", "ssd_candidates", images * priors, *fixed)

    def forward(self, offsets, scores, priors) -> None:
        self._candidates(offsets, scores, priors, self.boxes, self.values, self.keys)
        self.run()


class Proposals(Suppression):
    """See interfaces.Proposals. The boxes are the CPU's but for ``exp``."""

    def __init__(self, device: FormulaKernels, options: ProposalOptions):
        o, images, (height, width) = options, options.images, options.map
        anchors = len(o.base)
        count = height * width * anchors
        super().__init__(device, images, 1, count, min(count, o.most), o.threshold, True, o.enough)
        fixed = float(o.small), o.strict, o.stride, o.wide, anchors, images, height, width
        self._candidates = device.kernel("detection", "region_candidates", images * count, *fixed)
        self._base = device.uploaded(np.array(o.base, device.dtype))

    def forward(self, scores, offsets, info) -> None:
        self._candidates(scores, offsets, info, self._base, self.boxes, self.values, self.keys)
        self.run()


class RegionLoss(Labels):
    """See interfaces.RegionLoss. Equal to the CPU's but for the last bits of a double."""

    def __init__(self, device: FormulaKernels, options: RegionOptions):
        super().__init__(device)
        o, (images, anchors, _, height, width) = options, options.shape
        tail = o.wide, o.rows, *o.shape
        limits, scales = map(np.float64, (o.empty, o.most)), map(np.float64, (o.of_object, o.of_class, o.of_box))
        rules, predictions = (o.rescore, o.matches_sizes), images * anchors * height * width
        self._objects = device.kernel("grids", "region_objects", predictions, *limits, *tail)
        self._truths = device.kernel("grids", "region_truths", images * BLOCK, *scales, *rules, *tail)
        self._sizes = device.uploaded(np.array(o.sizes, np.float64).reshape(-1))
        self._sum = device.sum(Formula("e * e", ("e",)), scale=1 / images)

    def forward(self, x, label, errors, loss) -> None:
        self._objects(x, label, self._sizes, errors, self._first)
        self._truths(x, label, self._sizes, errors, self._first, self.bad)
        self._sum(errors, loss)
