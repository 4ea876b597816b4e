"""What layers of detectors of several families share: their classes and objects, and which detections are right."""

import math

import numpy as np

from ...detection import precision
from ...detection.names import read_sizes
from ...detection.saving import in_pixels
from ...devices.protocol import Device
from ...prototxt import resolve
from .layer import Layer


class DetectingLayer(Layer):
    """A layer whose top has rows of detections."""

    @property
    def detected_classes(self) -> int:
        """The classes of detections, with the background, class 0."""
        raise NotImplementedError


class DetectionJudge(Layer):
    """A layer whose top says which detections are right; a test reports the mean average precision of all its
    batches."""

    @property
    def ap_version(self) -> str:
        """How a test computes the average precision, one of ``precision.VERSIONS``."""
        raise NotImplementedError

    def judged_rows(self, values: np.ndarray) -> np.ndarray:
        """The values of the top as rows (R, 5)."""
        raise NotImplementedError


class DetectionEvaluation(DetectionJudge):
    """Which detections are right, on the host. First a row (-1, class, objects, -1, -1) for each class, then (item,
    class, score, right, wrong) for each detection; any shape.

    A detection is right if the object of its class that it overlaps most is overlapped by overlap_threshold (default
    0.5) or more and was not found by one of a higher score; both are 0 where it finds a difficult object and
    evaluate_difficult_gt is false.
    """

    field = "detection_evaluate_param"
    files = ("name_size_file",)
    differentiable = False
    requires_host = True

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

    def build(self, dev: Device) -> None:
        if self.p.name_size_file and self._sizes is None:
            where = self.locate(self.field, "name_size_file")
            self._sizes = [size for _, size in read_sizes(resolve(self.p.name_size_file, self.locate), where)]

    @staticmethod
    def ssd_rows(detections: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Detections (D, 7), item, class, score and corners, and objects (G, 8), item, class, instance, corners and
        whether it is difficult, of the values of the bottoms."""
        raise NotImplementedError

    def judged_items(self, detections: np.ndarray) -> np.ndarray:
        """The images of detections (D, 7), in ascending order."""
        raise NotImplementedError

    def forward(self, x: list, y: list) -> None:
        detections, known = self.ssd_rows(self.dev.download(x[0]), self.dev.download(x[1]))
        known = read_objects(self, known, 1, self.classes)
        easy = known[(known[:, 7] == 0) | self.p.evaluate_difficult_gt]
        head = [(-1, label, (easy[:, 1] == label).sum(), -1, -1) for label in self.labels]
        rows = np.zeros((math.prod(y[0].shape) // 5, 5), detections.dtype)
        rows[:, 0] = -1  # rows without a detection: no objects of no class
        rows[: len(head)] = head
        rows[len(head) :, 1:] = (self.labels[0] if self.labels else 0, 0, -1, -1)
        items, detections = self.judged_items(detections), detections[detections[:, 1] != -1]
        judged = [
            self._judged(int(item), detections[detections[:, 0] == item], known[known[:, 0] == item]) for item in items
        ]
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

    def _judged(self, item: int, detections: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The rows of the detections of image ``item``."""
        detections, known, pixels = self.in_pixels(item, detections, known)
        parts = [np.zeros((0, 5))]
        for label in np.unique(detections[:, 1]):
            mine, objects = detections[detections[:, 1] == label], known[known[:, 1] == label]
            mine = mine[np.argsort(-mine[:, 2], kind="stable")]
            difficult = (objects[:, 7] != 0) & (not self.p.evaluate_difficult_gt)
            threshold = float(np.float32(self.p.overlap_threshold))
            right, counted = precision.judge(mine[:, 3:7], mine[:, 2], objects[:, 3:7], difficult, threshold, pixels)
            parts.append(np.column_stack([mine[:, :3], right & counted, ~right & counted]))
        return np.concatenate(parts).astype(detections.dtype)

    def next_size(self) -> tuple[int, int]:
        """Height and width of the next image of name_size_file."""
        assert self._sizes
        size = self._sizes[self._position[0]]
        self._position[0] = (self._position[0] + 1) % len(self._sizes)
        return size

    def in_pixels(self, item: int, detections: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Rows with boxes in pixels of the next image of name_size_file, as they are without one; and whether both
        corners are pixels that belong to a box."""
        if not self._sizes:
            return detections, known, False
        height, width = self.next_size()
        resized = self.p.resize_param if self.p.HasField("resize_param") else None
        detections, known = detections.copy(), known.copy()
        for rows in (detections, known):
            rows[:, 3:7] = in_pixels(rows[:, 3:7], height, width, resized)
        return detections, known, True


def check_classes(layer: Layer) -> int:
    """The number of classes; errors: none, a background that is no class."""
    p = layer.p
    if not p.num_classes:
        raise layer.error("has no num_classes", "num_classes", expected="1 or more, the background included")
    if p.background_label_id >= p.num_classes:
        what, expected = "the background is no class", f"at most {p.num_classes - 1}"
        raise layer.error(what, "background_label_id", expected=expected, found=p.background_label_id)
    return p.num_classes


def read_objects(layer: Layer, rows: np.ndarray, bottom: int, classes: int) -> np.ndarray:
    """The rows (G, 8) of objects, without those of item -1, which fill a blob up. Errors: a label that is no class of
    objects."""
    rows = rows.reshape(-1, 8)
    rows = rows[rows[:, 0] != -1]
    labels = rows[:, 1]
    bad = ~((labels >= 0) & (labels < classes) & (labels != layer.p.background_label_id) & (labels == np.floor(labels)))
    if bad.any():
        item = rows[bad][0]
        what = f"has a label that is no class of objects (item {item[0]:g} of the batch)"
        raise layer.bottom_error(bottom, what, expected=expected_labels(layer, classes), found=f"{item[1]:g}")
    return rows


def expected_labels(layer: Layer, classes: int) -> str:
    return f"an integer from 0 to {classes - 1}, but not the background {layer.p.background_label_id}"
