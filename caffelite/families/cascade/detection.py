"""The losses and accuracies of maps of scores and offsets, and what they read."""

import math

import numpy as np

from ...detection.boxes import rounded
from ...layers.base import fillers, require
from ...layers.base.layer import Layer, Shape, register
from ...layers.loss import Loss
from . import field_maps, stages
from .field_maps import LABEL_CHANNELS, Field
from .stages import normalization


class Maps:
    """The cells of a batch: scores (M, K, H, W) and offsets (M, 4, H, W) of M maps, float64; the channels of their
    label maps; and which cells have an object, or are background that may be in a loss (M, H, W)."""

    def __init__(self, scores: np.ndarray, offsets: np.ndarray, labels: np.ndarray, ignored: int | None):
        self.scores, self.offsets = scores, offsets
        self.labels, self.targets, self.overlap = labels[:, 0], labels[:, 1:5], labels[:, 5]
        self.counted = np.ones(self.labels.shape, bool) if ignored is None else self.labels != ignored

    def restrict(self, classes: int, objectness: bool) -> int | None:
        """Counts only labels that are classes, of which there is one for all objects with ``objectness``; returns the
        place of the first other one."""
        labels = self.labels
        named = (labels >= 0) & (objectness | (labels < classes)) & (labels == np.floor(labels))
        wrong = np.flatnonzero(self.counted & ~named)
        self.counted &= named
        self.labels = np.where(self.counted, np.minimum(labels, 1) if objectness else labels, 0).astype(int)
        return int(wrong[0]) if len(wrong) else None

    @property
    def objects(self) -> np.ndarray:
        return self.counted & (self.labels > 0)

    def background(self, threshold: float) -> np.ndarray:
        return self.counted & (self.labels == 0) & (self.overlap < threshold)


class FieldLayer(Layer):
    """A layer that reads the predictions and the label map of one field, or of a group of them, on the host.

    Of loss_param only ignore_label acts: cells with this label are not counted. Errors: bad sizes of fields, shapes
    that do not agree, labels that are no classes.
    """

    grouped = False  # whether scores and offsets are bottoms of their own, of several fields
    requires_host = True
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        p = self.p
        if p.cls_num < 2 or (p.objectness and p.cls_num != 2):
            expected = "2 with objectness" if p.objectness else "2 or more, the background included"
            raise self.error("a bad cls_num", "cls_num", expected=expected, found=p.cls_num)
        require.value(self, "coord_num", self.grouped or p.coord_num == 4, 4)
        for name in ("field_whr", "field_xyr"):
            require.value(self, name, 0 < getattr(p, name) < math.inf, "a finite number above 0")
        require.value(self, "bg_threshold", math.isfinite(p.bg_threshold), "a finite number")
        self.fields = self._fields()
        self.mean, self.deviation = (v.reshape(4, 1, 1) for v in normalization(self))
        param = self.spec.loss_param
        self.ignore_label = param.ignore_label if param.HasField("ignore_label") else None

    def _fields(self) -> list[Field]:
        p, stride = self.p, "stride" if self.grouped else "downsample_rate"
        widths, heights = (p.field_w, p.field_h) if self.grouped else ([p.field_w], [p.field_h])
        if len(widths) != len(heights) or not widths:
            found = f"{len(widths)} and {len(heights)}"
            at = ("field_w", 0) if widths else ("field_w",)
            raise self.error("bad fields", *at, expected="as many field_w as field_h, at least 1", found=found)
        for name, values in (("field_w", widths), ("field_h", heights), (stride, [getattr(p, stride)])):
            if 0 in values:
                at = (name, list(values).index(0)) if self.grouped and name != stride else (name,)
                raise self.error(f"a bad {name}", *at, expected="1 or more", found=0)
        return [Field(*sides, getattr(p, stride)) for sides in zip(widths, heights, strict=True)]

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        """Errors: shapes that do not agree."""
        shape, classes, group = bottoms[0], self.p.cls_num, len(self.fields)
        channels = classes if self.grouped else classes + 4
        if len(shape) != 4 or shape[1] != channels or shape[0] % group:
            batch = f"N·{group}" if self.grouped else "N"
            raise self.bottom_error(0, "does not fit", expected=f"{batch}×{channels}×H×W", found=f"shape {list(shape)}")
        others = [(len(bottoms) - 1, LABEL_CHANNELS)] + [(1, 4)] * self.grouped
        for i, wanted in others:
            expected = [shape[0], wanted, *shape[2:]]
            require.fits(self, bottoms, i, list(bottoms[i]) == expected, expected)
        self._fault: str | None = None

    def read(self, x: list) -> Maps:
        arrays = [self.dev.download(blob).astype(float) for blob in x]
        classes = self.p.cls_num
        scores, offsets = arrays[:2] if self.grouped else (arrays[0][:, :classes], arrays[0][:, classes:])
        maps = Maps(scores, offsets, arrays[-1], self.ignore_label)
        wrong = maps.restrict(classes, self.p.objectness)
        if wrong is not None and not self._fault:
            blob, last = self.spec.bottom[len(x) - 1], classes - 1
            expected = "0 or more" if self.p.objectness else f"0 to {last}"
            sample, position = divmod(wrong, maps.labels[0].size)
            what = f'a label in bottom "{blob}" is no class (map {sample} of the batch, position {position})'
            self._fault = f"{what}; expected integers {expected}"
        return maps

    def faults(self) -> str | None:
        return self._fault

    def fields_of_maps(self, count: int) -> list[Field]:
        """The field of each of ``count`` maps."""
        return self.fields * (count // len(self.fields))


LEAST_CANDIDATES = 4  # cells of the background for each class that DetectionLoss draws at least
MOST_DRAWS = 100  # for each cell: more would change nothing
TINY = float(np.finfo(np.float32).tiny)  # probabilities below it count as it
MINING = ("random", "bootstrap", "mixture")


class FieldLoss(FieldLayer, Loss):
    """The loss of a batch of maps; a type decides which cells are in it, and their weights."""

    def setup(self) -> None:
        FieldLayer.setup(self)
        Loss.setup(self)
        require.value(self, "lambda", math.isfinite(getattr(self.p, "lambda")), "a finite number")
        self.factor = getattr(self.p, "lambda")
        self.bounds = self._bounds()

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and largest normalized offsets (4, 1, 1). As in the forks, of x and y alike, and of both sides."""
        pairs = [(self.mean[i : i + 2].mean(), math.sqrt(self.deviation[i : i + 2].prod())) for i in (0, 2)]
        mean, deviation = (np.repeat([pair[k] for pair in pairs], 2) for k in (0, 1))
        low, high = field_maps.bounds((self.p.field_whr, self.p.field_xyr))
        return tuple(((bound - mean) / deviation).reshape(4, 1, 1) for bound in (low, high))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_bottoms(bottoms)
        self.couples_samples = True
        learned = bottoms[: len(bottoms) - 1]
        self.saved_shapes = {f"gradient {i}": (shape, None) for i, shape in enumerate(learned)}
        return [(1, 1, 1, 2)]

    def choose(self, maps: Maps, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which cells are in the loss (M, H, W), and their weights (M, H, W). shares: probabilities (M, K, H, W)."""
        raise NotImplementedError

    def balance(self, weights: np.ndarray, objects: np.ndarray, others: np.ndarray, always: bool) -> None:
        """Multiplies the weights so that their sums over objects and background are in the ratio 1 : bg_multiple, and
        their mean is 1. always: also without objects."""
        total, own = int(objects.sum() + others.sum()), weights[objects].sum()
        share = 1 / (1 + self.p.bg_multiple)
        if own:
            weights[objects] *= share * total / own
        if (own or always) and others.any():
            weights[others] *= (1 - share) * total / weights[others].sum()

    def forward(self, x: list, y: list) -> None:
        maps = self.read(x)
        with np.errstate(over="ignore", invalid="ignore"):
            shares = np.exp(maps.scores - maps.scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            chosen, weights = self.choose(maps, shares)
            score_loss, score_gradient = self._score_loss(maps, shares, chosen, weights)
            offset_loss, offset_gradient = self._offset_loss(maps, chosen & maps.objects)
        gradients = (
            [score_gradient, offset_gradient] if self.grouped else [np.hstack([score_gradient, offset_gradient])]
        )
        for i, gradient in enumerate(gradients):
            self.dev.upload(self.saved[f"gradient {i}"], gradient)
        if np.isnan(maps.scores).any():
            score_loss = math.nan  # though no cell is chosen: the net has diverged
        if np.isnan(maps.offsets).any():
            offset_loss = math.nan
        weighted = self.factor * offset_loss
        self.dev.upload(y[0], np.array([score_loss + weighted, weighted]).reshape(1, 1, 1, 2))

    def _score_loss(
        self, maps: Maps, shares: np.ndarray, chosen: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        count = max(1, int(chosen.sum()))
        true = maps.labels[:, None] == np.arange(shares.shape[1]).reshape(-1, 1, 1)
        own = np.where(true, shares, 0).sum(1)[chosen]
        loss = -(np.log(np.maximum(own, TINY)) * weights[chosen]).sum() / count
        return float(loss), np.where(chosen[:, None], (shares - true) * weights[:, None] / count, 0)

    def _offset_loss(self, maps: Maps, chosen: np.ndarray) -> tuple[float, np.ndarray]:
        count = max(1, 4 * int(chosen.sum()))
        fields = self.fields_of_maps(len(maps.targets))
        targets = np.stack([field_maps.encode(t, field) for t, field in zip(maps.targets, fields, strict=True)])
        differences = np.clip(maps.offsets, *self.bounds) - (targets - self.mean) / self.deviation
        differences = np.where(chosen[:, None], differences, 0)
        size = np.abs(differences)
        smooth = np.where(size < 1, size * size / 2, size - 0.5) if self.smooth else size * size / 2
        slope = np.clip(differences, -1, 1) if self.smooth else differences
        return float(smooth.sum() / count), self.factor * slope / count

    @property
    def smooth(self) -> bool:
        raise NotImplementedError

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        weight = float(self.dev.download(dy[0]).reshape(-1)[0])
        for i, bottom in enumerate(dx[: len(self.saved)]):
            if bottom is not None:
                self.dev.upload(bottom, self.dev.download(self.saved[f"gradient {i}"]) * weight)

    def generator(self) -> np.random.Generator:
        return fillers.generator(self.context.seed, self.name, 0, *self.context.clock)


@register
class DetectionLoss(FieldLoss):
    """(loss, offset loss) of one field: loss = mean of -w · log softmax(scores)[label] over the chosen cells + offset
    loss; offset loss = lambda · mean of f(offset - target) over the cells with an object.

    x (N, C, H, W), C = K + 4, scores of K = cls_num classes, then offsets; labels (N, 6, H, W) of ImageGtData; top
    (1, 1, 1, 2). Chosen are the cells with an object, and by sample_mode cells of the background whose IoU is below
    bg_threshold: "random": of bg_multiple · objects random places of each image, at least 4 · (K - 1), those that are
    background; "bootstrap": for each class those with the highest score of it, bg_multiple · objects of the class, at
    least 4; "mixture": both, half of each; else all. w is 1; the IoU of an object with iou_weighted; pos_neg_weighted
    makes the sums of objects and background 1 : bg_multiple. Offsets are clipped to ±1/field_xyr (2) and the logarithm
    of field_whr (2), without effect on the gradient; f is smooth L1, without bb_smooth half the square. The random
    numbers depend on seed, layer and iteration. As in the fork, a net's loss adds both numbers of the top, and the
    gradient is that of the first. As in zhaoweicai/mscnn, src/caffe/layers/detection_loss_layer.cpp.
    """

    field = "detection_loss_param"

    @property
    def smooth(self) -> bool:
        return self.p.bb_smooth

    def choose(self, maps: Maps, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        objects, generator = maps.objects, self.generator()
        candidates = maps.background(self.p.bg_threshold)
        others = candidates
        if self.p.sample_mode in MINING:
            others = np.zeros_like(objects)
            for i in range(len(objects)):
                self._mine(others[i].reshape(-1), maps, i, candidates[i].reshape(-1), generator)
        weights = np.ones(objects.shape)
        if self.p.iou_weighted:
            weights[objects] = maps.overlap[objects]
        if self.p.pos_neg_weighted:
            self.balance(weights, objects, others, always=False)
        return objects | others, weights

    def _mine(
        self, chosen: np.ndarray, maps: Maps, image: int, candidates: np.ndarray, generator: np.random.Generator
    ) -> None:
        """Sets the places (H·W) of the background that are in the loss of an image."""
        p, counts = self.p, np.bincount(maps.labels[image][maps.objects[image]], minlength=self.p.cls_num)
        share = 0.5 if p.sample_mode == "mixture" else 1.0
        if p.sample_mode != "bootstrap":
            wanted = max(int(counts.sum() * p.bg_multiple * share), LEAST_CANDIDATES * (p.cls_num - 1))
            drawn = generator.integers(0, len(chosen), min(wanted, MOST_DRAWS * len(chosen)))
            chosen[drawn[candidates[drawn]]] = True
        if p.sample_mode != "random":
            indices = np.flatnonzero(candidates)
            for known in range(1, p.cls_num):
                wanted = max(LEAST_CANDIDATES, int(counts[known] * p.bg_multiple * share))
                chosen[highest(maps.scores[image, known].reshape(-1), indices, wanted)] = True


def highest(scores: np.ndarray, indices: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` places with the highest scores, of equal ones the last; NaN is the lowest."""
    values = np.where(np.isnan(scores[indices]), -np.inf, scores[indices])
    return indices[np.lexsort((-indices, -values))[:count]]


@register
class DetectionGroupLoss(FieldLoss):
    """As DetectionLoss, of a group of fields: scores (N·G, K, H, W), offsets (N·G, 4, H, W), labels (N·G, 6, H, W) →
    (1, 1, 1, 2), G the number of field_w and field_h, K = cls_num.

    Cells are chosen among all fields of an image: all with an object, and bg_multiple times as many of the background,
    at least min_num_neg; with batch_size B at most B / (1 + bg_multiple) with an object and B in all. Too many objects
    are drawn at random; background by neg_mining_type at random, "bootstrap" by the highest probability of an object
    (neg_ranking_type: both values give this order), "mixture" half and half. Offsets are clipped only where field_xyr
    and field_whr are set; the bottom does not change. bbox_loss_type: "Smooth_L1", "Euclidean_L2". With
    pos_neg_weighted background is weighted without objects too. Errors: unknown names. As in zhaoweicai/cascade-rcnn,
    src/caffe/layers/detection_group_loss_layer.cpp.
    """

    field = "detection_group_loss_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset({2})
    grouped = True

    def setup(self) -> None:
        super().setup()
        p = self.p
        names = {
            "neg_mining_type": MINING,
            "neg_ranking_type": ("conf_prob", "conf_loss"),
            "bbox_loss_type": ("Smooth_L1", "Euclidean_L2"),
        }
        for name, known in names.items():
            if getattr(p, name) not in known:
                expected, found = " or ".join(f'"{value}"' for value in known), f'"{getattr(p, name)}"'
                raise self.error(f"an unknown {name}", name, expected=expected, found=found)
        require.value(self, "batch_size", p.batch_size >= 1 or p.batch_size == -1, "1 or more, or -1")

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        if self.p.HasField("field_xyr") and self.p.HasField("field_whr"):
            return super()._bounds()
        return np.array(-np.inf), np.array(np.inf)

    @property
    def smooth(self) -> bool:
        return self.p.bbox_loss_type == "Smooth_L1"

    def choose(self, maps: Maps, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        generator, shape = self.generator(), maps.labels.shape
        images = shape[0] // len(self.fields)
        objects = maps.objects.reshape(images, -1)
        candidates = maps.background(self.p.bg_threshold).reshape(images, -1)
        likely = (1 - shares[:, 0]).reshape(images, -1)
        chosen = np.zeros_like(objects)
        for i in range(images):
            chosen[i, self._sample(np.flatnonzero(objects[i]), np.flatnonzero(candidates[i]), likely[i], generator)] = 1
        chosen, weights = chosen.reshape(shape), np.ones(shape)
        if self.p.pos_neg_weighted:
            self.balance(weights, chosen & maps.objects, chosen & ~maps.objects, always=True)
        return chosen, weights

    def _sample(
        self, objects: np.ndarray, background: np.ndarray, likely: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """The places of an image that are in the loss."""
        p = self.p
        if p.batch_size == -1:
            wanted = max(len(objects) * p.bg_multiple, p.min_num_neg)
        else:
            most = rounded(p.batch_size / (1 + p.bg_multiple))
            if len(objects) > most:
                objects = generator.permutation(objects)[:most]
            wanted = p.batch_size - len(objects)
        if len(background) > wanted:
            hard = {"random": 0, "bootstrap": wanted, "mixture": rounded(wanted / 2)}[p.neg_mining_type]
            ranked = highest(likely, background, hard)
            rest = background[~np.isin(background, ranked)]
            background = np.concatenate([ranked, generator.permutation(rest)[: wanted - hard]])
        return np.concatenate([objects, background])


class FieldAccuracy(FieldLayer):
    """Scores of a batch of maps; -1 where there is nothing to count."""

    tops = (1, 2)
    differentiable = divisible_axes = False
    least_side = 0.0  # of an intersection, in pixels

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_bottoms(bottoms)
        tops: list[Shape] = [(1, 1, 1, 2), (1, 1, 1, 1)]
        return tops[: len(self.spec.top)]

    def correct(self, maps: Maps) -> np.ndarray:
        """The cells (M, H, W) whose label has one of the highest scores; none with NaN."""
        classes = np.arange(maps.scores.shape[1]).reshape(-1, 1, 1)
        own = np.take_along_axis(maps.scores, maps.labels[:, None], 1)
        before = classes < maps.labels[:, None] if self.grouped else classes > maps.labels[:, None]
        better = (maps.scores > own) | ((maps.scores == own) & before)
        most = 1 if self.grouped else self.p.top_k
        return (better.sum(1) < most) & ~np.isnan(maps.scores).any(1)

    def forward(self, x: list, y: list) -> None:
        maps = self.read(x)
        objects = maps.objects
        counted, right = objects | maps.background(self.p.bg_threshold), self.correct(maps)
        accuracies = [right[cells].mean() if cells.any() else -1.0 for cells in (counted, objects)]
        self.dev.upload(y[0], np.array(accuracies).reshape(1, 1, 1, 2))
        if len(y) > 1:
            self.dev.upload(y[1], np.array(self._overlap(maps, objects)).reshape(1, 1, 1, 1))

    def _overlap(self, maps: Maps, objects: np.ndarray) -> float:
        """The mean IoU of predicted and true boxes."""
        normal, ratios = (self.deviation, self.mean), (self.p.field_whr, self.p.field_xyr)
        overlaps = []
        for i, field in enumerate(self.fields_of_maps(len(objects))):
            indices = objects[i].reshape(-1)
            anchor = (field.width, field.height)
            boxes = stages.decode_map(maps.offsets[i], anchor, field.stride, ratios, normal, False)[indices]
            middle, sides = np.split(maps.targets[i].reshape(4, -1).T[indices], 2, axis=1)
            true = np.concatenate([middle - sides / 2, middle + sides / 2], 1)
            overlaps.append(field_maps.overlaps_of_pairs(boxes, true, self.least_side))
        values = np.concatenate(overlaps)
        return float(values.mean()) if len(values) else -1.0


@register
class DetectionAccuracy(FieldAccuracy):
    """The shares of correct cells, of all and of those with an object (1, 1, 1, 2), and optionally the mean IoU of
    boxes at cells with an object (1, 1, 1, 1); -1 where there is no such cell.

    x (N, C, H, W) and labels (N, 6, H, W) as in DetectionLoss. A cell is correct if its label is among the top_k
    (1) highest scores, of equal ones the last class. Cells of the background with an IoU of bg_threshold (0.5) or more
    do not count. Offsets are clipped to ±1/field_xyr (4) and the logarithm of field_whr (2). A score that is NaN is
    wrong. As in zhaoweicai/mscnn, src/caffe/layers/detection_accuracy_layer.cpp.
    """

    field = "detection_accuracy_param"
    bottoms = (2, 2)

    def setup(self) -> None:
        super().setup()
        require.value(self, "top_k", 1 <= self.p.top_k <= self.p.cls_num, f"1 to {self.p.cls_num}")


@register
class DetectionGroupAccuracy(FieldAccuracy):
    """As DetectionAccuracy, of a group of fields: scores (N·G, K, H, W), offsets (N·G, 4, H, W), labels
    (N·G, 6, H, W) → (1, 1, 1, 2), (1, 1, 1, 1).

    Of equal scores the first class is predicted. An intersection of less than a pixel in one direction is none. As in
    zhaoweicai/cascade-rcnn, src/caffe/layers/detection_group_accuracy_layer.cpp.
    """

    field = "detection_group_accuracy_param"
    bottoms = (3, 3)
    grouped = True
    least_side = 1.0
