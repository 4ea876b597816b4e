"""BoxOutput and BoxGroupOutput: the boxes that maps of scores and offsets propose."""

from __future__ import annotations

import math

import numpy as np

from ...layers import require
from ...layers.layer import Layer, Shape, register
from ...layers.varying import Varying
from . import stages
from .offsets import check_nms_type, normalisation

PLANNED_RANGES = 4  # of scales, over which boxes are spread, for the memory of a pass before the first one


class Proposals(Varying, Layer):
    """Boxes that maps of scores and offsets propose: (R, 5), rows of image, xmin, ymin, xmax, ymax; the second top has
    the scores as sixth column (R, 6).

    R depends on the data; until the first pass it is the number of places, or max_post_nms_num of each image. Where
    there is no box: one box (0, 1, 1, 10, 10); with scores zeros.
    """

    bottoms, tops = (1, None), (1, 2)
    differentiable = False
    requires_host = True
    pixels = False  # whether both corners belong to a box

    def setup(self) -> None:
        p = self.p
        check_nms_type(self)
        for name in ("field_whr", "field_xyr"):
            require.value(self, name, 0 < getattr(p, name) < math.inf, "a finite number above 0")
        self.mean, self.deviation = normalisation(self)

    def planned(self, batch: int, positions: int) -> list[Shape]:
        """The shapes of the tops before the first pass; ``positions`` of each image."""
        self.batch = batch
        most = min(positions, self.p.max_nms_num or positions)
        count = batch * min(most, self.p.max_post_nms_num or most)
        tops: list[Shape] = [(max(1, count), 5), (max(1, count), 6)]
        return tops[: len(self.spec.top)]

    def candidates(self, image: int, maps: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Boxes (M, 4) and their scores (M) before suppression."""
        raise NotImplementedError

    def decode(self, offsets: np.ndarray, anchor: tuple[float, float], stride: float) -> np.ndarray:
        ratios = self.p.field_whr, self.p.field_xyr
        return stages.decode_map(offsets, anchor, stride, ratios, (self.deviation, self.mean), self.pixels)

    def large_enough(self, boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The boxes of at least fg_thr and min_size."""
        sides = boxes[:, 2:] - boxes[:, :2] + self.pixels
        chosen = (scores >= self.p.fg_thr) & (sides >= self.p.min_size).all(1)
        return boxes[chosen], scores[chosen]

    def forward(self, x: list, y: list) -> None:
        maps, rows = [self.dev.download(array).astype(float) for array in x], []
        for image in range(self.batch):
            with np.errstate(invalid="ignore"):  # numbers that are not finite are no boxes
                boxes, scores = self.candidates(image, maps)
            limits = self.p.max_nms_num, self.p.max_post_nms_num
            stays = stages.proposals(boxes, scores, self.p.iou_thr, self.p.nms_type, self.pixels, *limits)
            rows.append(np.column_stack([np.full(len(stays), image), boxes[stays], scores[stays]]))
        rois = np.concatenate(rows)
        if not len(rois):
            rois = np.array([[0, 1, 1, 10, 10, 0.0]])
        if y[0].shape[0] != len(rois):
            y = self.resize([(len(rois), width) for width in (5, 6)[: len(y)]])
        self.dev.upload(y[0], rois[:, :5].reshape(y[0].shape))
        if len(y) > 1:
            alone = not any(len(r) for r in rows)
            self.dev.upload(y[1], np.zeros(y[1].shape) if alone else rois)


@register
class BoxOutput(Proposals):
    """The boxes that maps of different strides propose: a score is the largest of the classes 1 to K - 1 less that of
    class 0, a box an offset from a field of the map.

    bottoms (N, C, H, W), C = K + 4, a map for each of field_w, field_h and downsample_rate; tops (R, 5) and (R, 6), see
    Proposals. Centres are (cell + 0.5) · downsample_rate + offset · field, offsets within ±1/field_xyr (2), sizes
    field · e^offset within field_whr (2) and 1/field_whr. A box stays where its score is at least fg_thr (0), its sides
    are at least min_size (15), and it overlaps no better one by more than iou_thr (0.5), by nms_type: IOU, IOMU (of the
    smaller box), IOFU (of the better one). max_nms_num, max_post_nms_num: the best before and after (0: all). Errors:
    another number of fields than bottoms. As in zhaoweicai/mscnn, src/caffe/layers/box_output_layer.cpp.
    """

    field = "box_output_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        positions = 0
        for name in ("field_w", "field_h", "downsample_rate"):
            if len(getattr(self.p, name)) != len(bottoms):
                found = len(getattr(self.p, name))
                raise self.error(f"{name} has no value for each bottom", name, expected=len(bottoms), found=found)
        for i, shape in enumerate(bottoms):
            if len(shape) != 4 or shape[1] < 6 or shape[:2] != bottoms[0][:2]:
                expected = "N×(K + 4)×H×W, K of 2 or more, as of the first bottom"
                raise self.bottom_error(i, "is no map of boxes", expected=expected, found=f"shape {list(shape)}")
            positions += shape[2] * shape[3]
        return self.planned(bottoms[0][0], positions)

    def candidates(self, image: int, maps: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        p = self.p
        boxes: list[np.ndarray] = []
        scores: list[np.ndarray] = []
        for i, table in enumerate(maps):
            classes, offsets = table[image, :-4], table[image, -4:]
            score = classes[1:].max(0) - classes[0]
            anchor = p.field_w[i], p.field_h[i]
            corners = self.decode(offsets, anchor, p.downsample_rate[i])
            height, width = score.shape
            low = np.maximum(corners[:, :2], 0)
            size = np.minimum(corners[:, 2:] - corners[:, :2], np.array([width, height]) * p.downsample_rate[i] - low)
            boxes.append(np.concatenate([low, low + size], 1))
            scores.append(score.reshape(-1))
        return self.large_enough(np.concatenate(boxes), np.concatenate(scores))


@register
class BoxGroupOutput(Proposals):
    """As BoxOutput, of maps of probabilities and offsets of groups of fields.

    bottoms: for each box_group_param probabilities (N·A, K, H, W) and offsets (N·A, 4, H, W), A fields of field_w and
    field_h with a stride; tops (R, 5) and (R, 6), see Proposals. The score is 1 - the probability of class 0. Boxes are
    cut at the map's image and their sides are xmax - xmin + 1. Errors: another number of groups, other channels. As in
    zhaoweicai/cascade-rcnn, src/caffe/layers/box_group_output_layer.cpp.
    """

    field = "box_group_output_param"
    bottoms = (2, None)
    pixels = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        groups, positions = self.p.box_group_param, 0
        if len(bottoms) != 2 * len(groups):
            expected = f"{2 * len(groups)}: probabilities and offsets for each box_group_param"
            raise self.error(
                "has other bottoms than groups", "bottom", 0, expected=expected, found=len(bottoms), outer=True
            )
        for i, group in enumerate(groups):
            if not group.field_w or len(group.field_w) != len(group.field_h) or not group.stride:
                what = "field_w and field_h of one length, and a stride"
                raise self.error("a bad group", "box_group_param", i, expected=what)
            fields, (scores, offsets) = len(group.field_w), bottoms[2 * i : 2 * i + 2]
            if len(scores) != 4 or scores[0] % fields:
                expected = f"N·{fields}×K×H×W"
                raise self.bottom_error(2 * i, "is no map", expected=expected, found=f"shape {list(scores)}")
            if offsets != (scores[0], 4, *scores[2:]):
                shape = [scores[0], 4, *scores[2:]]
                raise self.bottom_error(2 * i + 1, "does not fit", expected=shape, found=list(offsets))
            batch = scores[0] // fields
            if batch != bottoms[0][0] // len(groups[0].field_w):
                what = f"{bottoms[0][0] // len(groups[0].field_w)} images"
                raise self.bottom_error(2 * i, "does not fit", expected=what, found=f"{batch} images")
            positions += fields * scores[2] * scores[3]
        return self.planned(bottoms[0][0] // len(groups[0].field_w), positions)

    def candidates(self, image: int, maps: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        p = self.p
        boxes: list[np.ndarray] = []
        scores: list[np.ndarray] = []
        for i, group in enumerate(p.box_group_param):
            for k, anchor in enumerate(zip(group.field_w, group.field_h, strict=True)):
                at = image * len(group.field_w) + k
                score, offsets = 1 - maps[2 * i][at, 0], maps[2 * i + 1][at]
                corners = self.decode(offsets, anchor, group.stride)
                high = np.minimum(corners[:, 2:], np.array([score.shape[1], score.shape[0]]) * group.stride)
                boxes.append(np.concatenate([np.maximum(corners[:, :2], 0), high], 1))
                scores.append(score.reshape(-1))
        return self.large_enough(np.concatenate(boxes), np.concatenate(scores))
