"""The source of RoIData: an image with its boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from .. import inputs
from ..errors import CaffeliteError, Locator, Where
from .annotated import AnnotatedDatabase
from .draws import below, key, per_sample
from .images import decode, opencv
from .objects import AnnotatedImage, of_database, read
from .order import Order
from .pipeline import Batch, Source, workers

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
        self._database = AnnotatedDatabase(path, True, param.shuffle) if path.is_dir() else None
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
            expected = f"short_side {self._short} or more"
            raise CaffeliteError("max_size is too small", where=where, expected=expected, found=self._long)
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
            remedy = "use mean_value"
            raise CaffeliteError("RoIData takes no mean_file", where=at("mean_file"), remedy=remedy)
        if len(transform.mean_value) not in (0, 1, 3):
            found = len(transform.mean_value)
            raise CaffeliteError(
                "wrong number of mean_value", where=at("mean_value", 0), expected="1 or 3", found=found
            )
        return np.array(transform.mean_value or [0], np.float32)

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
        numbers = self._order(position, 1)
        number = int(numbers[0])
        flip = bool(self._mirror and below(per_sample(self._flips, position, 1)[:, 0], 2)[0])
        if self._database:
            load = partial(self._database.image, number, self._database.read(numbers)[0])
            yield partial(self._process, self._images[number], lambda: load()[0], flip, batch)
            return
        file = self._images[number].file
        try:
            content = inputs.read(file, inputs.IMAGE)
        except OSError as mistake:
            raise CaffeliteError(f"cannot read image: {mistake.strerror}", where=Where(file)) from None
        yield partial(self._process, self._images[number], partial(decode, content, True), flip, batch)

    def _process(self, image: AnnotatedImage, load: Callable[[], np.ndarray], flip: bool, batch: Batch) -> None:
        try:
            pixels = load().transpose(1, 2, 0)
        except ValueError as mistake:
            raise CaffeliteError(str(mistake), where=Where(image.file)) from None
        if pixels.shape[:2] != (image.height, image.width):
            expected, found = f"{image.height}×{image.width}, as annotated", f"{pixels.shape[0]}×{pixels.shape[1]}"
            raise CaffeliteError("wrong size of an image", where=Where(image.file), expected=expected, found=found)
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
