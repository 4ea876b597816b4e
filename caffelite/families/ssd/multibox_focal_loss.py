"""MultiBoxFocalLoss: MultiBoxLoss with the focal loss of scores."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base.layer import register
from .multibox_loss import CONFIDENCE, Confidence, MultiBoxLoss


@register
class MultiBoxFocalLoss(MultiBoxLoss):
    """MultiBoxLoss whose loss of scores is -Σ alpha (1 - p)^gamma ln p, p the probability of the class by softmax.

    Bottoms and top as MultiBoxLoss: offsets (N, P·4), scores (N, P·C), priors (1, 2, P·4), objects (1, 1, G, 8) → the
    loss (). alpha, gamma of focal_loss_param (defaults 0.25, 2); with conf_loss_type LOGISTIC they have no effect.
    Usually with mining_type NONE: priors of a high probability count little, so that none need to be left out; hard
    negatives are chosen by the loss without the factors. It runs on the host. Errors: as MultiBoxLoss; gamma below 0.
    Source: chuanqi305/FocalLoss and jiachen0212/ssd-focal_loss_caffe, multibox_focal_loss_layer.cpp; the gradient is
    here the derivative of the loss, there that of the other classes has 1 - alpha for alpha.
    """

    def setup(self) -> None:
        super().setup()
        self.focal = self.spec.focal_loss_param
        if not self.focal.gamma >= 0:
            raise self.error("a bad gamma", "gamma", expected="0 or more", found=f"{self.focal.gamma:g}")
        self.requires_host = True

    def confidence(self, scores: np.ndarray) -> Confidence:
        return _FocalConfidence(scores, self.p, self.focal)


class _FocalConfidence(Confidence):
    def __init__(self, scores: np.ndarray, p: pb.MultiBoxLossParameter, focal: pb.FocalLossParameter):
        super().__init__(scores, p)
        self.focal = focal

    def loss(self, image: int, rows: np.ndarray, labels: np.ndarray, gradient: np.ndarray) -> float:
        if not self.softmax:
            return super().loss(image, rows, labels, gradient)
        alpha, gamma = self.focal.alpha, self.focal.gamma
        probabilities = self.shares[image, rows]
        p = probabilities[np.arange(len(labels)), labels]
        log_p, rest = np.log(np.maximum(p, CONFIDENCE)), 1 - p
        slope = alpha * -(rest**gamma)
        if gamma:
            slope += alpha * gamma * p * log_p * np.maximum(rest, CONFIDENCE) ** (gamma - 1)
        targets = labels[:, None] == np.arange(gradient.shape[1])
        gradient[rows] = slope[:, None] * (targets - probabilities)
        return float((-alpha * rest**gamma * log_p).sum(dtype=np.float64))
