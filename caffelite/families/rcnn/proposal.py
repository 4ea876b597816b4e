"""Proposal: the boxes that a region proposal network finds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection import boxes
from ...devices.detection_ops import BuiltProposals, Proposals
from ...devices.protocol import Device
from ...layers import require
from ...layers.layer import Shape, register
from ...layers.varying import Varying
from . import anchors
from .anchors import Anchored


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
        self.images, self.map, self.info = images, scores[2:], math.prod(info[1:])
        self.count = images * min(self.after, self.before, count * math.prod(self.map))
        return self._tops(self.count)

    def _tops(self, count: int) -> list[Shape]:
        scores: Shape = (count, 1) if self.of_python else (count,)
        return [(count, 5), scores][: len(self.spec.top)]

    def build(self, dev: Device) -> None:
        op = Proposals(
            images=self.images,
            map=self.map,
            anchors=tuple(map(tuple, self.base)),
            stride=self.p.feat_stride,
            info=self.info,
            min_size=self.p.min_size,
            strict=self.of_python,
            nms_threshold=self.threshold,
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
        every = np.concatenate(rows)
        if len(every) != self.count:
            self.count = len(every)
            y = self.resize(self._tops(self.count))
        for top, values in zip(y, (every, np.concatenate(best)), strict=False):
            self.dev.upload(top, np.ascontiguousarray(values, self.dev.dtype).reshape(top.shape))

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
        shifted = anchors.shifted(self.base.astype(moves.dtype), self.p.feat_stride, *self.map)
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
        order = order[boxes.rcnn_suppress(rois[order], self.threshold, self.after)]
        return rois[order], scores[order]
