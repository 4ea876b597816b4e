"""The operations of detectors, as in ops.py."""

from dataclasses import dataclass
from typing import Protocol

from .ops import Operation, OptionalOperation
from .types import Array, Shape


class BuiltRegionPooling(Protocol):
    bad: Array

    def forward(self, x: Array, rois: Array, y: Array, indices: Array | None) -> None:
        """indices (int32, like y): receives the position of each maximum of MAX; None for the other methods."""

    def backward(self, dy: Array, rois: Array, indices: Array | None, dx: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class RegionPooling(Operation[BuiltRegionPooling]):
    """y (R, C', PH, PW) of the boxes rois (R, 5) of x (N, C, H, W); a box is (image, x1, y1, x2, y2). A box that names
    no image is bad; it, and one that is not finite, gives zeros and no gradient.

    method: "MAX" (ROIPooling), "POSITION" (PSROIPooling) or "ALIGN" (ROIAlign). scale: pixels of x per pixel of a box.
    pad: of MAX and ALIGN, see ROIPoolingParameter.pad_ratio.
    """

    method: str
    x: Shape
    y: Shape
    scale: float
    pad: float = 0


class BuiltMultiBoxLoss(Protocol):
    bad: Array

    def forward(
        self,
        offsets: Array,
        scores: Array,
        priors: Array,
        objects: Array,
        gradients: tuple[Array, Array],
        loss: Array,
        divisor: Array,
    ) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class MultiBoxLoss(OptionalOperation[BuiltMultiBoxLoss]):
    """Matches priors with objects, and computes the loss and the gradients of offsets (N, P·4·L) and scores (N, P·C)
    without the division by ``divisor``: see the fields of MultiBoxLossParameter. An object whose label is no class of
    objects is bad.

    locations: sets of offsets of a prior, 1, or one of each class. objects: rows of the label. overlap_threshold: from
    which on every prior is matched; None: only the best of each object. negative_ratio: hard negatives for each matched
    prior; None: all priors count. negative_overlap: below which a prior may be a hard negative. location_weight: of
    the gradient of the offsets. divisor: None for the matched priors. weights: of the losses of offsets and of scores
    in the total.
    """

    images: int
    priors: int
    classes: int
    locations: int
    objects: int
    background: int
    code_type: int
    overlap_threshold: float | None
    inside_only: bool
    difficult: bool
    agnostic: bool
    negative_ratio: float | None
    negative_overlap: float
    logistic: bool
    squared: bool
    variance_in_target: bool
    location_weight: float
    divisor: float | None
    weights: tuple[float, float]


class BuiltDetections(Protocol):
    """rows (N · labels, top_k, 5): score and corners of the boxes that stay, the best first; counts (N · labels): how
    many stay."""

    rows: Array
    counts: Array

    def forward(self, offsets: Array, scores: Array, priors: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Detections(OptionalOperation[BuiltDetections]):
    """The boxes that non-maximum suppression leaves: see the fields of DetectionOutputParameter.

    locations: sets of offsets of a prior. labels: classes but for the background. confidence_threshold: scores above it
    are looked at. top_k: the best scores of a class that are, at least 1.
    """

    images: int
    priors: int
    classes: int
    locations: int
    labels: int
    background: int
    code_type: int
    variance_in_target: bool
    confidence_threshold: float
    nms_threshold: float
    top_k: int


class BuiltProposals(Protocol):
    """rows (N, pre_nms, 5): score and corners of the boxes that stay, the best first; counts (N): how many, which may
    be more than ``post_nms``."""

    rows: Array
    counts: Array

    def forward(self, scores: Array, offsets: Array, info: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Proposals(OptionalOperation[BuiltProposals]):
    """The boxes that non-maximum suppression leaves: see the fields of ProposalParameter.

    map: height and width of the scores. anchors: of the first position of the map. info: numbers of an image in
    im_info. min_size: the least side; strict: whether smaller boxes are dropped. pre_nms: the best scores that are
    looked at. post_nms: boxes of an image that are needed.
    """

    images: int
    map: Shape
    anchors: tuple[tuple[float, ...], ...]
    stride: int
    info: int
    min_size: float
    strict: bool
    nms_threshold: float
    pre_nms: int
    post_nms: int


class BuiltRegionLoss(Protocol):
    bad: Array

    def forward(self, x: Array, label: Array, errors: Array, loss: Array) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class RegionLoss(OptionalOperation[BuiltRegionLoss]):
    """The errors of predictions, like these, and the sum of their squares / N: see the fields of RegionLossParameter. A
    row whose class is none is bad.

    shape: of predictions, (N, A, 5 + K, H, W). wide: the label has ``rows`` rows of 8 numbers, else so many of 5 for
    each image. anchors: their sizes, in cells. threshold: the overlap beyond which a prediction may be an object.
    """

    shape: tuple[int, int, int, int, int]
    rows: int
    wide: bool
    anchors: tuple[tuple[float, float], ...]
    threshold: float
    noobject_scale: float
    object_scale: float
    class_scale: float
    coord_scale: float
    rescore: bool
    bias_match: bool
