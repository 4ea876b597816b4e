"""Online hard example mining: BoxAnnotatorOHEM, and losses with a second top for the loss of each box."""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.l1_loss import SmoothL1Loss
from ...layers.loss import SoftmaxWithLoss

LOSS = pb.LossParameter


@register
class SoftmaxWithLossOHEM(SoftmaxWithLoss):
    """SoftmaxWithLoss, by the name that intel/caffe gives to the one with three tops.

    x (N, C, P...), label (N, P...); tops: the loss (), the probabilities (N, C, P...), the losses (N, 1, P...), which
    have no gradient. Source: Shrivastava et al. 2016; intel/caffe src/caffe/layers/softmax_loss_ohem_layer.cu.
    """


@register
class SmoothL1LossOHEM(SmoothL1Loss):
    """loss = Σ f(w · (a - b)) / divisor, f as in SmoothL1Loss; a second top has the sum of each place.

    a, b and optionally the weights w (N, C, P...); tops: the loss () and the losses (N, 1, P...), which have no
    gradient. Divisor by loss_param.normalization: VALID (default) and FULL (N·P), BATCH_SIZE (N), NONE (1), PRE_FIXED
    (pre_fixed_normalizer). The gradient includes w, which intel/caffe leaves out; there w is 0 or 1. Source:
    Shrivastava et al. 2016; intel/caffe src/caffe/layers/smooth_L1_loss_ohem_layer.cpp.
    """

    bottoms = (2, 3)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        tops, shape = super().shapes(bottoms), bottoms[0]
        batch = shape[0] if shape else 1
        divisor = self.divisor(batch, batch * math.prod(shape[2:]))
        assert divisor, "no label is ignored"
        self.n = divisor
        return tops


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
        require.positive(self, "roi_per_img")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        rois, _, labels, weights = bottoms
        if len(rois) < 2 or rois[1] != 5:
            expected = "N×5×...: image, x1, y1, x2, y2"
            raise self.bottom_error(0, "is no list of boxes", expected=expected, found=f"shape {list(rois)}")
        self.n, self.positions = rois[0], math.prod(rois[2:])
        for i in (1, 2):
            if math.prod(bottoms[i]) != self.n * self.positions:
                expected = f"{self.n * self.positions} values, one for each box"
                raise self.bottom_error(i, "does not fit", expected=expected, found=f"shape {list(bottoms[i])}")
        if weights[:1] != (self.n,) or math.prod(weights) % (self.n * self.positions):
            expected = f"{self.n}×C, and the places of the boxes"
            raise self.bottom_error(3, "does not fit", expected=expected, found=f"shape {list(weights)}")
        return [labels, weights]

    def forward(self, x: list, y: list) -> None:
        rois, losses, labels, weights = (self.dev.download(blob) for blob in x)
        images = rois.reshape(self.n, 5, self.positions)[:, 0].reshape(-1)
        losses, labels = losses.reshape(-1), labels.reshape(-1)
        hardest = np.zeros(len(losses), bool)
        order = np.argsort(-losses, kind="stable")
        for image in np.unique(images):
            hardest[order[images[order] == image][: self.p.roi_per_img]] = True
        mask = hardest.reshape(self.n, 1, self.positions)
        mined = np.where(hardest, labels, self.p.ignore_label), weights.reshape(self.n, -1, self.positions) * mask
        for top, values in zip(y, mined, strict=True):
            self.dev.upload(top, values.reshape(top.shape))
