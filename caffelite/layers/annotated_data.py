"""AnnotatedData, VideoData, VideoFrames and VideoClips: images with objects in them, and frames of videos."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from .data import Feed
from .layer import Shape, register


@register
class AnnotatedData(Feed):
    """Images of a database with the objects in them: data (N, C, H, W) and objects (1, 1, G, 8), rows (item, class,
    instance, xmin, ymin, xmax, ymax, difficult), boxes as shares of the image; N = data_param.batch_size.

    G is the number of objects of the batch, and until the first pass the most that a batch can have. Without objects
    there is one row of -1. Where records have labels instead of boxes, the second top is labels (N). Source:
    weiliu89/caffe (branch ssd) src/caffe/layers/annotated_data_layer.cpp.
    """

    field = "data_param"
    files = ("source",)
    tops = (1, 2)
    reads_images = reads_objects = True
    varied_tops = frozenset({1})
    _rows: np.ndarray  # of the batch that was fed

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        found = super().shapes(bottoms)
        self.varies = self.requires_host = getattr(self.source, "typed", False) and len(found) > 1
        return found

    def feeds_ahead(self) -> bool:
        return not self.varies and super().feeds_ahead()

    def feed(self, which: int, iteration: int, part: int) -> None:
        if not self.varies:
            return super().feed(which, iteration, part)
        finish: Any = self._finish
        finish.wait()
        batch = self.source.draw()
        finish.set_batch(which, batch.pixels, batch.picks, batch.resident)
        self._rows = batch.arrays[0]

    def forward(self, x: list, y: list) -> None:
        if not self.varies:
            return super().forward(x, y)
        count = max(1, int((self._rows[..., 0] != -1).sum()))
        if y[1].shape[2] != count:
            y = self.resize([y[0].shape, (1, 1, count, 8)])
        finish: Any = self._finish
        finish.forward(y[0], [], [])
        self.dev.upload(y[1], self._rows[:, :, :count])


@register
class VideoData(Feed):
    """Frames of a video or a camera, as OpenCV reads them: data (N, C, H, W) and labels (N), which are 0; N =
    data_param.batch_size. Source: weiliu89/caffe (branch ssd) src/caffe/layers/video_data_layer.cpp."""

    field = "data_param"
    tops = (1, 2)
    reads_images = True


def _frame_sides(spec: pb.LayerParameter) -> tuple[int, int]:
    """Height and width of the frames that a layer of videos gives, by its fields; 0 where they do not say it."""
    param, transform = spec.video_data_param, spec.transform_param
    height = transform.crop_h or transform.crop_size or param.new_height
    return height, transform.crop_w or transform.crop_size or param.new_width


@register
class VideoFrames(Feed):
    """Frames of videos that are folders of images, from a list of lines "FOLDER FRAMES LABEL": data (N, C, H, W) and
    labels (N); N = batch_size, C = num_segments · new_length · the channels of a frame (RGB 3, FLOW 2).

    A VideoData layer with a source is such a layer. Source: Wang et al. 2016 (temporal segment networks), yjxiong/caffe
    src/caffe/layers/video_data_layer.cpp.
    """

    field = "video_data_param"
    files = ("source", "root_folder")
    tops = (1, 2)
    reads_images = True

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        param, (height, width) = spec.video_data_param, _frame_sides(spec)
        frame = 2 if param.modality == param.FLOW else 1 if param.grayscale else 3
        if not (height and width):
            return []
        channels = param.num_segments * param.new_length * frame
        return [(param.batch_size, channels, height, width), (param.batch_size,)][: len(spec.top)]


@register
class VideoClips(Feed):
    """Clips of videos, folders of images or files, from a list of lines "VIDEO START LABEL": data (N, 3, L, H, W) and
    labels (N); N = batch_size, L = new_length.

    A VideoData layer with a source and sampling_rate, use_image or use_temporal_jitter is such a layer. Source:
    facebookarchive/C3D C3D-v1.1 src/caffe/layers/video_data_layer.cpp.
    """

    field = "video_data_param"
    files = ("source", "root_folder")
    tops = (1, 2)
    reads_images = True

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        param, (height, width) = spec.video_data_param, _frame_sides(spec)
        if not (height and width and param.new_length):
            return []
        return [(param.batch_size, 3 * param.new_length, height, width), (param.batch_size,)][: len(spec.top)]

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        first, *others = super().shapes(bottoms)
        if len(first) == 4:  # the source has colours and frames on one axis
            length = self.p.new_length
            first = (first[0], first[1] // length, length, *first[2:])
        return [first, *others]

    def forward(self, x: list, y: list) -> None:
        super().forward(x, [y[0].reshape(self.source.shapes[0]), *y[1:]])
