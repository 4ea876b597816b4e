"""Region proposal networks: Proposal, and AnchorTarget, which trains them."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection import anchors, boxes
from ..devices.protocol import Device
from . import fillers
from .layer import Layer, Shape, register


class Anchored(Layer):
    """The base class of layers that know the anchors of a feature map. Runs on the host."""

    differentiable = False
    requires_host = True

    def setup(self) -> None:
        p = self.p
        for name in ("feat_stride", "base_size"):
            if getattr(p, name) < 1:
                raise self.error(f"{name} must be positive", name, expected="1 or more", found=getattr(p, name))
        for name in ("ratio", "scale"):
            for i, value in enumerate(getattr(p, name)):
                if not 0 < value < math.inf:
                    expected = "a finite number above 0"
                    raise self.error(f"a bad {name}", name, i, expected=expected, found=f"{value:g}")
        self.of_python = self.spec.HasField("python_param")  # see python_names.py
        ratios, scales = list(p.ratio) or anchors.RATIOS, list(p.scale) or anchors.SCALES
        self.base = anchors.base_anchors(p.base_size, ratios, scales, halves_to_even=self.of_python)

    def share(self, name: str) -> float:
        """A field from 0 to 1."""
        value = getattr(self.p, name)
        if not 0 <= value <= 1:
            raise self.error(f"a bad {name}", name, expected="0 to 1", found=f"{value:g}")
        return value

    def build(self, dev: Device) -> None:
        """Nothing: the host does it all."""


@register
class Proposal(Anchored):
    """Boxes where objects may be: scores (N, 2·A, H, W), background first, offsets (N, 4·A, H, W) and im_info (N, 3),
    height, width and scale of each image → boxes (R, 5), image, x1, y1, x2, y2, and optionally their scores (R). A is
    the number of ratios times scales.

    Anchors are moved by their offsets and clipped to the image. The pre_nms_topn best of them enter non-maximum
    suppression; the first post_nms_topn of an image that stay are its boxes, best first. Boxes smaller than min_size ·
    scale get the score 0. R varies from pass to pass, and is N · post_nms_topn at most. A score that is NaN, or a box
    that is not finite, is dropped. Where nothing stays, the image itself is the only box, with score 0. No gradients.
    Source: Ren et al. 2015; luoyetx/mini-caffe src/layers/proposal_layer.cpp.

    As a Python layer, rpn.proposal_layer.ProposalLayer of rbgirshick/py-faster-rcnn lib/rpn: boxes smaller than
    min_size · scale are dropped, scores are (R, 1), and in TRAIN pre_nms_topn is 12000 and post_nms_topn 2000 by
    default.
    """

    field = "proposal_param"
    bottoms, tops = (3, 3), (1, 2)
    constant_bottoms = frozenset(range(3))
    varies = True

    def setup(self) -> None:
        super().setup()
        p = self.p
        train = self.of_python and self.phase == pb.TRAIN
        self.before = p.pre_nms_topn if p.HasField("pre_nms_topn") or not train else 12000
        self.after = p.post_nms_topn if p.HasField("post_nms_topn") or not train else 2000
        for name, value in (("pre_nms_topn", self.before), ("post_nms_topn", self.after)):
            if value < 1:
                raise self.error(f"{name} must be positive", name, expected="1 or more", found=value)
        self.threshold = self.share("nms_thresh")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        scores, offsets, info = bottoms
        count = len(self.base)
        for i, (shape, channels) in enumerate(((scores, 2 * count), (offsets, 4 * count))):
            expected = (scores[0], channels, *scores[2:]) if len(scores) == 4 else f"N×{channels}×H×W"
            if len(scores) != 4 or shape != expected:
                expected = f"{list(expected) if len(scores) == 4 else expected}, {count} anchors a place"
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(shape))
        images = scores[0]
        if not info or info[0] != images or math.prod(info[1:]) < 3:
            expected = f"[{images}, 3]: height, width, scale"
            raise self.bottom_error(2, "does not fit", expected=expected, found=list(info))
        self.images, self.map = images, scores[2:]
        self.count = images * min(self.after, self.before, count * math.prod(self.map))
        return self._tops(self.count)

    def _tops(self, count: int) -> list[Shape]:
        scores: Shape = (count, 1) if self.of_python else (count,)
        return [(count, 5), scores][: len(self.spec.top)]

    def forward(self, x: list, y: list) -> None:
        scores, offsets, info = (self.dev.download(blob) for blob in x)
        count = len(self.base)
        rows, best = [], []
        for n in range(self.images):
            ranked = scores[n, count:].transpose(1, 2, 0).reshape(-1)
            moves = offsets[n].reshape(count, 4, *self.map).transpose(2, 3, 0, 1).reshape(-1, 4)
            found, values = self._propose(ranked, moves, info[n].reshape(-1)[:3])
            rows.append(np.insert(found, 0, n, 1))
            best.append(values)
        every = np.concatenate(rows)
        if len(every) != self.count:
            self.count = len(every)
            y = self.resize(self._tops(self.count))
        for top, values in zip(y, (every, np.concatenate(best)), strict=False):
            self.dev.upload(top, np.ascontiguousarray(values, self.dev.dtype).reshape(top.shape))

    def _propose(self, scores: np.ndarray, moves: np.ndarray, info: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The boxes of an image, N×4, and their scores."""
        height, width, scale = info
        places = anchors.shifted(self.base.astype(moves.dtype), self.p.feat_stride, *self.map)
        with np.errstate(invalid="ignore", over="ignore"):
            found = boxes.rcnn_clip(boxes.rcnn_decode(places, moves), height, width)
            small = ((found[:, 2:] - found[:, :2] + 1) < self.p.min_size * scale).any(1)
        usable = np.isfinite(scores) & np.isfinite(found).all(1)
        if self.of_python:
            usable &= ~small
        else:
            scores = np.where(small, 0, scores)
        chosen = np.flatnonzero(usable)
        order = chosen[np.argsort(-scores[chosen], kind="stable")][: self.before]
        order = order[boxes.rcnn_suppress(found[order], self.threshold, self.after)]
        if not len(order):
            return np.array([[0, 0, width - 1, height - 1]], moves.dtype), np.zeros(1, scores.dtype)
        return found[order], scores[order]


@register
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
    reads_shapes_only = True  # of what is learned

    def setup(self) -> None:
        super().setup()
        p = self.p
        for name in ("fg_fraction", "positive_overlap", "negative_overlap"):
            self.share(name)
        if p.batch_size < 1:
            raise self.error("batch_size must be positive", "batch_size", expected="1 or more", found=p.batch_size)
        if p.positive_weight != -1 and not 0 < p.positive_weight < 1:
            found = f"{p.positive_weight:g}"
            raise self.error("a bad positive_weight", "positive_weight", expected="0 to 1, or -1", found=found)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        scores, count = bottoms[0], len(self.base)
        if len(scores) != 4 or scores[0] != 1:
            raise self.bottom_error(0, "is not of one image", expected=f"1×{2 * count}×H×W", found=list(scores))
        check_objects(self, bottoms[1], 1)
        if math.prod(bottoms[2]) < 3:
            raise self.bottom_error(2, "does not fit", expected="height, width, scale", found=list(bottoms[2]))
        self.map = scores[2:]
        height, width = self.map
        return [(1, 1, count * height, width), *[(1, 4 * count, height, width)] * 3]

    def forward(self, x: list, y: list) -> None:
        objects = real_objects(self.dev.download(x[1]))
        height, width = (float(v) for v in self.dev.download(x[2]).reshape(-1)[:2])
        places = anchors.shifted(self.base, self.p.feat_stride, *self.map)
        border = self.p.allowed_border
        within = (places[:, :2] >= -border).all(1) & (places[:, 2] < width + border) & (places[:, 3] < height + border)
        inside = np.flatnonzero(within)
        labels, targets = self._labels(places[inside], objects)
        drawn = fillers.generator(self.context.seed, self.name, 0, *self.context.clock)
        self._sample(labels, drawn)
        weights = np.zeros((2, len(inside), 4))
        weights[0, labels == 1] = 1
        ones, zeros = (max(1, int(np.count_nonzero(labels == kind))) for kind in (1, 0))
        positive = negative = 1 / max(1, int(np.count_nonzero(labels >= 0)))
        if self.p.positive_weight != -1:
            positive, negative = self.p.positive_weight / ones, (1 - self.p.positive_weight) / zeros
        weights[1, labels == 1], weights[1, labels == 0] = positive, negative
        every = np.full(len(places), -1.0)
        every[inside] = labels
        self._upload(y[0], every[:, None], 1)
        for top, values in zip(y[1:], (targets, *weights), strict=True):
            spread = np.zeros((len(places), 4))
            spread[inside] = values
            self._upload(top, spread, 4)

    def _labels(self, places: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of all anchors inside the image, and their offsets to the objects that they overlap most."""
        labels = np.full(len(places), -1.0)
        if not len(objects) or not len(places):
            labels[:] = 0
            return labels, np.zeros((len(places), 4))
        common = boxes.rcnn_overlaps(places, objects[:, :4])
        nearest, most = common.argmax(1), common.max(1)
        best = common.max(0)
        negative = most < self.p.negative_overlap
        labels[negative] = 0
        labels[((common == best) & (best > 0)).any(1)] = 1
        labels[most >= self.p.positive_overlap] = 1
        if self.p.clobber_positives:
            labels[negative] = 0
        return labels, boxes.rcnn_encode(places, objects[nearest, :4])

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
        self.dev.upload(top, np.ascontiguousarray(spread, self.dev.dtype).reshape(top.shape))


def check_objects(layer: Layer, shape: Shape, index: int) -> None:
    """Checks a bottom with the objects of an image: x1, y1, x2, y2, label."""
    if not shape or math.prod(shape[1:]) != 5:
        expected = "G×5: x1, y1, x2, y2, label"
        raise layer.bottom_error(index, "is no list of objects", expected=expected, found=list(shape))


def real_objects(rows: np.ndarray) -> np.ndarray:
    """The rows with a label of 1 or more and four finite numbers, as float64."""
    rows = rows.reshape(-1, 5).astype(np.float64)
    return rows[(rows[:, 4] >= 1) & np.isfinite(rows).all(1)]
