"""DetectionOutput and DetectionEvaluate: boxes from the predictions of a detector, and which of them are right."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection import boxes, precision
from ..detection.names import read_sizes
from ..detection.saving import Saving, in_pixels
from ..devices.protocol import Device
from ..prototxt import resolve
from .layer import Layer, Shape, register
from .multibox import check_classes, check_priors, read_objects

LOWEST = -float(np.finfo(np.float32).max)


@register
class DetectionOutput(Layer):
    """The boxes that a detector finds: decoded, those of high overlap with a better one of their class dropped.

    Bottoms: offsets (N, P·4), scores (N, P·C), priors (1, 2, P·4) as PriorBox makes them, and optionally images, which
    are not read. Without share_location offsets are (N, P·C·4). Top (1, 1, D, 7): rows (item, class, score, xmin, ymin,
    xmax, ymax), by item, class and falling score; D, the number of boxes, depends on the data and is the most that is
    possible until the first pass. Without any box there is a row (item, -1, …) for each image. NaN scores are never
    detected. Files of detections are written where save_output_param names a folder. It runs on the host. Errors: no
    num_classes, shapes that do not agree, a bad threshold. Source: weiliu89/caffe (branch ssd)
    src/caffe/layers/detection_output_layer.cpp.
    """

    field = "detection_output_param"
    bottoms = (3, 4)
    differentiable = False
    varies = requires_host = detects = True

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
            found = f"{nms.nms_threshold:g}"
            raise self.error(
                "nms_threshold must not be negative", "nms_param", "nms_threshold", expected="0 or more", found=found
            )
        if not 0 < nms.eta <= 1:
            raise self.error("a bad eta", "nms_param", "eta", expected="above 0, at most 1", found=f"{nms.eta:g}")
        self.most = nms.top_k if nms.HasField("top_k") else -1
        self.above = p.confidence_threshold if p.HasField("confidence_threshold") else LOWEST
        self.labels = [c for c in range(self.classes) if c != p.background_label_id]
        self.writes = bool(p.save_output_param.output_directory)
        self._saving: Saving | None = None

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.priors = check_priors(self, bottoms, self.classes, self.location_classes)
        self.n = bottoms[0][0]
        each = self.priors if self.most < 0 else min(self.most, self.priors)
        image = each * len(self.labels)
        if self.p.keep_top_k > -1:
            image = min(image, self.p.keep_top_k)
        self.count = self.n * max(1, image)
        return [(1, 1, self.count, 7)]

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    def build(self, dev: Device) -> None:
        pass

    def forward(self, x: list, y: list) -> None:
        offsets, scores, priors = (self.dev.download(blob) for blob in x[:3])
        boxes_, variances = priors.reshape(2, self.priors, 4)
        offsets = offsets.reshape(self.n, self.priors, self.location_classes, 4)
        scores = scores.reshape(self.n, self.priors, self.classes)
        encoding = None if self.p.variance_encoded_in_target else variances
        found = []
        for i in range(self.n):
            decoded = boxes.decode(offsets[i], boxes_[:, None], _each(encoding), self.p.code_type)
            found.append(self._image(i, decoded, scores[i]))
        if self.writes:
            self._save(found)
        rows = np.concatenate(found)
        if not len(rows):
            rows = np.full((self.n, 7), -1.0)
            rows[:, 0] = np.arange(self.n)
        if len(rows) != self.count:
            self.count = len(rows)
            y = self.resize([(1, 1, self.count, 7)])
        self.dev.upload(y[0], rows.reshape(1, 1, -1, 7))

    def _image(self, item: int, decoded: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The rows (D, 7) of an image. decoded (P, L, 4); scores (P, C)."""
        p, parts = self.p, []
        for label in self.labels:
            mine = decoded[:, 0 if p.share_location else label]
            kept = boxes.suppress(
                mine, scores[:, label], p.nms_param.nms_threshold, most=self.most, above=self.above, eta=p.nms_param.eta
            )
            head = np.broadcast_to(np.array([item, label], scores.dtype), (len(kept), 2))
            parts.append(np.concatenate([head, scores[kept, label, None], mine[kept]], 1))
        rows = np.concatenate(parts) if parts else np.zeros((0, 7), scores.dtype)
        if -1 < p.keep_top_k < len(rows):
            rows = rows[np.sort(np.argsort(-rows[:, 2], kind="stable")[: p.keep_top_k])]
        return rows

    def _save(self, found: list[np.ndarray]) -> None:
        if self._saving is None:
            self._saving = Saving(self.p.save_output_param, self.locate.at(self.field, "save_output_param"), resolve)
        for rows in found:
            self._saving.add(rows)


def _each(variances: np.ndarray | None) -> np.ndarray | None:
    return None if variances is None else variances[:, None]


@register
class DetectionEvaluate(Layer):
    """Which detections in images (N, C, H, W) are right: detections (1, 1, D, 7) as DetectionOutput makes them, objects
    (1, 1, G, 8) as MultiBoxLoss reads them → (1, 1, C - 1 + D, 5).

    First a row (-1, class, objects, -1, -1) for each class, then (item, class, score, right, wrong) for each detection;
    both are 0 where it finds a difficult object and evaluate_difficult_gt is false. A detection is right if the object
    of its class that it overlaps most is overlapped by overlap_threshold (default 0.5) or more and was not found by one
    of a higher score. As a net's output in a test it is reported as one number, the mean average precision over all
    batches. With name_size_file boxes are compared in pixels. It runs on the host. Errors: no num_classes, a label that
    is no class of objects. Source: weiliu89/caffe (branch ssd) src/caffe/layers/detection_evaluate_layer.cpp.
    """

    field = "detection_evaluate_param"
    files = ("name_size_file",)
    bottoms = (2, 2)
    differentiable = False
    requires_host = evaluates_detection = True

    def setup(self) -> None:
        p = self.p
        self.classes = check_classes(self)
        if not (p.overlap_threshold > 0 and math.isfinite(p.overlap_threshold)):
            found = f"{p.overlap_threshold:g}"
            raise self.error("a bad overlap_threshold", "overlap_threshold", expected="above 0", found=found)
        if p.ap_version not in precision.VERSIONS:
            expected = ", ".join(precision.VERSIONS)
            raise self.error("an unknown ap_version", "ap_version", expected=expected, found=p.ap_version)
        self.labels = [c for c in range(self.classes) if c != p.background_label_id]
        # name_size_file is read when it is needed; the position counts images over all passes
        self._sizes: list[tuple[int, int]] | None = None
        self._position = [0]

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, width in enumerate((7, 8)):
            if len(bottoms[i]) != 4 or bottoms[i][:2] != (1, 1) or bottoms[i][3] != width:
                raise self.bottom_error(i, "does not fit", expected=f"1×1×D×{width}", found=list(bottoms[i]))
        return [(1, 1, len(self.labels) + bottoms[0][2], 5)]

    def build(self, dev: Device) -> None:
        if self.p.name_size_file and self._sizes is None:
            where = self.locate(self.field, "name_size_file")
            self._sizes = [size for _, size in read_sizes(resolve(self.p.name_size_file, self.locate), where)]

    @classmethod
    def variant(cls, spec: pb.LayerParameter) -> type[Layer]:
        """cascade-rcnn's layer where there is a third bottom."""
        return CascadeDetectionEvaluate if len(spec.bottom) > 2 else cls

    @staticmethod
    def ssd_rows(found: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Detections (D, 7) and objects (G, 8) in the columns above, of the values of the bottoms."""
        return found.reshape(-1, 7), known.reshape(-1, 8)

    def judged_items(self, found: np.ndarray) -> np.ndarray:
        """The images of detections (D, 7), in ascending order."""
        return np.unique(found[found[:, 1] != -1, 0])

    def forward(self, x: list, y: list) -> None:
        found, known = self.ssd_rows(self.dev.download(x[0]), self.dev.download(x[1]))
        known = read_objects(self, known, 1, self.classes)
        easy = known[(known[:, 7] == 0) | self.p.evaluate_difficult_gt]
        head = [(-1, label, (easy[:, 1] == label).sum(), -1, -1) for label in self.labels]
        rows = np.zeros((math.prod(y[0].shape) // 5, 5), found.dtype)
        rows[:, 0] = -1  # rows without a detection: no objects of no class
        rows[: len(head)] = head
        rows[len(head) :, 1:] = (self.labels[0] if self.labels else 0, 0, -1, -1)
        items, found = self.judged_items(found), found[found[:, 1] != -1]
        judged = [self._judged(int(item), found[found[:, 0] == item], known[known[:, 0] == item]) for item in items]
        if judged:
            body = np.concatenate(judged)
            rows[len(head) : len(head) + len(body)] = body
        self.dev.upload(y[0], rows.reshape(y[0].shape))

    @property
    def ap_version(self) -> str:
        return self.p.ap_version

    def judged_rows(self, values: np.ndarray) -> np.ndarray:
        """The values of the top as rows (R, 5)."""
        return values.reshape(-1, 5)

    def _judged(self, item: int, found: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The rows of the detections of image ``item``."""
        found, known, pixels = self.in_pixels(item, found, known)
        parts = [np.zeros((0, 5))]
        for label in np.unique(found[:, 1]):
            mine, objects = found[found[:, 1] == label], known[known[:, 1] == label]
            mine = mine[np.argsort(-mine[:, 2], kind="stable")]
            difficult = (objects[:, 7] != 0) & (not self.p.evaluate_difficult_gt)
            threshold = float(np.float32(self.p.overlap_threshold))
            right, counted = precision.judge(mine[:, 3:7], mine[:, 2], objects[:, 3:7], difficult, threshold, pixels)
            parts.append(np.column_stack([mine[:, :3], right & counted, ~right & counted]))
        return np.concatenate(parts).astype(found.dtype)

    def next_size(self) -> tuple[int, int]:
        """Height and width of the next image of name_size_file."""
        assert self._sizes
        size = self._sizes[self._position[0]]
        self._position[0] = (self._position[0] + 1) % len(self._sizes)
        return size

    def in_pixels(self, item: int, found: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Rows with boxes in pixels of the next image of name_size_file, as they are without one; and whether both
        corners are pixels that belong to a box."""
        if not self._sizes:
            return found, known, False
        height, width = self.next_size()
        resized = self.p.resize_param if self.p.HasField("resize_param") else None
        found, known = found.copy(), known.copy()
        for rows in (found, known):
            rows[:, 3:7] = in_pixels(rows[:, 3:7], height, width, resized)
        return found, known, True


class CascadeDetectionEvaluate(DetectionEvaluate):
    """The same for cascades: detections (D, 7), image, x1, y1, x2, y2, class, score, objects (G, 8), image, x1, y1, x2,
    y2, class, ignored, difficult, and sizes (N, 2) of the images, height and width → (C - 1 + D, 5). Boxes are scaled
    from these sizes to those in name_size_file. Source: zhaoweicai/cascade-rcnn
    src/caffe/layers/detection_evaluate_layer.cpp.
    """

    type = "DetectionEvaluate"
    bottoms = (3, 3)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, (name, width) in enumerate((("D", 7), ("G", 8), ("N", 2))):
            if not bottoms[i] or math.prod(bottoms[i][1:]) != width:
                raise self.bottom_error(i, "does not fit", expected=f"{name}×{width}", found=list(bottoms[i]))
        return [(len(self.labels) + bottoms[0][0], 5)]

    @staticmethod
    def ssd_rows(found: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Detections and objects in the columns of ``DetectionEvaluate``."""
        return found.reshape(-1, 7)[:, [0, 5, 6, 1, 2, 3, 4]], known.reshape(-1, 8)[:, [0, 5, 6, 1, 2, 3, 4, 7]]

    def judged_items(self, found: np.ndarray) -> np.ndarray:
        """The images of all rows: FrcnnOutput writes one for each image."""
        return np.unique(found[found[:, 0] != -1, 0])

    def forward(self, x: list, y: list) -> None:
        self._net_sizes = self.dev.download(x[2]).reshape(-1, 2)
        super().forward(x, y)

    def in_pixels(self, item: int, found: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        if not self._sizes:
            return found, known, True
        if not 0 <= item < len(self._net_sizes):
            what = f'has a detection of image {item}, bottom "{self.spec.bottom[2]}" has no size of it'
            raise self.bottom_error(0, what, expected=f"0 to {len(self._net_sizes) - 1}")
        height, width = np.array(self.next_size()) / self._net_sizes[item]
        scale = np.array([width, height] * 2, found.dtype)
        found, known = found.copy(), known.copy()
        for rows in (found, known):
            rows[:, 3:7] *= scale
        return found, known, True
