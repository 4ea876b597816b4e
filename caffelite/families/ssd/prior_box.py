"""PriorBox and PriorBoxClustered: boxes around the places of a feature map, from which detectors measure offsets."""

import math

import numpy as np

from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.facets import Learned
from ...layers.base.layer import Layer, Shape, register

SAME_RATIO = 1e-6
MOST_DENSE = 64
MORE_PRIORS = (
    "in a net of TextBoxes set second_offset_h: 1 in each prior_box_param, in one of FaceBoxes density: 4 2 1 (one per "
    "min_size), in one of TextBoxes++ use_polygon in detection_output_param; in any other change num_output of the "
    "heads, or the boxes of a PriorBox"
)


def check_priors(layer: Layer, bottoms: list[Shape], classes: int, location_classes: int, outline: int = 0) -> int:
    """The number of priors, for which offsets, scores and priors must agree. outline: offsets behind those of a box."""
    offsets, scores, priors = bottoms[:3]
    if len(priors) < 3 or priors[:2] != (1, 2) or priors[2] % 4 or math.prod(priors[3:]) != 1:
        expected = "1×2×4P, the boxes and variances of P priors"
        raise layer.bottom_error(2, "has no priors", expected=expected, found=list(priors))
    count = priors[2] // 4
    for i, (shape, width, what) in enumerate(
        ((offsets, (4 + outline) * location_classes, "offsets"), (scores, classes, "scores"))
    ):
        if not shape or math.prod(shape[1:]) != count * width or shape[0] != offsets[0]:
            expected = f"{offsets[0] if offsets else 'N'}×{count * width}: {width} {what} for each of {count} priors"
            more = shape and shape[0] == offsets[0] and math.prod(shape[1:]) > count * width
            remedy = MORE_PRIORS if more else None
            raise layer.bottom_error(i, "does not fit", expected=expected, found=list(shape), remedy=remedy)
    return count


class Priors(Layer):
    """The base class of prior boxes: one grid of places and, around each, boxes of fixed sizes.

    A subclass defines ``sizes``: widths and heights (B, 2) of the boxes in pixels, and may define ``shifts`` (B, 2):
    columns and rows of a step from the place's own center to the boxes' centers. ``fixed`` (F, 4): boxes before those,
    which are cut at the sides of the image: width, height, and columns and rows in pixels from the center to theirs.
    """

    field = "prior_box_param"
    bottoms = (2, 2)
    differentiable = False
    fixed = np.zeros((0, 4))

    def setup(self) -> None:
        p = self.p
        for one, pair in (("img_size", ("img_h", "img_w")), ("step", ("step_h", "step_w"))):
            named = [name for name in pair if p.HasField(name)]
            if named and p.HasField(one):
                raise self.error(f"{one} and {named[0]} exclude each other", named[0], remedy="leave one out")
            for name in (one, *pair):
                value = getattr(p, name)
                if p.HasField(name) and not (math.isfinite(value) and value > 0):
                    raise self.error(f"{name} must be above 0", name, expected="above 0", found=f"{value:g}")
            if len(named) == 1:
                other = pair[1 - pair.index(named[0])]
                raise self.error(f"{named[0]} without {other}", named[0], remedy=f"set {other} too, or only {one}")
        if len(p.variance) not in (0, 1, 4):
            raise self.error("wrong number of variance", "variance", 0, expected="0, 1 or 4", found=len(p.variance))
        self._positive("variance")
        if not math.isfinite(p.offset):
            raise self.error("offset is no finite number", "offset")
        self.sizes = self._sizes()
        self.shifts = self._shifts()
        if p.HasField("second_offset_h"):
            if not math.isfinite(p.second_offset_h):
                raise self.error("second_offset_h is no finite number", "second_offset_h")
        named = [name for name in ("denser_prior_boxes", "additional_y_offset") if getattr(p, name)]
        if p.HasField("second_offset_h") and named:
            what = f"second_offset_h and {named[0]} exclude each other"
            raise self.error(what, named[0], remedy="leave one out")
        if p.HasField("second_offset_h") or named:
            below = self.shifts + (0, (p.second_offset_h if p.HasField("second_offset_h") else 1) - p.offset)
            self.shifts = np.stack([self.shifts, below], 1).reshape(-1, 2)
            self.sizes = self.sizes.repeat(2, 0)

    def _sizes(self) -> np.ndarray:
        raise NotImplementedError

    def _shifts(self) -> np.ndarray:
        return np.zeros((len(self.sizes), 2))

    def _positive(self, name: str) -> list[float]:
        values = list(getattr(self.p, name))
        for i, value in enumerate(values):
            if not (math.isfinite(value) and value > 0):
                raise self.error(f"{name} must be above 0", name, i, expected="above 0", found=f"{value:g}")
        return values

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i in (0, 1):
            require.fits(self, bottoms, i, len(bottoms[i]) == 4, "N×C×H×W", "is no image")
        self.map_size, self.image = bottoms[0][2:], self._image(bottoms[1][2:])
        return [(1, 2, math.prod(self.map_size) * (len(self.fixed) + len(self.sizes)) * 4)]

    def _image(self, shape: Shape) -> Shape:
        """Height and width of the image, in pixels."""
        p = self.p
        return (p.img_h, p.img_w) if p.img_h else (p.img_size, p.img_size) if p.img_size else shape

    def computed(self) -> np.ndarray:
        """The top, float64: boxes as shares of the image, then variances."""
        p, image = self.p, np.array(self.image, float)
        explicit = (p.step_h, p.step_w) if p.step_h else (p.step, p.step) if p.step else image / np.array(self.map_size)
        steps = np.array(explicit)
        rows, columns = ((np.arange(n) + p.offset) * step for n, step in zip(self.map_size, steps, strict=True))
        cells = np.stack(np.meshgrid(columns, rows), -1).reshape(-1, 1, 2)
        centers = np.concatenate([cells + self.fixed[:, 2:], cells + self.shifts * steps[::-1]], 1)
        sides = np.concatenate([self.fixed[:, :2], self.sizes]) / 2
        boxes = np.concatenate([centers - sides, centers + sides], -1) / np.tile(image[::-1], 2)
        cut = boxes[:, : len(self.fixed)]
        cut[..., :2], cut[..., 2:] = np.maximum(cut[..., :2], 0), np.minimum(cut[..., 2:], 1)
        if p.clip:
            boxes = np.clip(boxes, 0, 1)
        if p.yx_order:
            boxes = boxes[..., [1, 0, 3, 2]]
        variances = np.broadcast_to(np.array(p.variance or [0.1]), boxes.shape)
        return np.stack([boxes.reshape(-1), variances.reshape(-1)])[None]

    def build(self, dev: Device) -> None:
        boxes = self.computed()
        self._boxes = dev.empty(boxes.shape)
        dev.upload(self._boxes, boxes)

    def forward(self, x: list, y: list) -> None:
        self.dev.copy(self._boxes, y[0])


@register
@Learned(only_shapes=True)
class PriorBox(Priors):
    """Boxes of all sizes and ratios around each place of a feature map: feature (N, C, H, W), image (N, C', H', W') →
    (1, 2, H·W·B·4), corners as shares of the image and then variances.

    Around the place (h, w), whose center is ((w + offset) · step, (h + offset) · step): for each min_size a square of
    that side, one of side √(min_size · max_size) where there is a max_size, and for each aspect_ratio r, and its
    inverse where ``flip`` (default true), a box min_size √r × min_size / √r. Steps are the image's sides divided by the
    feature's unless given. Sizes may be fractions, as in OpenCV; the source rounds them down. With ``density`` d of
    FaceBoxes the square of min_size is d² squares of side min_size - 1 in rows, moved by (j - ⌊d / 2⌋) · step / d along
    each axis, j < d. With ``second_offset_h`` of TextBoxes each box of a min_size is followed by a copy around ((w +
    offset) · step, (h + second_offset_h) · step); denser_prior_boxes of TextBoxes++, and additional_y_offset of OpenCV,
    are second_offset_h: 1. Before all these, for each ``fixed_size`` s and its density d, and for each r of
    ``fixed_ratio``, or of 1 and the aspect_ratios: d² boxes s √r × s / √r in rows, around (column · g + g / 2 - ⌊s /
    2⌋, row · g + g / 2 - ⌊s / 2⌋) from the center, g = ⌊s / d⌋ pixels, cut at the sides of the image. Errors: no
    min_size and no fixed_size, a max_size not above its min_size, another number of densities. Sources: weiliu89/caffe,
    MhLiao/TextBoxes, MhLiao/TextBoxes_plusplus, sfzhang15/FaceBoxes and, of fixed_size, zihaozhang9/FaceBoxes, each
    src/caffe/layers/prior_box_layer.cpp.
    """

    def setup(self) -> None:
        self.fixed = self._fixed()
        super().setup()

    def _fixed(self) -> np.ndarray:
        ratios = self._positive("fixed_ratio") or [1.0, *self._ratios()]
        if self.p.fixed_ratio and self.p.aspect_ratio:
            what = "fixed_ratio and aspect_ratio exclude each other"
            raise self.error(what, "fixed_ratio", 0, remedy="keep one of the two")
        boxes = []
        sides = self._positive("fixed_size")
        for side, density in zip(sides, self._densities("fixed_size") if sides else (), strict=True):
            gap = int(side / density)
            line = np.arange(density) * gap + gap / 2 - int(side) // 2
            moves = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
            for ratio in ratios:
                box = side * math.sqrt(ratio), side / math.sqrt(ratio)
                boxes += [(*box, *move) for move in moves]
        return np.array(boxes).reshape(-1, 4)

    def _densities(self, name: str) -> list[int]:
        """One for each value of a field, which is min_size or fixed_size."""
        densities, count = list(self.p.density), len(getattr(self.p, name))
        if len(densities) not in (0, count) or not densities and name == "fixed_size":
            expected = f"{count}, one per {name}" if name == "fixed_size" else f"0 or {count}, one per {name}"
            at = ("density", 0) if densities else (name, 0)
            raise self.error("wrong number of density", *at, expected=expected, found=len(densities))
        for i, density in enumerate(densities):
            if not 1 <= density <= MOST_DENSE:
                raise self.error("a bad density", "density", i, expected=f"1 to {MOST_DENSE}", found=density)
        return densities

    def _sizes(self) -> np.ndarray:
        least, most = self._positive("min_size"), self._positive("max_size")
        if not least and not len(self.fixed):
            raise self.error("has no min_size", "min_size", expected="the sides of squares in pixels")
        if len(most) not in (0, len(least)):
            raise self.error("wrong number of max_size", "max_size", 0, expected=f"0 or {len(least)}", found=len(most))
        for i, (low, high) in enumerate(zip(least, most, strict=bool(most))):
            if high <= low:
                what = "max_size must be above min_size"
                raise self.error(what, "max_size", i, expected=f"above {low:g}", found=f"{high:g}")
        densities = [] if self.p.fixed_size else self._densities("min_size")
        sizes = []
        for i, side in enumerate(least):
            sizes += [(side - 1, side - 1)] * densities[i] ** 2 if densities else [(side, side)]
            sizes += [(math.sqrt(side * most[i]),) * 2] if most else []
            sizes += [(side * math.sqrt(r), side / math.sqrt(r)) for r in self._ratios()]
        return np.array(sizes).reshape(-1, 2)

    def _shifts(self) -> np.ndarray:
        shifts = []
        others = np.zeros((len(self._ratios()) + bool(self.p.max_size), 2))
        for density in (not self.p.fixed_size and self.p.density) or [1] * len(self.p.min_size):
            line = (np.arange(density) - density // 2) / density
            shifts += [np.stack(np.meshgrid(line, line), -1).reshape(-1, 2), others]
        return np.concatenate([np.zeros((0, 2)), *shifts])

    def _ratios(self) -> list[float]:
        """The ratios other than 1, each once."""
        ratios = [1.0]
        for ratio in self._positive("aspect_ratio"):
            if all(abs(ratio - other) >= SAME_RATIO for other in ratios):
                ratios += [ratio, 1 / ratio] if self.p.flip else [ratio]
        return ratios[1:]


@register
@Learned(only_shapes=True)
class PriorBoxClustered(Priors):
    """Boxes of given widths and heights around each place of a feature map: feature (N, C, H, W), image (N, C', H',
    W') → (1, 2, H·W·B·4); top and other fields as PriorBox.

    Errors: no width, other numbers of widths and heights. Source: openvinotoolkit/openvino
    docs/articles_en/documentation/openvino-ir-format/operation-sets (PriorBoxClustered).
    """

    def _sizes(self) -> np.ndarray:
        widths, heights = self._positive("width"), self._positive("height")
        if not widths or len(widths) != len(heights):
            expected = f"as many heights as widths, {len(widths)}" if widths else "widths and heights in pixels"
            what = "has no box for each width"
            raise self.error(what, "height" if heights else "width", 0, expected=expected, found=len(heights))
        return np.stack([widths, heights], 1)
