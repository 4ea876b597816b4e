"""BoxOutput, BoxGroupOutput and FrcnnOutput: boxes of maps of scores and offsets, and of regions."""

import math
from collections.abc import Iterator

import numpy as np

from ...detection import boxes
from ...detection.saving import Saving
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.base.state import Varying, Writing
from ...prototxt import resolve
from . import stages
from .stages import check_nms_type, normalization

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
        self.mean, self.deviation = normalization(self)

    def planned(self, batch: int, positions: int) -> list[Shape]:
        """The shapes of the tops before the first pass; ``positions`` of each image."""
        self.batch = batch
        most = min(positions, self.p.max_nms_num or positions)
        count = batch * min(most, self.p.max_post_nms_num or most)
        tops: list[Shape] = [(max(1, count), 5), (max(1, count), 6)]
        return tops[: len(self.spec.top)]

    def candidates(self, image: int, maps: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each map, boxes (M, 4) and their scores (H, W) before suppression, M = H · W."""
        raise NotImplementedError

    def decode(self, offsets: np.ndarray, anchor: tuple[float, float], stride: float) -> np.ndarray:
        ratios = self.p.field_whr, self.p.field_xyr
        return stages.decode_map(offsets, anchor, stride, ratios, (self.deviation, self.mean), self.pixels)

    def _large_enough(self, image: int, maps: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The boxes (M, 4) of at least fg_thr and min_size, and their scores (M)."""
        each = [(rows, score.reshape(-1)) for rows, score in self.candidates(image, maps)]
        boxes, scores = (np.concatenate(arrays) for arrays in zip(*each, strict=True))
        sides = boxes[:, 2:] - boxes[:, :2] + self.pixels
        chosen = (scores >= self.p.fg_thr) & (sides >= self.p.min_size).all(1)
        return boxes[chosen], scores[chosen]

    def forward(self, x: list, y: list) -> None:
        maps, rows = [self.dev.download(array).astype(float) for array in x], []
        for image in range(self.batch):
            with np.errstate(invalid="ignore"):  # numbers that are not finite are no boxes
                boxes, scores = self._large_enough(image, maps)
            limits = self.p.max_nms_num, self.p.max_post_nms_num
            stays = stages.proposals(boxes, scores, self.p.iou_thr, self.p.nms_type, self.pixels, *limits)
            rows.append(np.column_stack([np.full(len(stays), image), boxes[stays], scores[stays]]))
        rois = np.concatenate(rows)
        if not len(rois):
            rois = np.array([[0, 1, 1, 10, 10, 0.0]])
        alone = not any(len(r) for r in rows)
        self.write_tops(y, [rois[:, :5], np.zeros(rois.shape) if alone else rois][: len(y)])


@register
class BoxOutput(Proposals):
    """The boxes that maps of different strides propose: a score is the largest of the classes 1 to K - 1 less that of
    class 0, a box an offset from a field of the map.

    bottoms (N, C, H, W), C = K + 4, a map for each of field_w, field_h and downsample_rate; tops (R, 5) and (R, 6), see
    Proposals. Centers are (cell + 0.5) · downsample_rate + offset · field, offsets within ±1/field_xyr (2), sizes
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

    def candidates(self, image: int, maps: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        p = self.p
        for i, table in enumerate(maps):
            classes, offsets = table[image, :-4], table[image, -4:]
            score = classes[1:].max(0) - classes[0]
            anchor = p.field_w[i], p.field_h[i]
            corners = self.decode(offsets, anchor, p.downsample_rate[i])
            height, width = score.shape
            low = np.maximum(corners[:, :2], 0)
            size = np.minimum(corners[:, 2:] - corners[:, :2], np.array([width, height]) * p.downsample_rate[i] - low)
            yield np.concatenate([low, low + size], 1), score


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
            what = "has other bottoms than groups"
            raise self.error(what, "bottom", 0, expected=expected, found=len(bottoms), outer=True)
        for i, group in enumerate(groups):
            if not group.field_w or len(group.field_w) != len(group.field_h) or not group.stride:
                what = "field_w and field_h of one length, and a stride"
                raise self.error("a bad group", "box_group_param", i, expected=what)
            fields, (scores, offsets) = len(group.field_w), bottoms[2 * i : 2 * i + 2]
            if len(scores) != 4 or scores[0] % fields:
                raise self.bottom_error(2 * i, "is no map", expected=f"N·{fields}×K×H×W", found=f"shape {list(scores)}")
            if offsets != (scores[0], 4, *scores[2:]):
                shape = [scores[0], 4, *scores[2:]]
                raise self.bottom_error(2 * i + 1, "does not fit", expected=shape, found=list(offsets))
            batch = scores[0] // fields
            if batch != bottoms[0][0] // len(groups[0].field_w):
                what = f"{bottoms[0][0] // len(groups[0].field_w)} images"
                raise self.bottom_error(2 * i, "does not fit", expected=what, found=f"{batch} images")
            positions += fields * scores[2] * scores[3]
        return self.planned(bottoms[0][0] // len(groups[0].field_w), positions)

    def candidates(self, image: int, maps: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for i, group in enumerate(self.p.box_group_param):
            for k, anchor in enumerate(zip(group.field_w, group.field_h, strict=True)):
                at = image * len(group.field_w) + k
                score, offsets = 1 - maps[2 * i][at, 0], maps[2 * i + 1][at]
                corners = self.decode(offsets, anchor, group.stride)
                high = np.minimum(corners[:, 2:], np.array([score.shape[1], score.shape[0]]) * group.stride)
                yield np.concatenate([np.maximum(corners[:, :2], 0), high], 1), score


COLUMNS = 7  # image, x1, y1, x2, y2, class, score


@register
class FrcnnOutput(Writing, Varying, Layer):
    """The objects that a stage of a cascade finds in an image: probabilities (R, K), offsets (R, W), boxes (R, 5) or
    (R, 6), image, x1, y1, x2, y2, score, and sizes (1, 2), height and width → (D + 1, 7), rows image, x1, y1, x2, y2,
    class, probability, in pixels.

    The first row is (0, -1, …). Offsets · bbox_std + bbox_mean of bbox_reg_param move the boxes; W is 4 · K, or 8,
    those of background first, where cls_aware is false. Of each class but 0 boxes of conf_thr (0) or more enter
    non-maximum suppression by iou_thr (0.5) and nms_type; the max_det_num best stay, 0: all. D depends on the data. NaN
    is never detected. Files are written where save_output_param names a folder. No gradients. Errors: other shapes,
    boxes of other images than 0. Source: zhaoweicai/cascade-rcnn src/caffe/layers/frcnn_output_layer.cpp.
    """

    field = "frcnn_output_param"
    bottoms = (4, 4)
    constant_bottoms = frozenset(range(4))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        check_nms_type(self)
        for name in ("conf_thr", "iou_thr"):
            require.value(self, name, math.isfinite(getattr(self.p, name)), "a finite number")
        self.mean, self.deviation = normalization(self)
        self.writes = bool(self.p.save_output_param.output_directory)
        self._saving: Saving | None = None

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        scores, offsets, rois, sizes = bottoms
        self.classes = math.prod(scores[1:])
        require.fits(self, bottoms, 0, scores and self.classes >= 2, "R×classes, 2 or more")
        self.rois = scores[0]
        width = 4 * self.classes if self.spec.bbox_reg_param.cls_aware else 8
        if offsets[:1] != scores[:1] or math.prod(offsets[1:]) != width:
            raise self.bottom_error(1, "does not fit", expected=f"{self.rois}×{width}", found=list(offsets))
        if math.prod(rois[1:]) != 6:
            require.boxes(self, bottoms, 2)
        require.fits(self, bottoms, 2, rois[:1] == scores[:1], f"{self.rois} boxes")
        require.fits(self, bottoms, 3, math.prod(sizes) == 2, "1×2: height, width")
        self.columns, most = width // 4, self.rois * (self.classes - 1)
        return [(1 + (min(most, self.p.max_det_num) if self.p.max_det_num else most), COLUMNS)]

    def forward(self, x: list, y: list) -> None:
        scores, offsets, rois, sizes = (self.dev.download(array).astype(float) for array in x)
        scores, rois, (height, width) = scores.reshape(self.rois, -1), rois.reshape(self.rois, -1), sizes.reshape(2)
        if (rois[:, 0] != 0).any():
            raise self.error(f'bottom "{self.spec.bottom[2]}" has boxes of several images', expected="image 0")
        moves = offsets.reshape(self.rois, self.columns, 4) * self.deviation + self.mean
        moved = stages.decode_boxes(moves, rois[:, None, 1:5])
        with np.errstate(invalid="ignore"):
            moved = np.concatenate([np.maximum(moved[..., :2], 0), np.minimum(moved[..., 2:], (width, height))], -1)
        detections = self._detections(scores, moved)
        if self.writes:
            self._save(detections, height, width)
        rows = np.concatenate([[[0.0, *[-1.0] * (COLUMNS - 1)]], detections])
        self.write_tops(y, [rows])

    def _detections(self, scores: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """The rows (D, 7) by class and falling probability. moved: (R, 2 or K, 4)."""
        parts = [np.zeros((0, COLUMNS))]
        for label in range(1, self.classes):
            mine = moved[:, min(label, self.columns - 1)]
            usable = np.where(np.isfinite(mine).all(1), scores[:, label], np.nan)
            order = boxes.by_score(usable, above=np.nextafter(self.p.conf_thr, -np.inf))
            stays = order[stages.suppress(mine[order], self.p.iou_thr, self.p.nms_type, True)]
            head, tail = np.zeros(len(stays)), np.full(len(stays), label)
            parts.append(np.column_stack([head, mine[stays], tail, scores[stays, label]]))
        rows, most = np.concatenate(parts), self.p.max_det_num
        if 0 < most < len(rows):
            rows = rows[np.sort(np.argsort(-rows[:, 6], kind="stable")[:most])]
        return rows

    def _save(self, detections: np.ndarray, height: float, width: float) -> None:
        if self._saving is None:
            self._saving = Saving(self.p.save_output_param, self.locate.at(self.field, "save_output_param"), resolve)
        corners = detections[:, 1:5] / ([width, height] * 2)
        self._saving.add(np.column_stack([detections[:, 0], detections[:, 5:], corners]))
