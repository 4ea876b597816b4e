"""Random regions of images with objects: expansion to a larger canvas, and the regions that batch samplers draw.

Boxes (N, 4) are shares of the image's sides. Source: weiliu89/caffe (branch ssd) src/caffe/util/sampler.cpp and
src/caffe/data_transformer.cpp.
"""

from __future__ import annotations

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.augmentation.fields import Fields
from ...data.draws import Key, key, of_sample, uniform
from ...detection import boxes as box_arithmetic
from ...errors import Locator

WORDS = 4  # random numbers of a region
WHOLE = np.array([0.0, 0.0, 1.0, 1.0])
_CONSTRAINTS = "jaccard_overlap", "sample_coverage", "object_coverage"


class Expansion:
    """expand_param: the image at a random place of a canvas that is up to max_expand_ratio times as large, filled with
    the mean's colour. Errors: a probability or a ratio out of range."""

    def __init__(self, param: pb.ExpansionParameter, fill: tuple[int, ...], locate: Locator, transform: Key):
        fields: Fields = Fields(param, locate, (1, 1, 1))
        self._probability = fields.probability("prob")
        self._most = fields.amount("max_expand_ratio", least=1, most=100)
        self._fill, self._key = fill, key(transform[0], transform[1], "expand")

    def __call__(self, image: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        """The canvas, and the region (4) of the image that it is, which exceeds 0 to 1."""
        happens, ratio, y, x = uniform(of_sample(self._key, position, WORDS)).tolist()
        height, width = image.shape[:2]
        ratio = 1 + (self._most - 1) * ratio
        large = int(height * ratio), int(width * ratio)
        if happens >= self._probability or large == (height, width):
            return image, WHOLE
        top, left = int(y * (large[0] - height + 1)), int(x * (large[1] - width + 1))
        canvas = np.empty((*large, *image.shape[2:]), image.dtype)
        canvas[...] = self._fill if image.ndim == 3 else self._fill[0]
        canvas[top : top + height, left : left + width] = image
        region = [-left / width, -top / height, (large[1] - left) / width, (large[0] - top) / height]
        return canvas, np.array(region)


class BatchSamplers:
    """batch_sampler: one of all accepted regions, each as likely. Errors: scales and ratios out of range."""

    def __init__(self, samplers: list[pb.BatchSampler], locate: Locator, transform: Key):
        self._samplers = [(i, sampler) for i, sampler in enumerate(samplers) if sampler.use_original_image]
        self._key = key(transform[0], transform[1], "batch_sampler")
        for i, sampler in self._samplers:
            at = locate.at("batch_sampler", i)
            fields: Fields = Fields(sampler.sampler, at.at("sampler"), (1, 1, 1))
            fields.range("min_scale", "max_scale", most=1)
            fields.range("min_aspect_ratio", "max_aspect_ratio")
            fields.positive("min_scale", "min_aspect_ratio")
            if sampler.max_trials > 10_000:
                raise at.error("too many trials", "max_trials", expected="at most 10000")

    def __call__(self, boxes: np.ndarray, position: int) -> np.ndarray | None:
        """A region (4) of an image with these boxes, or None where none is accepted."""
        drawn = [WHOLE[None][:0]]
        for i, sampler in self._samplers:
            uniforms = uniform(of_sample(key(*self._key, i), position, WORDS * sampler.max_trials)).reshape(-1, WORDS)
            regions = _drawn(sampler.sampler, uniforms)
            accepted = regions[_accepted(sampler.sample_constraint, regions, boxes)]
            drawn.append(accepted[: sampler.max_sample] if sampler.HasField("max_sample") else accepted)
        every = np.concatenate(drawn)
        if not len(every):
            return None
        return every[int(uniform(of_sample(self._key, position, 1))[0] * len(every))]


def _drawn(sampler: pb.BBoxSampler, uniforms: np.ndarray) -> np.ndarray:
    """Regions (T, 4) of random numbers (T, 4)."""
    scale = sampler.min_scale + (sampler.max_scale - sampler.min_scale) * uniforms[:, 0]
    ratio = sampler.min_aspect_ratio + (sampler.max_aspect_ratio - sampler.min_aspect_ratio) * uniforms[:, 1]
    ratio = np.clip(ratio, scale**2, scale**-2)
    sides = np.stack([scale * np.sqrt(ratio), scale / np.sqrt(ratio)], 1)
    low = uniforms[:, 2:] * (1 - sides)
    return np.concatenate([low, low + sides], 1)


def _accepted(constraint: pb.SampleConstraint, regions: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Which regions (T) satisfy the constraint with one of the boxes."""
    names = [f"{end}_{name}" for name in _CONSTRAINTS for end in ("min", "max")]
    if not any(constraint.HasField(name) for name in names):
        return np.ones(len(regions), bool)
    fits = np.ones((len(regions), len(boxes)), bool)
    tables = (
        box_arithmetic.overlaps(regions, boxes),
        box_arithmetic.coverages(regions, boxes),
        box_arithmetic.coverages(boxes, regions).T,
    )
    for name, table in zip(_CONSTRAINTS, tables, strict=True):
        if constraint.HasField(f"min_{name}"):
            fits &= table >= getattr(constraint, f"min_{name}")
        if constraint.HasField(f"max_{name}"):
            fits &= table <= getattr(constraint, f"max_{name}")
    return np.asarray(fits.any(1))


def emitted(constraint: pb.EmitConstraint | None, boxes: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Which boxes (N) a region (4) keeps, as far as the constraint decides."""
    if constraint is None or not len(boxes):
        return np.ones(len(boxes), bool)
    if constraint.emit_type == pb.EmitConstraint.MIN_OVERLAP:
        return box_arithmetic.coverages(boxes, region[None])[:, 0] > constraint.emit_overlap
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    return ((centers >= region[:2]) & (centers <= region[2:])).all(1)


def cut(image: np.ndarray, region: np.ndarray) -> np.ndarray:
    """The pixels of a region (4) within an image H×W×C or H×W, at least one."""
    height, width = image.shape[:2]
    left, top, right, bottom = np.clip(region, 0, 1) * np.tile([width, height], 2)
    left, top = min(int(left), width - 1), min(int(top), height - 1)
    return image[top : max(top + 1, int(bottom)), left : max(left + 1, int(right))]
