"""Online hard example mining: BoxAnnotatorOHEM, and losses with a second top for the loss of each box."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.protocol import Device
from .distance import SmoothL1Loss
from .layer import Layer, Shape, register
from .loss import SoftmaxWithLoss

LOSS = pb.LossParameter


@register
class SoftmaxWithLossOHEM(SoftmaxWithLoss):
    """SoftmaxWithLoss with a third top: -log softmax(x)[label] of each label, 0 where it is ignored.

    x (N, C, P...), label (N, P...); tops: the loss (), the probabilities (N, C, P...), the losses (N, 1, P...), which
    have no gradient. Source: Shrivastava et al. 2016; intel/caffe src/caffe/layers/softmax_loss_ohem_layer.cu.
    """

    tops = (1, 3)
    constant_tops = frozenset({1, 2})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        found = super().shapes(bottoms)
        self.requires_host = len(self.spec.top) > 2
        axis, shape = self.axis(self.p.axis, len(bottoms[0])), bottoms[0]
        return [*found, (*shape[:axis], 1, *shape[axis + 1 :])][: len(self.spec.top)]

    def forward(self, x: list, y: list) -> None:
        super().forward(x, y[:2])
        if len(y) < 3:
            return
        n, c, p = self.split
        prob = self.dev.download(self.saved["prob"]).reshape(n, c, p)
        label = self.dev.download(x[1]).reshape(n, 1, p)
        valid = (label >= 0) & (label < c)
        if self.ignored() is not None:
            valid &= label != self.ignored()
        own = np.take_along_axis(prob, np.where(valid, label, 0).astype(np.intp), 1)
        each = np.where(valid, -np.log(np.maximum(own, np.finfo(np.float32).tiny)), 0)
        self.dev.upload(y[2], np.ascontiguousarray(each, self.dev.dtype).reshape(y[2].shape))


@register
class SmoothL1LossOHEM(SmoothL1Loss):
    """loss = Σ f(w · (a - b)) / divisor, f as in SmoothL1Loss with sigma 1; a second top has the sum of each place.

    a, b and optionally the weights w (N, C, P...); tops: the loss () and the losses (N, 1, P...), which have no
    gradient. Divisor by loss_param.normalization: VALID (default) and FULL (N·P), BATCH_SIZE (N), NONE (1), PRE_FIXED
    (pre_fixed_normalizer). The gradient includes w, which intel/caffe leaves out; there w is 0 or 1. Source:
    Shrivastava et al. 2016; intel/caffe src/caffe/layers/smooth_L1_loss_ohem_layer.cpp.
    """

    bottoms, tops = (2, 3), (1, 2)
    constant_tops = frozenset({1})

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        super().shapes(bottoms)
        shape = bottoms[0]
        if len(shape) < 2:
            raise self.bottom_error(0, "has no channels", expected="N×C×...", found=f"shape {list(shape)}")
        self.split = (*shape[:2], math.prod(shape[2:]))
        self.n = self.divisor(shape[0], shape[0] * self.split[2]) or 1
        self.requires_host = len(self.spec.top) > 1
        return [(), (shape[0], 1, *shape[2:])][: len(self.spec.top)]

    def forward(self, x: list, y: list) -> None:
        super().forward(x, y[:1])
        if len(y) < 2:
            return
        a, b, *weights = (self.dev.download(blob).reshape(self.split) for blob in x)
        far = np.abs((a - b) * weights[0] if weights else a - b)
        square = self.constants["square"]
        each = np.where(far < 1 / square, 0.5 * square * far * far, far - 0.5 / square).sum(1)
        self.dev.upload(y[1], np.ascontiguousarray(each, self.dev.dtype).reshape(y[1].shape))


@register
class BoxAnnotatorOHEM(Layer):
    """Keeps the roi_per_img boxes of each image with the largest losses: boxes (N, 5, P...), losses (N, 1, P...),
    labels (N, 1, P...) and offset weights (N, C, P...) → labels (N, 1, P...), ignore_label for all others, and weights
    (N, C, P...), 0 for all others.

    Of equal losses the first stay; NaN comes last. No gradients. Source: Shrivastava et al. 2016; intel/caffe
    src/caffe/layers/box_annotator_ohem_layer.cpp.
    """

    field = "box_annotator_ohem_param"
    bottoms, tops = (4, 4), (2, 2)
    constant_bottoms = frozenset(range(4))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        if self.p.roi_per_img < 1:
            expected, found = "1 or more", self.p.roi_per_img
            raise self.error("roi_per_img must be positive", "roi_per_img", expected=expected, found=found)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        rois, _, labels, weights = bottoms
        if len(rois) < 2 or rois[1] != 5:
            expected = "N×5×...: image, x1, y1, x2, y2"
            raise self.bottom_error(0, "is no list of boxes", expected=expected, found=f"shape {list(rois)}")
        self.n, self.places = rois[0], math.prod(rois[2:])
        for i in (1, 2):
            if math.prod(bottoms[i]) != self.n * self.places:
                expected = f"{self.n * self.places} values, one for each box"
                raise self.bottom_error(i, "does not fit", expected=expected, found=f"shape {list(bottoms[i])}")
        if weights[:1] != (self.n,) or math.prod(weights) % (self.n * self.places):
            expected = f"{self.n}×C, and the places of the boxes"
            raise self.bottom_error(3, "does not fit", expected=expected, found=f"shape {list(weights)}")
        return [labels, weights]

    def build(self, dev: Device) -> None:
        """Nothing: the host does it all."""

    def forward(self, x: list, y: list) -> None:
        rois, losses, labels, weights = (self.dev.download(blob) for blob in x)
        images = rois.reshape(self.n, 5, self.places)[:, 0].reshape(-1)
        losses, labels = losses.reshape(-1), labels.reshape(-1)
        kept = np.zeros(len(losses), bool)
        order = np.argsort(-losses, kind="stable")
        for image in np.unique(images):
            kept[order[images[order] == image][: self.p.roi_per_img]] = True
        mask = kept.reshape(self.n, 1, self.places)
        found = np.where(kept, labels, self.p.ignore_label), weights.reshape(self.n, -1, self.places) * mask
        for top, values in zip(y, found, strict=True):
            self.dev.upload(top, np.ascontiguousarray(values, self.dev.dtype).reshape(top.shape))
