"""Proposal and ProposalTarget: the boxes that a net proposes, and what a detector learns of them."""

import math
from collections.abc import Iterator

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection import boxes
from ...detection.matching import sampled
from ...devices.detection_ops import BuiltProposals, Proposals
from ...devices.protocol import Device
from ...layers.base import fillers, require
from ...layers.base.layer import Layer, Shape, register
from ...layers.base.state import Varying
from .anchor_target import Anchored, check_objects, real_objects, shifted_anchors


@register
class Proposal(Varying, Anchored):
    """Boxes where objects may be: scores (N, 2·A, H, W), background first, offsets (N, 4·A, H, W) and im_info (N, 3),
    height, width and scale of each image → boxes (R, 5), image, x1, y1, x2, y2, and optionally their scores (R). A is
    the number of ratios times scales.

    Anchors are moved by their offsets and clipped to the image. The pre_nms_topn best of them enter non-maximum
    suppression; the first post_nms_topn of an image that stay are its boxes, best first. Boxes smaller than min_size ·
    scale get the score 0. R varies from pass to pass, and is N · post_nms_topn at most. A score that is NaN, or a box
    that is not finite, is dropped. Where nothing stays, the image itself is the only box, with score 0. No gradients.
    It needs the host, which learns R; a GPU decodes, sorts and suppresses.
    Source: Ren et al. 2015; luoyetx/mini-caffe src/layers/proposal_layer.cpp.

    As a Python layer, rpn.proposal_layer.ProposalLayer of rbgirshick/py-faster-rcnn lib/rpn: boxes smaller than
    min_size · scale are dropped, scores are (R, 1), and in TRAIN pre_nms_topn is 12000 and post_nms_topn 2000 by
    default.
    """

    field = "proposal_param"
    bottoms, tops = (3, 3), (1, 2)
    constant_bottoms = frozenset(range(3))

    def setup(self) -> None:
        super().setup()
        p = self.p
        train = self.of_python and self.phase == pb.TRAIN
        self.before = p.pre_nms_topn if p.HasField("pre_nms_topn") or not train else 12000
        self.after = p.post_nms_topn if p.HasField("post_nms_topn") or not train else 2000
        for name, value in (("pre_nms_topn", self.before), ("post_nms_topn", self.after)):
            require.positive(self, name, value=value)
        require.shares(self, "nms_thresh")

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
        self.images, self.map, self.info = images, scores[2:], math.prod(info[1:])
        most = images * min(self.after, self.before, count * math.prod(self.map))
        tops: list[Shape] = [(most, 5), (most, 1) if self.of_python else (most,)]
        return tops[: len(self.spec.top)]

    def build(self, dev: Device) -> None:
        op = Proposals(
            images=self.images,
            map=self.map,
            anchors=tuple(map(tuple, self.base)),
            stride=self.p.feat_stride,
            info=self.info,
            min_size=self.p.min_size,
            strict=self.of_python,
            nms_threshold=self.p.nms_thresh,
            pre_nms=self.before,
            post_nms=self.after,
        )
        self.op = dev.build(op)

    def forward(self, x: list, y: list) -> None:
        rows, best = [], []
        info = self.dev.download(x[2]).reshape(self.images, -1)
        for n, (rois, values) in enumerate(
            self._by_kernels(self.op, x) if self.op else self._on_host(x[0], x[1], info)
        ):
            if not len(rois):
                height, width = info[n, :2]
                rois = np.array([[0, 0, width - 1, height - 1]], rois.dtype)
                values = np.zeros(1, values.dtype)
            rows.append(np.insert(rois, 0, n, 1))
            best.append(values)
        ranked = np.concatenate(best)
        self.write_tops(y, [np.concatenate(rows), ranked[:, None] if self.of_python else ranked][: len(y)])

    def _by_kernels(self, op: BuiltProposals, x: list) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        op.forward(x[0], x[1], x[2])
        counts, every = self.dev.download(op.counts), self.dev.download(op.rows)
        for count, rows in zip(counts, every, strict=True):
            rows = rows[: min(count, self.after)]
            yield rows[:, 1:], rows[:, 0]

    def _on_host(self, scores, offsets, info: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        scores, offsets, count = self.dev.download(scores), self.dev.download(offsets), len(self.base)
        for n in range(self.images):
            ranked = scores[n, count:].transpose(1, 2, 0).reshape(-1)
            moves = offsets[n].reshape(count, 4, *self.map).transpose(2, 3, 0, 1).reshape(-1, 4)
            yield self._propose(ranked, moves, info[n, :3])

    def _propose(self, scores: np.ndarray, moves: np.ndarray, info: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The boxes of an image, N×4, and their scores."""
        height, width, scale = info
        shifted = shifted_anchors(self.base.astype(moves.dtype), self.p.feat_stride, *self.map)
        with np.errstate(invalid="ignore", over="ignore"):
            rois = boxes.rcnn_clip(boxes.rcnn_decode(shifted, moves), height, width)
            small = ((rois[:, 2:] - rois[:, :2] + 1) < self.p.min_size * scale).any(1)
        usable = np.isfinite(scores) & np.isfinite(rois).all(1)
        if self.of_python:
            usable &= ~small
        else:
            scores = np.where(small, 0, scores)
        chosen = np.flatnonzero(usable)
        order = chosen[np.argsort(-scores[chosen], kind="stable")][: self.before]
        order = order[boxes.rcnn_suppress(rois[order], self.p.nms_thresh, self.after)]
        return rois[order], scores[order]


MEAN, STD = (0.0, 0.0, 0.0, 0.0), (0.1, 0.1, 0.2, 0.2)  # of offsets


def four(layer: Layer, name: str, known: tuple[float, ...]) -> tuple[float, ...]:
    """A repeated field of four numbers, one for each offset; ``known`` where it is empty."""
    values = tuple(getattr(layer.p, name)) or known
    if len(values) != 4 or not all(map(math.isfinite, values)):
        raise layer.error(f"a bad {name}", name, expected="4 finite numbers: x, y, width, height", found=[*values])
    return values


@register
class ProposalTarget(Varying, Layer):
    """A random sample of the boxes of one image, and what a detector shall say of them: boxes (R, 5), image, x1, y1,
    x2, y2, and objects (G, 5), x1, y1, x2, y2, label → boxes (S, 5), labels (S), offsets, inside weights and outside
    weights (S, 4·K), K = num_classes.

    Objects are boxes of the sample's population too. A box is of the class of the object that it overlaps most, if by
    fg_thresh; it is background, 0, if by less than bg_thresh_hi and at least bg_thresh_lo. batch_size boxes are drawn,
    of which at most fg_fraction are objects; S varies, and is batch_size at most (-1: all boxes). If none qualifies,
    all boxes below fg_thresh do. The random numbers depend on seed, layer and iteration. Offsets, less bbox_mean and
    divided by bbox_std, are in the columns of the label, or of class 1 where num_classes is 2. An object with a label
    below 1 is none. No gradients. Errors: a label of num_classes or more; boxes of several images. Source: Ren et al.
    2015; as the Python layer rpn.proposal_target_layer.ProposalTargetLayer of rbgirshick/py-faster-rcnn lib/rpn.
    """

    field = "proposal_target_param"
    bottoms, tops = (2, 2), (5, 5)
    constant_bottoms = frozenset(range(2))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        p = self.p
        if p.num_classes < 2:
            what, remedy = (
                "a bad num_classes",
                "set proposal_target_param { num_classes: ... }, the background included",
            )
            raise self.error(what, "num_classes", expected="2 or more", found=p.num_classes, remedy=remedy)
        require.value(self, "batch_size", p.batch_size >= 1 or p.batch_size == -1, "1 or more, or -1")
        require.shares(self, "fg_fraction", "fg_thresh", "bg_thresh_hi", "bg_thresh_lo")
        self.mean, self.std = np.array(four(self, "bbox_mean", MEAN)), np.array(four(self, "bbox_std", STD))
        if not (self.std > 0).all():
            raise self.error("a bad bbox_std", "bbox_std", expected="numbers above 0", found=self.std.tolist())

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        rois, objects = bottoms
        require.boxes(self, bottoms, 0)
        check_objects(self, objects, 1)
        every = rois[0] + objects[0]
        count = every if self.p.batch_size == -1 else min(every, self.p.batch_size)
        return [(count, 5), (count,), *[(count, 4 * self.p.num_classes)] * 3]

    def forward(self, x: list, y: list) -> None:
        rois, objects = self.dev.download(x[0]).reshape(-1, 5), real_objects(self.dev.download(x[1]))
        if (rois[:, 0] != 0).any():
            raise self.error(f'bottom "{self.spec.bottom[0]}" has boxes of several images', expected="image 0")
        classes = self.p.num_classes
        if classes > 2 and len(objects) and objects[:, 4].max() >= classes:
            what = f'a label in bottom "{self.spec.bottom[1]}" is no class'
            raise self.error(what, expected=f"1 to {classes - 1}", found=f"{objects[:, 4].max():g}")
        every = np.concatenate([rois[:, 1:].astype(np.float64), objects[:, :4]])
        sampled, labels, nearest = self._sample(every, objects)
        targets, inside = np.zeros((2, len(sampled), classes, 4))
        positive = np.flatnonzero(labels > 0)
        if len(positive):
            columns = np.minimum(labels[positive], 1 if classes == 2 else classes - 1).astype(int)
            moves = boxes.rcnn_encode(every[sampled[positive]], objects[nearest[sampled[positive]], :4])
            targets[positive, columns], inside[positive, columns] = (moves - self.mean) / self.std, 1
        offsets, weights = (table.reshape(len(sampled), -1) for table in (targets, inside))
        self.write_tops(y, [np.insert(every[sampled], 0, 0, 1), labels, offsets, weights, weights])

    def _sample(self, every: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of the sample's boxes, objects first, their labels, and the object nearest to each of all
        boxes."""
        p, count = self.p, len(every)
        most, nearest = np.zeros(count), np.zeros(count, int)
        if len(objects):
            common = boxes.rcnn_overlaps(every, objects[:, :4])
            most, nearest = common.max(1), common.argmax(1)
        positive = np.flatnonzero(most >= p.fg_thresh) if len(objects) else np.zeros(0, int)
        negative = np.flatnonzero((most < p.bg_thresh_hi) & (most >= p.bg_thresh_lo))
        if not len(positive) and not len(negative):
            negative = np.flatnonzero(most < p.fg_thresh) if len(objects) else np.arange(count)
        if p.batch_size != -1:
            drawn = fillers.generator(self.context.seed, self.name, 0, *self.context.clock)
            wanted = int(np.rint(p.fg_fraction * p.batch_size))
            positive = sampled(drawn, positive, wanted)
            negative = sampled(drawn, negative, p.batch_size - len(positive))
        chosen = np.concatenate([positive, negative])
        labels = np.zeros(len(chosen))
        if len(positive):
            labels[: len(positive)] = objects[nearest[positive], 4]
        return chosen, labels, nearest
