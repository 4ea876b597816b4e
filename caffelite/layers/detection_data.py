"""DetectionData and EvalData: the data layers of Cascade R-CNN."""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection.field_maps import LABEL_CHANNELS, detection_size, in_multiples, map_size
from ..devices.protocol import Device
from .data import Feed
from .layer import Shape, register

OBJECTS = 8  # rows of a batch without data
SHUFFLES = ("random", "random_aspect", "random_mix_aspect")


class ListFeed(Feed):
    """The base class of layers whose batches differ in size and in the number of objects."""

    files = ("source", "root_folder")
    varies = requires_host = True

    def build(self, dev: Device) -> None:
        """Nothing: a pass uploads its batch."""

    def tops_of(self, size: tuple[int, int], objects: int) -> list[Shape]:
        """The shapes of all tops; size: height and width of the images of a batch."""
        raise NotImplementedError

    def feed(self, which: int, iteration: int, part: int) -> None:
        *arrays, facts = self.source.next()
        height, width, objects = facts.astype(int).tolist()
        shapes = self.tops_of((height, width), objects)
        self._batch = [
            array.reshape(-1)[: math.prod(shape)].reshape(shape) for array, shape in zip(arrays, shapes, strict=False)
        ]

    def forward(self, x: list, y: list) -> None:
        batch: list[np.ndarray] = self._batch
        if any(top.shape != array.shape for top, array in zip(y, batch, strict=True)):
            y = self.resize([array.shape for array in batch])
        for top, array in zip(y, batch, strict=True):
            self.dev.upload(top, array)

    def check_positive(self, *names: str) -> None:
        """Errors: a field that is set, but not above 0 and finite."""
        for name in names:
            value = getattr(self.p, name)
            if self.p.HasField(name) and not 0 < value < math.inf:
                raise self.error(f"a bad {name}", name, expected="above 0", found=f"{value:g}")

    def check_pairs(self, *pairs: tuple[str, str]) -> None:
        """Errors: a field without the other of its pair."""
        for pair in pairs:
            for name, other in (pair, pair[::-1]):
                if self.p.HasField(name) and not self.p.HasField(other):
                    raise self.error(f"{name} without {other}", name, remedy=f"set {other} too, or neither")


@register
class DetectionData(ListFeed):
    """Images with objects and the labels of the fields of maps: data (N, C, H, W), C = 3, a label map (N, 6,
    H / stride, W / stride) for each of stride, field_w and field_h, and with output_gt_boxes objects (G, 8), rows
    image, x1, y1, x2, y2, class, ignored, difficult, or a row of -1.

    source lists images and objects (see DetectionDataParameter). Images are resized and may be mirrored, scaled at
    random and changed in colour; a part around a random object is cut out. H and W are those of the first image of the
    batch, or of crop_height and crop_width; smaller images have a margin of 0. Label maps have the channels class,
    centre x, y, width, height and overlap: see ``field_maps``. Random numbers depend on seed, layer and sample.
    Errors: other tops than maps, fields that exclude each other. Source: zhaoweicai/cascade-rcnn
    src/caffe/layers/detection_data_layer.cpp.
    """

    field = "detection_data_param"
    tops = (1, None)

    def setup(self) -> None:
        p, maps = self.p, len(self.p.stride)
        for name in ("field_w", "field_h"):
            if len(getattr(p, name)) != maps:
                found = len(getattr(p, name))
                raise self.error(f"{name} has no value for each stride", name, expected=maps, found=found)
        for name in ("stride", "field_w", "field_h"):
            if not all(getattr(p, name)):
                raise self.error(f"a bad {name}", name, list(getattr(p, name)).index(0), expected="1 or more", found=0)
        count, expected = len(self.spec.top), 1 + maps + p.output_gt_boxes
        if count != expected:
            what = f"has {count} tops for {maps} maps"
            kinds = "data, a label map each" + (", objects" if p.output_gt_boxes else "")
            raise self.outer_error(what, "top", min(count - 1, expected), expected=f"{expected}: {kinds}")
        if not p.batch_size:
            raise self.error("batch_size is missing", "batch_size", expected="1 or more", found=0)
        if p.coord_num != 4:
            raise self.error("a bad coord_num", "coord_num", expected=4, found=p.coord_num)
        if p.HasField("shuffle") and p.shuffle not in SHUFFLES:
            expected_names, found_name = " or ".join(f'"{name}"' for name in SHUFFLES), f'"{p.shuffle}"'
            raise self.error("an unknown shuffle", "shuffle", expected=expected_names, found=found_name)
        self._check_sizes()

    def _check_sizes(self) -> None:
        p = self.p
        pairs = (
            *(("resize_width", "resize_height"), ("crop_width", "crop_height"), ("short_size", "long_size")),
            *(("crop_short_size", "crop_long_size"), ("min_scale", "max_scale"), ("min_whaspect", "max_whaspect")),
            ("low_scale_ratio", "high_scale_ratio"),
        )
        self.check_pairs(*pairs)
        self.check_positive(*(name for pair in pairs for name in pair), "resize_ratio", "mix_group_size")
        for low, high in (("short_size", "long_size"), ("crop_short_size", "crop_long_size"), *pairs[4:]):
            if p.HasField(low) and getattr(p, low) > getattr(p, high):
                expected, found = f"at most {high} {getattr(p, high):g}", f"{getattr(p, low):g}"
                raise self.error(f"{low} is too large", low, expected=expected, found=found)
        for one, other in (
            *(("resize_width", "resize_ratio"), ("resize_width", "short_size"), ("resize_ratio", "short_size")),
            *(("crop_width", "crop_short_size"), ("min_scale", "low_scale_ratio")),
        ):
            if p.HasField(one) and p.HasField(other):
                raise self.error(f"has both {one} and {other}", one, remedy="keep one of them")
        for i, ratio in enumerate(p.template_ratio):
            if not 0 < ratio < math.inf or (p.short_size and in_multiples(p.short_size * ratio) < 1):
                raise self.error("a bad template_ratio", "template_ratio", i, expected="above 0", found=f"{ratio:g}")
        if not p.fg_threshold > 0:
            raise self.error("a bad fg_threshold", "fg_threshold", expected="above 0", found=f"{p.fg_threshold:g}")

    def tops_of(self, size: tuple[int, int], objects: int) -> list[Shape]:
        return _detection_shapes(self.p, size, objects)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        size = detection_size(spec.detection_data_param, (0, 0))
        return _detection_shapes(spec.detection_data_param, size, OBJECTS) if all(size) else []


def _detection_shapes(param: pb.DetectionDataParameter, size: tuple[int, int], objects: int) -> list[Shape]:
    maps = [map_size(size, stride) for stride in param.stride]
    found: list[Shape] = [(param.batch_size, 3, *size), *((param.batch_size, LABEL_CHANNELS, *cells) for cells in maps)]
    return [*found, (objects, 8)] if param.output_gt_boxes else found


@register
class EvalData(ListFeed):
    """Images with objects in the order of their list: data (N, C, H, W), C = 3, objects (G, 8), rows image, x1, y1, x2,
    y2, class, ignored, difficult, or a row of -1, and optionally sizes (N, 2), height and width.

    Images are resized to resize_height and resize_width, or so that the shorter side is short_size, each side at most
    long_size; H and W are multiples of 32 and vary from pass to pass. source is a list as of DetectionData. Errors: a
    batch of images that differ in size. Source: zhaoweicai/cascade-rcnn src/caffe/layers/eval_data_layer.cpp.
    """

    field = "eval_data_param"
    tops = (2, 3)

    def setup(self) -> None:
        self.check_pairs(("resize_width", "resize_height"), ("short_size", "long_size"))
        self.check_positive("resize_width", "resize_height", "short_size", "long_size")
        if not self.p.batch_size:
            raise self.error("batch_size is missing", "batch_size", expected="1 or more", found=0)
        if self.p.batch_size > 1 and not self.p.resize_width:
            remedy = "or set resize_width and resize_height"
            raise self.error("images differ in size", "batch_size", expected=1, found=self.p.batch_size, remedy=remedy)

    def tops_of(self, size: tuple[int, int], objects: int) -> list[Shape]:
        return _eval_shapes(self.spec, size, objects)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p = spec.eval_data_param
        size = (p.resize_height, p.resize_width) if p.resize_width else (p.long_size, p.short_size)
        height, width = (in_multiples(side) for side in size)
        return _eval_shapes(spec, (height, width), OBJECTS) if height and width else []


def _eval_shapes(spec: pb.LayerParameter, size: tuple[int, int], objects: int) -> list[Shape]:
    batch = spec.eval_data_param.batch_size
    found: list[Shape] = [(batch, 3, *size), (objects, 8), (batch, 2)]
    return found[: len(spec.top)]
