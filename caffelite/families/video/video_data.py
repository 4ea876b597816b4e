"""VideoData and its source: frames of a video file or a camera.

Source: weiliu89/caffe (branch ssd) src/caffe/layers/video_data_layer.cpp.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb, inputs
from ...data.annotated import Resize
from ...data.draws import Key, key
from ...data.images import channels_first, channels_last, opencv
from ...data.opening import batch_size_of, check_tops
from ...data.pipeline import Batch, Source, workers
from ...data.samples import TransformedSource
from ...data.transforms import Transform
from ...errors import Locator
from ...layers.base.layer import register
from ...layers.data import Feed, no_files
from ...prototxt import resolve
from .files import open_video

ENDLESS = 1 << 30  # frames of a camera


class VideoSource(TransformedSource):
    """Frames in their order, over and over: data N×C×h×w, resized by resize_param, then the transform; and labels N, 0.

    skip_frames are left out after each frame. A video is read from its start to every position, so that a resumed run
    and several processes see the same frames. Errors: no such file or camera, no video, a video without frames.
    """

    def __init__(self, layer: pb.LayerParameter, phase: int, locate: Locator, transform_key: Key):
        param, at = layer.video_data_param, locate.at("video_data_param")
        self._where, self._every = at, 1 + param.skip_frames
        self._camera = param.video_type == pb.VideoDataParameter.WEBCAM
        self._device, self._file = param.device_id, ""
        if not self._camera:
            if not param.video_file:
                raise at.error("video_file is missing", "video_file", expected="the path of a video")
            file = resolve(param.video_file, at)
            try:
                inputs.check(file)
            except OSError as mistake:
                raise at.error(f'cannot read video "{param.video_file}": {mistake.strerror}', "video_file") from None
            self._file = str(file)
        self._capture: Any = None
        self._next = 0  # the frame that the capture returns next
        first = self._frame(0)
        length = ENDLESS if self._camera else -(-self._count() // self._every)
        channels, at = first.shape[0], locate.at("transform_param")
        shape, self._resize = first.shape, None
        if layer.transform_param.resize_param:
            resize = layer.transform_param.resize_param[0]
            self._resize = Resize(resize, channels, phase == pb.TRAIN, at.at("resize_param", 0), transform_key)
            shape = channels, *self._resize.shape
        self.transform = Transform(layer.transform_param, phase, shape, at, transform_key)
        batch = layer.data_param.batch_size
        shapes: list[tuple[int, ...]] = [(batch, *self.transform.shape), (batch,)]
        super().__init__(shapes[: len(layer.top)], length, layer.data_param.prefetch, workers())

    def _open(self) -> None:
        self._next = 0
        if not self._camera:
            try:
                self._capture = open_video(self._file, "VideoData")
            except OSError as mistake:
                what = f'cannot read video "{self._file}": {inputs.reason(mistake)}'
                raise self._where.error(what, "video_file") from None
            except ValueError as mistake:
                raise self._where.error(f'"{self._file}" {mistake}', "video_file") from None
            return
        self._capture = opencv("VideoData").VideoCapture(self._device)
        if not self._capture.isOpened():
            raise self._where.error(f"cannot open camera {self._device}", "device_id")

    def _count(self) -> int:
        """The number of frames, by reading them: what files say of it is often wrong."""
        count = self._next
        while self._capture.grab():
            count += 1
        self._capture.release()
        self._capture = None
        return count

    def _frame(self, number: int) -> np.ndarray:
        """C×H×W of a frame. Errors: it cannot be read."""
        if self._capture is None or not self._camera and number < self._next:
            self._open()
        skipped = self._every - 1 if self._camera and self._next else number - self._next if not self._camera else 0
        readable = all(self._capture.grab() for _ in range(skipped))
        decoded, image = self._capture.read() if readable else (False, None)
        if image is None or not decoded:
            raise self._where.error(f"cannot read frame {number}", "device_id" if self._camera else "video_file")
        self._next = number + 1
        return channels_first(image)

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        pixels, _ = self.choose(position, batch)
        for labels in batch.arrays:
            labels[...] = 0
        for i in range(len(pixels)):
            frame = self._frame((position + i) % self.length * self._every)
            yield partial(self._process, frame, position + i, pixels, i)

    def _process(self, frame: np.ndarray, position: int, pixels: np.ndarray, row: int) -> None:
        if self._resize:
            frame = channels_first(self._resize(channels_last(frame), np.zeros((0, 4)), position)[0])
        pixels[row] = self.transform.augment(frame, position)

    def release(self) -> None:
        if self._capture is not None:
            self._capture.release()
            self._capture = None


@register
class VideoData(Feed):
    """Frames of a video or a camera, as OpenCV reads them: data (N, C, H, W) and labels (N), which are 0; N =
    data_param.batch_size. Source: weiliu89/caffe (branch ssd) src/caffe/layers/video_data_layer.cpp."""

    field = "data_param"
    tops = (1, 2)
    reads_images = True
    files = ("video_data_param.video_file",)
    listed_files = staticmethod(no_files)

    @classmethod
    def source_name(cls, spec: pb.LayerParameter) -> str:
        return spec.video_data_param.video_file or ("camera" if spec.HasField("video_data_param") else "")

    @staticmethod
    def reads_camera(spec: pb.LayerParameter) -> bool:
        return spec.video_data_param.video_type == spec.video_data_param.WEBCAM

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        check_tops(layer, locate, 2)
        batch_size_of(layer.data_param, locate.at("data_param"))
        return VideoSource(layer, phase, locate, key(seed, layer.name, "transform"))
