"""What layers of boxes and offsets check and read alike."""

from __future__ import annotations

import math

import numpy as np

from ...layers.layer import Layer, Shape
from . import stages


def normalisation(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of box offsets (4): 0 and 1 unless bbox_reg_param has both. Errors: not 4 of them, a deviation
    of 0 or less."""
    p = layer.spec.bbox_reg_param
    mean, deviation = np.array(p.bbox_mean, float), np.array(p.bbox_std, float)
    if not len(mean) or not len(deviation):
        return np.zeros(4), np.ones(4)
    if len(mean) != 4 or len(deviation) != 4 or not (deviation > 0).all():
        found = f"{len(mean)} means, {len(deviation)} deviations from {deviation.min():g}"
        expected = "4 of bbox_mean and 4 of bbox_std above 0"
        raise layer.error("a bad bbox_reg_param", "bbox_reg_param", expected=expected, found=found, outer=True)
    return mean, deviation


def check_nms_type(layer: Layer) -> None:
    """Errors: an unknown nms_type."""
    if layer.p.nms_type not in stages.KINDS:
        expected, found = " or ".join(f'"{kind}"' for kind in stages.KINDS), f'"{layer.p.nms_type}"'
        raise layer.error("an unknown nms_type", "nms_type", expected=expected, found=found)


def check_boxes(layer: Layer, shape: Shape, bottom: int) -> None:
    """Errors: bottom ``bottom`` is no list of boxes R×5."""
    if not shape or math.prod(shape[1:]) != 5:
        expected, found = "R×5: image, x1, y1, x2, y2", f"shape {list(shape)}"
        raise layer.bottom_error(bottom, "is no list of boxes", expected=expected, found=found)
