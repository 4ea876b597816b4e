"""MultiBoxLoss: the loss of a detector's offsets and scores against the objects of each image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection import boxes, matching
from ...devices import detection_ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.types import Array
from ...layers.base import require
from ...layers.base.detection_base import check_classes, expected_labels, read_objects
from ...layers.base.division import SampleShares
from ...layers.base.layer import Shape, register
from ...layers.loss import Loss
from .prior_box import check_priors

PARAM = pb.MultiBoxLossParameter
SMALLEST_AREA = 1e-5  # of a box that suppression may keep
CONFIDENCE = np.finfo(np.float32).tiny  # the least probability in a loss, as in Caffe


@dataclass
class Objects:
    """The objects of an image: boxes (G, 4) and classes (G)."""

    boxes: np.ndarray
    labels: np.ndarray


@register
class MultiBoxLoss(Loss):
    """loss = (loc_weight · Σ_matched f(offset - target) + Σ_chosen L(scores, class)) / divisor.

    Bottoms: offsets (N, P·4), scores (N, P·C), priors (1, 2, P·4) as PriorBox makes them, objects (1, 1, G, 8) with
    rows (item, class, instance, xmin, ymin, xmax, ymax, difficult), item -1: none. Without share_location offsets are
    (N, P·C·4). Top: the loss (). Priors are matched with objects (match_type, overlap_threshold); their targets are the
    encoded objects (code_type), f is loc_loss_type. L is conf_loss_type over the matched priors and, by mining_type,
    the unmatched ones of the highest loss, neg_pos_ratio for each matched one; the class of unmatched ones is the
    background. The divisor, at least 1, by loss_param.normalization: VALID (default: matched priors), FULL (N·P),
    BATCH_SIZE (N), NONE (1), PRE_FIXED. Images without objects add nothing, except under mining_type NONE. With
    HARD_EXAMPLE, suppression among negatives, bp_inside, matching by predictions or without a background it runs on the
    host.

    RefineDet's net has one of them with num_classes 2 and objectness_score for its anchors, where every object is of
    class 1, and one with two more bottoms, both constants: the anchors' scores (N, P·2) of no object and of one, where
    priors with less than objectness_score for one are no hard negatives, and their offsets (N, P·4), by which the
    priors are moved, image by image, before they are matched. Both run on the host.

    Errors: no num_classes, shapes that do not agree, a label that is no class of objects. Source: weiliu89/caffe
    (branch ssd) and sfzhang15/RefineDet, src/caffe/layers/multibox_loss_layer.cpp; with encode_variance_in_target the
    gradient is here also divided by the variance.
    """

    field = "multibox_loss_param"
    bottoms = (4, 6)
    constant_bottoms = frozenset({2, 3, 4, 5})
    couples_samples = True
    backward_reads_bottoms = False  # forward computes the gradients

    def setup(self) -> None:
        p = self.p
        super().setup()
        self.classes = check_classes(self)
        self.location_classes = 1 if p.share_location else self.classes
        mines = p.mining_type != PARAM.NONE
        if p.HasField("do_neg_mining") and p.do_neg_mining != mines:
            what = f"do_neg_mining contradicts mining_type {PARAM.MiningType.Name(p.mining_type)}"
            raise self.error(what, "do_neg_mining", remedy="leave do_neg_mining out")
        if mines and not p.share_location:
            remedy = "set mining_type: NONE, or leave share_location out"
            raise self.error("mining needs shared offsets", "share_location", remedy=remedy)
        if p.mining_type == PARAM.HARD_EXAMPLE and p.sample_size < 1:
            raise self.error("sample_size must be at least 1", "sample_size", found=p.sample_size)
        for name in ("loc_weight", "overlap_threshold", "neg_pos_ratio", "neg_overlap"):
            if not (math.isfinite(getattr(p, name)) and getattr(p, name) >= 0):
                expected, found = "a finite number, at least 0", f"{getattr(p, name):g}"
                raise self.error(f"a bad {name}", name, expected=expected, found=found)
        if p.map_object_to_agnostic and self.classes != 2:
            raise self.error("map_object_to_agnostic needs 2 classes", "num_classes", expected=2, found=self.classes)
        # RefineDet's anchors: every object is of class 1
        self.agnostic_labels = p.HasField("objectness_score") and self.classes == 2
        self.refines = len(self.spec.bottom) > 4
        if self.refines:
            self._check_refinement()
        down = list(self.spec.propagate_down) + [True] * 2
        self.counts_offsets, self.counts_scores = down[:2] if len(down) > 2 else (True, True)
        self.requires_host = self.refines or self.agnostic_labels or not self._by_kernels()

    def _check_refinement(self) -> None:
        p = self.p
        for name in ("use_prior_for_matching", "share_location"):
            if not getattr(p, name):
                raise self.error("moved priors are matched", name, expected="true, as it is by default")
        if p.mining_type == PARAM.HARD_EXAMPLE or p.HasField("nms_param") and p.nms_param.nms_threshold > 0:
            remedy = "set mining_type: MAX_NEGATIVE or NONE, without nms_param"
            raise self.error("moved priors are mined by their scores alone", "mining_type", remedy=remedy)

    def _by_kernels(self) -> bool:
        """Whether a GPU has kernels for what the message asks for: matching by priors, and hard negatives or all."""
        p = self.p
        simple = p.use_prior_for_matching and not p.bp_inside and p.mining_type != PARAM.HARD_EXAMPLE
        suppresses = p.HasField("nms_param") and p.nms_param.nms_threshold > 0
        return simple and not (suppresses and p.mining_type != PARAM.NONE) and p.background_label_id >= 0

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.priors = check_priors(self, bottoms, self.classes, self.location_classes)
        self.n = bottoms[0][0]
        for i, width in zip(range(4, len(bottoms)), (2, 4), strict=False):
            if math.prod(bottoms[i]) != self.n * self.priors * width:
                expected = f"{self.n}×{self.priors * width}"
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(bottoms[i]))
        require.fits(self, bottoms, 3, bottoms[3][-1:] == (8,), "1×1×G×8", "has no objects")
        self.rows = math.prod(bottoms[3]) // 8
        self.fixed = self.divisor(self.n, self.n * self.priors)
        self.couples_samples = True
        self.saved_shapes |= {"offsets": (bottoms[0], None), "scores": (bottoms[1], None)}  # their gradients
        return [()]

    def divisor(self, batch: int, labels: int) -> float | None:
        """None: VALID, the number of matched priors."""
        valid = self.normalization() == pb.LossParameter.VALID
        return None if valid else super().divisor(batch, labels)

    def can_share(self) -> bool:
        return True

    def settles(self) -> bool:
        return self.fixed is None

    def share(self, shares: SampleShares) -> None:
        super().share(shares)
        self.requires_host = True  # which counts the matched priors apart from the loss

    def build(self, dev: Device) -> None:
        self.op = None if self.requires_host else dev.build(self._operation())
        self._divisor = dev.zeros(1)
        self._scale = dev.map(Formula("g / divisor * dloss", ("g",), ("divisor", "dloss")))

    def _operation(self) -> detection_ops.MultiBoxLoss:
        p = self.p
        return detection_ops.MultiBoxLoss(
            images=self.n,
            priors=self.priors,
            classes=self.classes,
            locations=self.location_classes,
            objects=self.rows,
            background=p.background_label_id,
            code_type=p.code_type,
            overlap_threshold=p.overlap_threshold if p.match_type == PARAM.PER_PREDICTION else None,
            inside_only=p.ignore_cross_boundary_bbox,
            difficult=p.use_difficult_gt,
            agnostic=p.map_object_to_agnostic,
            negative_ratio=p.neg_pos_ratio if p.mining_type == PARAM.MAX_NEGATIVE else None,
            negative_overlap=p.neg_overlap,
            logistic=p.conf_loss_type == PARAM.LOGISTIC,
            squared=p.loc_loss_type == PARAM.L2,
            variance_in_target=p.encode_variance_in_target,
            location_weight=p.loc_weight,
            divisor=self.fixed,
            weights=(p.loc_weight * self.counts_offsets, float(self.counts_scores)),
        )

    def faults(self) -> str | None:
        row = int(self.dev.download(self.op.bad)[0]) if self.op else 0
        what = f'row {row - 1} of bottom "{self.spec.bottom[3]}" has a label that is no class of objects'
        return f"{what}; expected {expected_labels(self, self.classes)}" if row else None

    # the loss

    def forward(self, x: list, y: list) -> None:
        gradients = self.saved["offsets"], self.saved["scores"]
        if self.op:
            self.op.forward(x[0], x[1], x[2], x[3], gradients, y[0], self._divisor)
        else:
            self._forward_on_host(x, y, gradients)

    def _forward_on_host(self, x: list, y: list, gradients: tuple) -> None:
        offsets, scores, priors, rows, *anchors = (self.dev.download(blob) for blob in x)
        offsets = offsets.reshape(self.n, self.priors, self.location_classes, 4)
        scores = scores.reshape(self.n, self.priors, self.classes)
        boxes_, variances = priors.reshape(2, self.priors, 4)
        moved = self._moved(boxes_, variances, anchors[1]) if len(anchors) > 1 else [boxes_] * self.n
        may_be_negative = np.ones((self.n, self.priors), bool)
        if anchors:
            may_be_negative = anchors[0].reshape(self.n, self.priors, 2)[..., 1] >= self.p.objectness_score
        objects = self._objects(rows)
        slopes = np.zeros_like(offsets), np.zeros_like(scores)
        with np.errstate(over="ignore", invalid="ignore"):
            confidence = self.confidence(scores)
            losses, matched = [0.0, 0.0], 0
            for i in range(self.n):
                image = _Image(self.p, offsets[i], moved[i], variances, objects.get(i), may_be_negative[i])
                chosen = image.choose(confidence, i)
                matched += len(image.matched)
                losses[0] += image.location_loss(slopes[0][i])
                losses[1] += confidence.loss(i, *chosen, slopes[1][i])
        divisor = self._divisor_of(matched)
        for array, values in zip(gradients, slopes, strict=True):
            self.dev.upload(array, values.reshape(array.shape))
        self.dev.fill(self._divisor, divisor)
        if np.isnan(offsets).any() or np.isnan(scores).any():
            losses[1] = math.nan  # though no object is matched: the net has diverged
        total = self.p.loc_weight * losses[0] * self.counts_offsets + losses[1] * self.counts_scores
        self.dev.upload(y[0], np.array(total / divisor, self.dev.dtype))

    def _divisor_of(self, matched: int) -> float:
        """The divisor of a pass with so many matched priors. Of passes that share a batch: that of the whole batch,
        over their number."""
        if not self.shares:
            return max(1.0, matched) if self.fixed is None else self.fixed
        if self.fixed is None:
            return self._of_shares(self.shares.total(np.array(matched)))
        grows = self.normalization() not in (pb.LossParameter.NONE, pb.LossParameter.PRE_FIXED)
        return self.fixed if grows else self.fixed / self.shares.count

    def _of_shares(self, matched: np.ndarray) -> float:
        assert self.shares
        return max(1.0, float(matched)) / self.shares.count

    def settle(self, loss: Array) -> None:
        assert self.shares
        before, divisor = float(self.dev.download(self._divisor)[0]), self._of_shares(self.shares.settled())
        self.dev.fill(self._divisor, divisor)
        self.dev.upload(loss, self.dev.download(loss) * (before / divisor))

    def confidence(self, scores: np.ndarray) -> Confidence:
        """The loss of scores (N, P, C)."""
        return Confidence(scores, self.p)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for name, bottom in zip(("offsets", "scores"), dx[:2], strict=True):
            if bottom is not None:
                self._scale(self.saved[name], self._divisor, dy[0], bottom)

    def _moved(self, priors: np.ndarray, variances: np.ndarray, moves: np.ndarray) -> list[np.ndarray]:
        """The priors (P, 4) of each image, moved by the anchors' offsets (N, P·4)."""
        encoding = None if self.p.encode_variance_in_target else variances
        each = moves.reshape(self.n, self.priors, 4)
        return [boxes.decode(offsets, priors, encoding, self.p.code_type) for offsets in each]

    def _objects(self, rows: np.ndarray) -> dict[int, Objects]:
        """The objects by image, of images that have some."""
        rows = rows.reshape(-1, 8)
        if self.agnostic_labels:
            rows = np.where((np.arange(8) == 1) & (rows[:, 1:2] >= 2), 1, rows)
        rows = read_objects(self, rows, 3, self.classes)
        if not self.p.use_difficult_gt:
            rows = rows[rows[:, 7] == 0]
        items = rows[:, 0].astype(int)
        each = {item: rows[items == item] for item in np.unique(items)}
        return {item: Objects(own[:, 3:7], own[:, 1].astype(int)) for item, own in each.items()}


class Confidence:
    """The loss of the scores (N, P, C), and its gradient."""

    def __init__(self, scores: np.ndarray, p: pb.MultiBoxLossParameter):
        self.p, self.scores, self.softmax = p, scores, p.conf_loss_type == PARAM.SOFTMAX
        if self.softmax:
            self.shares = np.exp(scores - scores.max(-1, keepdims=True))
            self.shares /= self.shares.sum(-1, keepdims=True)

    def each(self, image: int, labels: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The loss of each of some priors of an image, of these classes; class -1: none, for LOGISTIC."""
        scores = self.scores[image, rows]
        if self.softmax:
            return -np.log(np.maximum(self.shares[image, rows][np.arange(len(labels)), labels], CONFIDENCE))
        targets = labels[:, None] == np.arange(scores.shape[1])
        return (np.maximum(scores, 0) - scores * targets + np.log1p(np.exp(-np.abs(scores)))).sum(-1)

    def loss(self, image: int, rows: np.ndarray, labels: np.ndarray, gradient: np.ndarray) -> float:
        """The sum over some priors; writes the gradient of their scores into ``gradient`` (P, C)."""
        targets = labels[:, None] == np.arange(gradient.shape[1])
        if self.softmax:
            gradient[rows] = self.shares[image, rows] - targets
        else:
            gradient[rows] = 1 / (1 + np.exp(-self.scores[image, rows])) - targets
        return float(self.each(image, labels, rows).sum(dtype=np.float64))


class _Image:
    """The priors of an image, matched with its objects. offsets (P, L, 4); priors, variances (P, 4); objects: None
    where it has none; may_be_negative (P): which priors may be hard negatives."""

    def __init__(
        self,
        p: pb.MultiBoxLossParameter,
        offsets: np.ndarray,
        priors: np.ndarray,
        variances: np.ndarray,
        objects: Objects | None,
        may_be_negative: np.ndarray,
    ):
        self.p, self.offsets, self.priors, self.objects = p, offsets, priors, objects
        self.variances, self.may_be_negative = variances, may_be_negative
        self.encoding = None if p.encode_variance_in_target else variances
        self.matches = np.full(len(priors), matching.UNMATCHED)
        self.overlap = np.zeros(len(priors), priors.dtype)
        if objects:
            self._match(objects)

    def _predicted(self, known: np.ndarray | int = 0) -> np.ndarray:
        """The boxes (P, 4) that the offsets of a class mean."""
        return boxes.decode(self.offsets[:, known], self.priors, self.encoding, self.p.code_type)

    def _match(self, objects: Objects) -> None:
        """Fills ``matches``, the object of each prior, and ``overlap``, with the object that it overlaps most."""
        p = self.p
        threshold = p.overlap_threshold if p.match_type == PARAM.PER_PREDICTION else None
        if p.use_prior_for_matching or p.share_location:
            candidates = self.priors if p.use_prior_for_matching else self._predicted()
            self.matches, self.overlap = self._matched(candidates, objects.boxes, threshold)
            return
        for known in np.unique(objects.labels):  # each class with the boxes of its own offsets
            mine = np.flatnonzero(objects.labels == known)
            matches, overlap = self._matched(self._predicted(known), objects.boxes[mine], threshold)
            fresh = (matches >= 0) & ((self.matches < 0) | (overlap > self.overlap))
            self.matches[fresh], self.overlap[fresh] = mine[matches[fresh]], overlap[fresh]

    def _matched(
        self, candidates: np.ndarray, known: np.ndarray, threshold: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        outside = None
        if self.p.ignore_cross_boundary_bbox:
            outside = np.asarray(((candidates < 0) | (candidates > 1)).any(-1))
        overlaps = boxes.overlaps(candidates, known)
        return matching.match(overlaps, threshold, outside), overlaps.max(1)

    def choose(self, confidence: Confidence, image: int) -> tuple[np.ndarray, np.ndarray]:
        """The priors in the loss of scores, and their classes; drops matches that HARD_EXAMPLE leaves out."""
        p = self.p
        labels = np.full(len(self.priors), p.background_label_id)
        if p.mining_type == PARAM.NONE and p.conf_loss_type == PARAM.LOGISTIC:
            labels[:] = -1
        positive = self.matches >= 0
        if self.objects:
            known = self.objects.labels[self.matches[positive]]
            labels[positive] = p.background_label_id + 1 if p.map_object_to_agnostic else known
        if p.mining_type == PARAM.NONE:
            rows = np.arange(len(self.priors))
        else:
            negative = self._mine(confidence.each(image, labels), positive) if self.objects else np.zeros(0, int)
            rows = np.concatenate([np.flatnonzero(self.matches >= 0), negative])
        self.matched = np.flatnonzero(self.matches >= 0)
        return rows, labels[rows]

    def _mine(self, losses: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """The unmatched priors in the loss."""
        p = self.p
        if p.mining_type == PARAM.MAX_NEGATIVE:
            eligible = (
                (self.matches == matching.UNMATCHED) & (self.overlap < np.float32(p.neg_overlap)) & self.may_be_negative
            )
            count = int(positive.sum() * np.float32(p.neg_pos_ratio))
        else:
            self.matched = np.flatnonzero(positive)
            losses = losses + self.location_losses()
            eligible, count = np.ones(len(losses), bool), p.sample_size
        if p.HasField("nms_param") and p.nms_param.nms_threshold > 0:
            eligible &= self._unsuppressed(losses, eligible)
        chosen = np.zeros(len(losses), bool)
        chosen[matching.hardest(losses, eligible, count)] = True
        if p.mining_type == PARAM.HARD_EXAMPLE:
            unmatched = self.matches == matching.UNMATCHED
            self.matches[positive & ~chosen] = matching.UNMATCHED
            return np.flatnonzero(chosen & unmatched)
        return np.flatnonzero(chosen)

    def _unsuppressed(self, losses: np.ndarray, eligible: np.ndarray) -> np.ndarray:
        p, indices = self.p, np.flatnonzero(eligible)
        candidates = (self.priors if p.use_prior_for_nms else self._predicted())[indices]
        large = boxes.areas(candidates) >= SMALLEST_AREA
        indices, candidates = indices[large], candidates[large]
        most = p.nms_param.top_k if p.nms_param.HasField("top_k") else -1
        chosen = boxes.suppress(candidates, losses[indices], p.nms_param.nms_threshold, most=most)
        stays = np.zeros(len(losses), bool)
        stays[indices[chosen]] = True
        return stays

    # offsets

    def _differences(self) -> np.ndarray:
        """Offsets minus targets (M, 4) of the matched priors, in units of the variances."""
        assert self.objects is not None
        p, rows = self.p, self.matched
        known = self.matches[rows]
        variances = None if self.encoding is None else self.encoding[rows]
        target = boxes.encode(self.objects.boxes[known], self.priors[rows], variances, p.code_type)
        differences = self.offsets[rows, self._location_classes(known)] - target
        if p.bp_inside:
            box = self.priors[rows] if p.use_prior_for_matching else self._predicted()[rows]
            differences = np.where((box < 0) | (box > 1), 0, differences)
        return differences / self.variances[rows] if p.encode_variance_in_target else differences

    def _location_classes(self, known: np.ndarray) -> np.ndarray | int:
        """Which offsets of a prior belong to its object."""
        return 0 if self.p.share_location or self.objects is None else self.objects.labels[known]

    def _terms(self, differences: np.ndarray) -> np.ndarray:
        size = np.abs(differences)
        if self.p.loc_loss_type == PARAM.L2:
            return differences * differences / 2
        return np.where(size < 1, differences * differences / 2, size - 0.5)

    def location_losses(self) -> np.ndarray:
        """The loss (P) of the offsets of each prior; 0 where it is not matched."""
        losses = np.zeros(len(self.priors), self.offsets.dtype)
        if len(self.matched):
            losses[self.matched] = self._terms(self._differences()).sum(-1)
        return losses

    def location_loss(self, gradient: np.ndarray) -> float:
        """The sum over the matched priors; writes loc_weight times its gradient into ``gradient`` (P, L, 4)."""
        if not len(self.matched):
            return 0.0
        differences = self._differences()
        slope = differences if self.p.loc_loss_type == PARAM.L2 else np.clip(differences, -1, 1)
        if self.p.encode_variance_in_target:
            slope = slope / self.variances[self.matched]
        gradient[self.matched, self._location_classes(self.matches[self.matched])] = self.p.loc_weight * slope
        return float(self._terms(differences).sum(dtype=np.float64))
