"""Detections of a test: average precision of each class, as VOC 2007, VOC 2012 and COCO define it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..detection.precision import COCO_THRESHOLDS, class_precision
from ..layers.base.detection_base import DetectionEvaluation
from ..net.graph import Graph, Value
from .statistics import Curve

COCO_AT = {"coco50": 0.5, "coco75": 0.75}


@dataclass(frozen=True)
class DetectionHead:
    """The detections and the objects that a net compares, the classes of objects, and the overlap from which a
    detection is right. ssd_rows: converts their values to rows as DetectionEvaluate reads them."""

    detections: Value
    objects: Value
    classes: tuple[int, ...]
    threshold: float
    ssd_rows: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def detection_head(graph: Graph) -> DetectionHead | None:
    """Of the last DetectionEvaluate; None where the net has none."""
    nodes = [node for node in graph.nodes if isinstance(node.layer, DetectionEvaluation)]
    if not nodes:
        return None
    layer: Any = nodes[-1].layer
    detections, objects = nodes[-1].bottoms[:2]
    return DetectionHead(detections, objects, tuple(layer.labels), float(layer.p.overlap_threshold), layer.ssd_rows)


@dataclass
class Detections:
    """The detections (label, score, box) and the objects (label, box, difficult) of each tested image."""

    classes: tuple[int, ...]
    threshold: float
    detections: list[np.ndarray] = field(default_factory=list)
    objects: list[np.ndarray] = field(default_factory=list)

    def add(self, detections: np.ndarray, objects: np.ndarray, keep: np.ndarray) -> None:
        """A batch: rows (D, 7) and (G, 8) as DetectionEvaluate reads them. keep (N): which images are new."""
        detections, objects = (rows.reshape(-1, width).astype(float) for rows, width in ((detections, 7), (objects, 8)))
        detections = detections[detections[:, 1] != -1]
        for item in np.flatnonzero(keep).tolist():
            self.detections.append(detections[detections[:, 0] == item, 1:])
            self.objects.append(objects[objects[:, 0] == item][:, [1, 3, 4, 5, 6, 7]])

    def _precision(self, label: int, version: str, threshold: float) -> tuple[float, np.ndarray, np.ndarray]:
        def images():  # noqa: ANN202
            for detections, objects in zip(self.detections, self.objects, strict=True):
                f, k = detections[detections[:, 0] == label], objects[objects[:, 0] == label]
                yield f[:, 2:6], f[:, 1], k[:, 1:5], k[:, 5] != 0

        return class_precision(images(), version, threshold)

    def curves(self) -> list[Curve | None]:
        """Precision over recall of each class; None of a class without objects."""
        curves: list[Curve | None] = []
        for label in self.classes:
            value, precision, recall = self._precision(label, "MaxIntegral", self.threshold)
            precision, recall = np.append(1.0, precision), np.append(0.0, recall)
            curves.append(Curve(recall, recall, precision, 0.0, value) if self._objects(label) else None)
        return curves

    def _objects(self, label: int) -> int:
        """The objects of a class that must be found."""
        return int(sum(((known[:, 0] == label) & (known[:, 5] == 0)).sum() for known in self.objects))

    def figures(self, names: list[str]) -> dict[str, Any]:
        """For JSON: the mean average precisions over the classes that have objects, and each class's. names: of the
        classes."""
        rows = []
        for label, name in zip(self.classes, names, strict=True):
            objects = self._objects(label)
            row: dict[str, Any] = {"label": name, "class": label, "objects": objects}
            row["detections"] = int(sum((detections[:, 0] == label).sum() for detections in self.detections))
            coco = [self._precision(label, "COCO", threshold)[0] for threshold in COCO_THRESHOLDS] if objects else []
            row["voc07"] = self._precision(label, "11point", self.threshold)[0] if objects else None
            row["voc12"] = self._precision(label, "MaxIntegral", self.threshold)[0] if objects else None
            row["coco"] = sum(coco) / len(coco) if coco else None
            for key, threshold in COCO_AT.items():
                row[key] = coco[COCO_THRESHOLDS.index(threshold)] if coco else None
            rows.append(row)
        means = {}
        for key in ("voc07", "voc12", "coco", *COCO_AT):
            values = [row[key] for row in rows if row[key] is not None]
            means[key] = sum(values) / len(values) if values else None
        return {"images": len(self.detections), "overlap_threshold": self.threshold, **means, "classes": rows}
