"""DetectionOutput and DetectionEvaluate: the boxes that stay, and which of them are right."""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection import boxes
from ...detection.saving import Saving
from ...devices.detection_ops import BuiltDetections, Detections
from ...devices.protocol import Device
from ...layers.base.detection_base import DetectingLayer, DetectionEvaluation, check_classes
from ...layers.base.layer import Shape, register
from ...layers.base.state import Varying, Writing
from ...prototxt import resolve
from .prior_box import check_priors

MOST_BYTES = 1 << 28  # of a table of overlaps, a bit each, on a GPU
LOWEST = -float(np.finfo(np.float32).max)


@register
class DetectionOutput(Writing, Varying, DetectingLayer):
    """The boxes that a detector finds: decoded, those of high overlap with a better one of their class dropped.

    Bottoms: offsets (N, P·4), scores (N, P·C), priors (1, 2, P·4) as PriorBox makes them, and optionally images, which
    are not read. Without share_location offsets are (N, P·C·4). Top (1, 1, D, 7): rows (item, class, score, xmin, ymin,
    xmax, ymax), by item, class and falling score; D, the number of boxes, depends on the data and is the most that is
    possible until the first pass. Without any box there is a row (item, -1, …) for each image. NaN scores are never
    detected. clip, OpenCV's, ends boxes at the border of the image before they are compared; the host does so. Files of
    detections are written where save_output_param names a folder. It needs the host, which learns D;
    a GPU decodes and suppresses, but for eta below 1 and tables of overlaps above 256 MiB.

    Five bottoms, as in RefineDet: the fourth has the scores (N, P·2) of no object and of one, by which priors with less
    than objectness_score (0.01) for one are left out, the fifth the offsets (N, P·4) by which priors are moved first;
    the host computes it.

    With use_polygon, as in TextBoxes++, each box has an outline behind it, in offsets and in rows. true: a
    quadrilateral (12 offsets, rows …, ymax, x1, y1, …, x4, y4) from its top left corner clockwise; false: a turned
    rectangle (9 offsets, rows …, ymax, x1, y1, x2, y2, height) whose top side goes from (x1, y1) to (x2, y2). Boxes
    alone decide on what is dropped. The host computes it, for CENTER_SIZE alone.

    Errors: no num_classes, shapes that do not agree, a bad threshold. Source: weiliu89/caffe (branch ssd),
    sfzhang15/RefineDet and MhLiao/TextBoxes_plusplus, src/caffe/layers/detection_output_layer.cpp.
    """

    field = "detection_output_param"
    bottoms = (3, 5)
    differentiable = False
    requires_host = True

    @property
    def detected_classes(self) -> int:
        """The classes of detections, with the background."""
        return self.p.num_classes

    def setup(self) -> None:
        p = self.p
        self.classes = check_classes(self)
        if not p.share_location and p.background_label_id < 0:
            raise self.error("a background of -1 needs shared offsets", "background_label_id")
        self.location_classes = 1 if p.share_location else self.classes
        nms = p.nms_param
        if not nms.nms_threshold >= 0:
            what, found = "nms_threshold must not be negative", f"{nms.nms_threshold:g}"
            raise self.error(what, "nms_param", "nms_threshold", expected="0 or more", found=found)
        if not 0 < nms.eta <= 1:
            raise self.error("a bad eta", "nms_param", "eta", expected="above 0, at most 1", found=f"{nms.eta:g}")
        self.most = nms.top_k if nms.HasField("top_k") else -1
        self.above = p.confidence_threshold if p.HasField("confidence_threshold") else LOWEST
        self.labels = [c for c in range(self.classes) if c != p.background_label_id]
        self.refines = len(self.spec.bottom) == 5
        if self.refines and not p.share_location:
            raise self.error("moved priors need shared offsets", "share_location", expected="true")
        self.outline = (8 if p.use_polygon else 5) if p.HasField("use_polygon") else 0
        if self.outline and (p.code_type != pb.PriorBoxParameter.CENTER_SIZE or p.variance_encoded_in_target):
            remedy = "set code_type: CENTER_SIZE, without variance_encoded_in_target"
            raise self.error("outlines have a code of their own", "use_polygon", remedy=remedy)
        self.writes = bool(p.save_output_param.output_directory)
        self._saving: Saving | None = None

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.priors = check_priors(self, bottoms, self.classes, self.location_classes, self.outline)
        self.n = bottoms[0][0]
        for i, width in zip((3, 4), (2, 4), strict=True) if self.refines else ():
            if math.prod(bottoms[i]) != self.n * self.priors * width or bottoms[i][:1] != (self.n,):
                expected = [self.n, width * self.priors]
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(bottoms[i]))
        each = self.priors if self.most < 0 else min(self.most, self.priors)
        image = each * len(self.labels)
        if self.p.keep_top_k > -1:
            image = min(image, self.p.keep_top_k)
        return [(1, 1, self.n * max(1, image), 7 + self.outline)]

    def build(self, dev: Device) -> None:
        op = Detections(
            images=self.n,
            priors=self.priors,
            classes=self.classes,
            locations=self.location_classes,
            labels=len(self.labels),
            background=self.p.background_label_id,
            code_type=self.p.code_type,
            variance_in_target=self.p.variance_encoded_in_target,
            confidence_threshold=self.above,
            nms_threshold=self.p.nms_param.nms_threshold,
            top_k=self.priors if self.most < 0 else min(self.most, self.priors),
        )
        masks = self.n * op.labels * op.top_k**2 // 8  # bytes
        by_host = self.refines or self.outline or self.p.clip or self.p.nms_param.eta != 1
        self.op = dev.build(op) if not by_host and 0 < masks <= MOST_BYTES else None

    def forward(self, x: list, y: list) -> None:
        detections = self._by_kernels(self.op, x) if self.op else self._on_host(x)
        if self.writes:
            self._save(detections)
        rows = np.concatenate(detections)
        if not len(rows):
            rows = np.full((self.n, 7 + self.outline), -1.0)
            rows[:, 0] = np.arange(self.n)
        self.write_tops(y, [rows[None, None]])

    def _by_kernels(self, op: BuiltDetections, x: list) -> list[np.ndarray]:
        """The rows (D, 7) of each image. Their number is needed here: the only copies from a GPU."""
        op.forward(x[0], x[1], x[2])
        counts = self.dev.download(op.counts).reshape(self.n, -1)
        rows = self.dev.download(op.rows).reshape(self.n, len(self.labels), -1, 5)
        return [
            self._image(i, [mine[:count] for mine, count in zip(rows[i], counts[i], strict=True)])
            for i in range(self.n)
        ]

    def _on_host(self, x: list) -> list[np.ndarray]:
        offsets, scores, priors = (self.dev.download(blob) for blob in x[:3])
        boxes_, variances = priors.reshape(2, self.priors, 4)
        offsets = offsets.reshape(self.n, self.priors, self.location_classes, 4 + self.outline)
        scores = scores.reshape(self.n, self.priors, self.classes)
        encoding = _each(None if self.p.variance_encoded_in_target else variances)
        anchors = np.broadcast_to(boxes_[:, None], (self.n, self.priors, 1, 4))
        if self.refines:
            objectness, moves = (self.dev.download(blob).reshape(self.n, self.priors, -1) for blob in x[3:])
            anchors = np.stack(
                [boxes.decode(each[:, None], boxes_[:, None], encoding, self.p.code_type) for each in moves]
            )
            scores[objectness[..., 1] < self.p.objectness_score] = np.arange(self.classes) == 0
        detections = []
        for i in range(self.n):
            decoded = boxes.decode(offsets[i, ..., :4], anchors[i], encoding, self.p.code_type)
            if self.p.clip:
                decoded = np.clip(decoded, 0, 1)
            if self.outline:
                outlines = _outlines(offsets[i, ..., 4:], anchors[i], variances[:, None])
                decoded = np.concatenate([decoded, outlines], -1)
            detections.append(self._image(i, [self._stays(decoded, scores[i], label) for label in self.labels]))
        return detections

    def _stays(self, decoded: np.ndarray, scores: np.ndarray, label: int) -> np.ndarray:
        """Score, corners and outline (M, 5 + O) of the boxes of a class that stay. decoded (P, L, 4 + O); scores (P,
        C)."""
        nms, mine = self.p.nms_param, decoded[:, 0 if self.p.share_location else label]
        options = {"most": self.most, "above": self.above, "eta": nms.eta}
        stays = boxes.suppress(mine[:, :4], scores[:, label], nms.nms_threshold, **options)
        return np.concatenate([scores[stays, label, None], mine[stays]], 1)

    def _image(self, item: int, stays: list[np.ndarray]) -> np.ndarray:
        """The rows (D, 7 + O) of an image. stays: of each class (M, 5 + O)."""
        parts = [np.zeros((0, 7 + self.outline), self.dev.dtype)]
        for label, mine in zip(self.labels, stays, strict=True):
            head = np.broadcast_to(np.array([item, label], mine.dtype), (len(mine), 2))
            parts.append(np.concatenate([head, mine], 1))
        rows = np.concatenate(parts)
        if -1 < self.p.keep_top_k < len(rows):
            rows = rows[np.sort(np.argsort(-rows[:, 2], kind="stable")[: self.p.keep_top_k])]
        return rows

    def _save(self, detections: list[np.ndarray]) -> None:
        if self._saving is None:
            self._saving = Saving(self.p.save_output_param, self.locate.at(self.field, "save_output_param"), resolve)
        for rows in detections:
            self._saving.add(rows)


def _outlines(offsets: np.ndarray, priors: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """The quadrilaterals (P, L, 8), or turned rectangles (P, L, 5), of offsets like them; priors and variances (P, L,
    4), L may be 1."""
    sizes, steps = priors[..., 2:] - priors[..., :2], variances[..., :2] * (priors[..., 2:] - priors[..., :2])
    if offsets.shape[-1] == 8:
        return priors[..., [0, 1, 2, 1, 2, 3, 0, 3]] + np.tile(steps, 4) * offsets
    centers = (priors[..., :2] + priors[..., 2:]) / 2
    height = np.exp(variances[..., 3:] * offsets[..., 4:]) * sizes[..., 1:]
    return np.concatenate([np.tile(centers, 2) + np.tile(steps, 2) * offsets[..., :4], height], -1)


def _each(variances: np.ndarray | None) -> np.ndarray | None:
    return None if variances is None else variances[:, None]


@register
class DetectionEvaluate(DetectionEvaluation):
    """Which detections in images (N, C, H, W) are right: detections (1, 1, D, 7) as DetectionOutput makes them, objects
    (1, 1, G, 8) as MultiBoxLoss reads them → (1, 1, C - 1 + D, 5).

    First a row (-1, class, objects, -1, -1) for each class, then (item, class, score, right, wrong) for each detection;
    both are 0 where it finds a difficult object and evaluate_difficult_gt is false. A detection is right if the object
    of its class that it overlaps most is overlapped by overlap_threshold (default 0.5) or more and was not found by one
    of a higher score. As a net's output in a test it is reported as one number, the mean average precision over all
    batches. With name_size_file boxes are compared in pixels. It runs on the host. Errors: no num_classes, a label that
    is no class of objects. Source: weiliu89/caffe (branch ssd) src/caffe/layers/detection_evaluate_layer.cpp.
    """

    bottoms = (2, 2)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, width in enumerate((7, 8)):
            if len(bottoms[i]) != 4 or bottoms[i][:2] != (1, 1) or bottoms[i][3] != width:
                raise self.bottom_error(i, "does not fit", expected=f"1×1×D×{width}", found=list(bottoms[i]))
        return [(1, 1, len(self.labels) + bottoms[0][2], 5)]

    @staticmethod
    def ssd_rows(detections: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Detections (D, 7) and objects (G, 8) in the columns above, of the values of the bottoms."""
        return detections.reshape(-1, 7), known.reshape(-1, 8)

    def judged_items(self, detections: np.ndarray) -> np.ndarray:
        """The images of detections (D, 7), in ascending order."""
        return np.unique(detections[detections[:, 1] != -1, 0])
