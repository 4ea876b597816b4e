"""RoIData: an image with its boxes, and its source."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from ... import caffelite_pb2 as pb, file_types, inputs
from ...data.annotated import AnnotatedDatabase
from ...data.draws import below, key, per_sample
from ...data.images import opencv
from ...data.objects import AnnotatedImage, of_database, read
from ...data.opening import named_path, root_folder_of, source_path
from ...data.order import Order
from ...data.pictures import Decoder
from ...data.pipeline import Batch, Source, workers
from ...data.transforms import channel_means
from ...devices.context import ExecutionContext
from ...devices.protocol import Device
from ...errors import Locator, Where
from ...layers.base.layer import Shape, register
from ...layers.base.state import Varying
from ...layers.data import Feed

IN_FAST_RCNN = (3, 5, 6)  # tops: data, rois, labels, bbox_targets, weights once, or inside and outside
ROIS = 128  # of a batch of Fast R-CNN

NO_OBJECT = -1.0  # the label of a row of boxes that is none, and SSD's number of its image


class RoISource(Source):
    """An image (1, 3, H, W) less its mean, im_info (1, 3): height, width, scale; boxes (G, 5): x1, y1, x2, y2, label;
    the same boxes in SSD's form (1, 1, G, 8).

    Images are resized so that the shorter side is short_side, or the longer one max_size. H·W and G are the largest of
    the data set: a smaller image fills the start of its array, and rows without a box have the label -1. ``varies``:
    whether images differ in size. Errors: those of ``objects.read``, an image that cannot be read or has another
    size than its annotation.
    """

    def __init__(self, layer: pb.LayerParameter, phase: int, path: Path, locate: Locator, seed: int):
        param = layer.roi_data_param
        self._decoder = Decoder.of(layer.transform_param, True, locate.at("transform_param"))
        self._database = AnnotatedDatabase(path, self._decoder) if path.is_dir() else None
        try:
            self._images = (
                of_database(self._database) if self._database else read(path, param.root_folder, param.label_file)
            )
            self._set_up(layer, phase, locate, seed)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self._database:
            self._database.close()

    def _set_up(self, layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> None:
        param, transform = layer.roi_data_param, layer.transform_param
        self._difficult, self._mirror = param.use_difficult, transform.mirror and phase == pb.TRAIN
        self._scale, self._mean = np.float32(transform.scale), self._read_mean(transform, locate.at("transform_param"))
        self._short, self._long = param.short_side, param.max_size
        if self._short and self._long < self._short:
            where = locate("roi_data_param", "max_size")
            raise where.error("max_size is too small", expected=f"short_side {self._short} or more", found=self._long)
        sizes = {self._resized(image)[:2] for image in self._images}
        self.varies = len(sizes) > 1
        landscape = [sorted(size) for size in sizes]
        height, width = max(s[0] for s in landscape), max(s[1] for s in landscape)
        if all(size[0] >= size[1] for size in sizes):
            height, width = width, height
        most = max(1, *(len(self._boxes(image)) for image in self._images))
        self._order = Order(len(self._images), key(seed, layer.name, "shuffle") if param.shuffle else None)
        self._flips = key(seed, layer.name, "transform")
        shapes = [(1, 3, height, width), (1, 3), (most, 5), (1, 1, most, 8)][: len(layer.top)]
        self.listed = self._images
        super().__init__(shapes, len(self._images), param.prefetch, workers())

    @staticmethod
    def _read_mean(transform: pb.TransformationParameter, at: Locator) -> np.ndarray:
        if transform.mean_file:
            raise at.error("RoIData takes no mean_file", "mean_file", remedy="use mean_value")
        return channel_means(transform, at)

    def _resized(self, image: AnnotatedImage) -> tuple[int, int, float]:
        """Height, width and scale of an image as the net sees it."""
        if not self._short:
            return image.height, image.width, 1.0
        shorter, longer = sorted((image.height, image.width))
        scale = self._short / shorter
        if round(scale * longer) > self._long:
            scale = self._long / longer
        return max(1, round(image.height * scale)), max(1, round(image.width * scale)), scale

    def _boxes(self, image: AnnotatedImage) -> np.ndarray:
        return image.boxes if self._difficult else image.boxes[~image.difficult]

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        indices = self._order(position, 1)
        number = int(indices[0])
        flip = bool(self._mirror and below(per_sample(self._flips, position, 1)[:, 0], 2)[0])
        if self._database:
            load = partial(self._database.image, number, self._database.read(indices)[0])
            yield partial(self._process, self._images[number], lambda: load()[0], flip, batch)
            return
        file = self._images[number].file
        try:
            content = inputs.read(file, inputs.IMAGE)
        except OSError as mistake:
            raise Where(file).error(f"cannot read image: {mistake.strerror}") from None
        yield partial(self._process, self._images[number], partial(self._decoder, content), flip, batch)

    def _process(self, image: AnnotatedImage, load: Callable[[], np.ndarray], flip: bool, batch: Batch) -> None:
        try:
            pixels = load().transpose(1, 2, 0)
        except ValueError as mistake:
            raise Where(image.file).error(str(mistake)) from None
        if pixels.shape[:2] != (image.height, image.width):
            expected, found = f"{image.height}×{image.width}, as annotated", f"{pixels.shape[0]}×{pixels.shape[1]}"
            raise Where(image.file).error("wrong size of an image", expected=expected, found=found)
        height, width, scale = self._resized(image)
        values = pixels[:, ::-1] if flip else pixels
        values = (values - self._mean) * self._scale
        if (height, width) != pixels.shape[:2]:
            values = opencv("resizing images").resize(values, (width, height))
        pixels = batch.arrays[0].reshape(-1)
        pixels[: 3 * height * width] = values.transpose(2, 0, 1).reshape(-1)
        pixels[3 * height * width :] = 0
        batch.arrays[1][0] = height, width, scale
        rows = image.boxes.copy()
        if flip:
            rows[:, [0, 2]] = image.width - 1 - rows[:, [2, 0]]
        if len(batch.arrays) > 3:
            self._as_ssd(rows, image, batch.arrays[3][0, 0])
        if not self._difficult:
            rows = rows[~image.difficult]
        rows[:, :4] *= scale
        batch.arrays[2][:], batch.arrays[2][:, 4] = 0, NO_OBJECT
        batch.arrays[2][: len(rows)] = rows

    def _as_ssd(self, rows: np.ndarray, image: AnnotatedImage, out: np.ndarray) -> None:
        """Rows of image in the batch (0), label, instance, corners as shares of the image, difficult."""
        out[:], out[:, 0] = 0, NO_OBJECT
        for k, (row, hard) in enumerate(list(zip(rows, image.difficult, strict=True))[: len(out)]):
            corners = (row[:4] + (0, 0, 1, 1)) / ([image.width, image.height] * 2)
            out[k] = 0, row[4], k, *corners, hard


def for_fast_rcnn(spec: pb.LayerParameter) -> bool:
    """Whether the tops are those of Fast R-CNN."""
    return spec.top[1:2] == ["rois"] or len(spec.top) > 4


@register
class RoIData(Varying, Feed):
    """An image with its objects, of COCO JSON, PASCAL VOC or a database of AnnotatedDatum: data (1, 3, H, W), im_info
    (1, 3), height, width and scale, gt_boxes (G, 5), x1, y1, x2, y2 and label, and optionally the objects in SSD's form
    (1, 1, G, 8); all are blobs (N, ...) with N = 1.

    Images are resized to short_side and max_size, and get mean_value, scale and mirror of transform_param; boxes
    follow. G is the largest number of objects of an image: rows without one have the label -1. Where images differ in
    size, H and W vary from pass to pass. Without a source the layer has shapes only. As the Python layer
    roi_data_layer.layer.RoIDataLayer of rbgirshick/py-faster-rcnn lib/roi_data_layer, which gets its data from a
    program. Its tops for Fast R-CNN, the second of which is named rois, need proposals of another program and have
    shapes only: data, rois, labels, and optionally offsets and one or two blobs of weights.
    """

    field = "roi_data_param"
    files = ("source", "root_folder", "label_file")
    tops = (3, 6)
    batched = False
    transforms_images = may_lack_source = True

    _size: tuple[int, ...] = ()  # height and width of the images of the last pass

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        at = locate.at("roi_data_param")
        param = layer.roi_data_param
        path = source_path(param, at)
        opened = pb.LayerParameter()
        opened.CopyFrom(layer)
        named = opened.roi_data_param
        named.root_folder = root_folder_of(param.root_folder, at)
        named.label_file = str(named_path(param.label_file, "label_file", at)) if param.label_file else ""
        return RoISource(opened, phase, path, locate, seed)

    @staticmethod
    def listed_files(param: pb.RoIDataParameter, path: Path) -> Iterator[str]:
        """The images and annotations that a list of RoIData names, or the images of a COCO JSON file."""
        if path.is_dir():
            return
        folder = Path(param.root_folder) if param.root_folder else path.parent
        text = file_types.read_listing(path, "replace")
        names = text.split()
        if path.suffix.lower() == ".json":
            try:
                names = [str(image["file_name"]) for image in json.loads(text)["images"]]
            except (ValueError, LookupError, TypeError, RecursionError):
                return  # the layer refuses the file
        yield from (str(folder / name) for name in names)

    def setup(self) -> None:
        count = len(self.spec.top)
        self.fast = for_fast_rcnn(self.spec)
        allowed = IN_FAST_RCNN if self.fast else (3, 4)
        if count not in allowed:
            expected = " or ".join(map(str, allowed))
            raise self.error(f"has {count} tops", "top", min(count, *allowed), expected=expected, outer=True)
        if self.fast and self.p.source:
            what = "cannot read the proposals that its tops need"
            raise self.error(what, "source", expected="3 tops: data, im_info, gt_boxes")
        self.reads_source = bool(self.p.source)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.source is None:
            return self.shapes_without_data(self.spec)
        self.varies = self.requires_host = getattr(self.source, "varies", False)
        return super().shapes(bottoms)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p, count = spec.roi_data_param, len(spec.top)
        image = (3, p.short_side or p.max_size, p.max_size)
        if not for_fast_rcnn(spec):
            return [(1, *image), (1, 3), (1, 5), (1, 1, 1, 8)][:count]
        targets = (ROIS, 4 * (p.num_classes or 21))
        return [(2, *image), (ROIS, 5), (ROIS,), targets, targets, targets][:count]

    def bound(self, dev: Device, params: list, context: ExecutionContext, replica: bool = False) -> Self:
        copied = super().bound(dev, params, context, replica)
        if copied.source is not None:
            copied._size = tuple(copied.source.shapes[0][2:])
        return copied

    def build(self, dev: Device) -> None:
        if self.source is not None:
            super().build(dev)

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        if self.source is None:
            remedy = 'set roi_data_param { source: "train.json" }'
            if self.fast:
                remedy = "its tops need proposals of another program, which are not read"
            raise self.error("has no data", "source", remedy=remedy)
        arrays = self.source.next()
        for field, array in zip(self._arrays, arrays, strict=True):
            field.set(which, array)
        self._next = arrays[0], (int(arrays[1][0, 0]), int(arrays[1][0, 1]))

    def forward(self, x: list, y: list) -> None:
        if not self.varies:
            return super().forward(x, y)
        pixels, (height, width) = self._next
        if (height, width) != self._size:
            self._size = height, width
            y = self.resize([(1, 3, height, width), *(top.shape for top in y[1:])])
        self.dev.upload(y[0], pixels.reshape(-1)[: 3 * height * width].reshape(1, 3, height, width))
        for top, field in zip(y[1:], self._arrays[1:], strict=True):
            field.copy_to(top)
