"""VideoClips and its source: clips of videos, N×C×L×H×W.

Source: facebookarchive/C3D C3D-v1.1 src/caffe/layers/video_data_layer.cpp, src/caffe/util/image_io.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ... import inputs
from ...data.draws import below, of_sample
from ...data.images import channels_first, opencv
from ...data.listing import list_lines, shortened, whole_number
from ...data.pipeline import Source
from ...errors import Locator, Where
from ...layers.data import Feed
from ...layers.layer import Shape, register
from .video_frames import Video, VideoFramesSource, frame_sides, open_list

FRAME = "{:06d}.jpg"


def read_clips(path: Path, root: str, counted: bool) -> list[Video]:
    """The lines "VIDEO START LABEL" of a list, whose START becomes the ``frames`` of a Video; not counted: "VIDEO
    LABEL". Errors: another line, an empty list."""
    try:
        lines = inputs.read(path, inputs.LIST).decode("utf-8", "surrogateescape").split("\n")
    except OSError as mistake:
        raise Where(str(path)).error(f"cannot read the list: {inputs.reason(mistake)}") from None
    columns, clips = 2 if counted else 1, []
    for number, line in enumerate(lines, 1):
        where, words = Where(str(path), number), line.split()
        if not words:
            continue
        values = [whole_number(word) for word in words[-columns:]] if len(words) > columns else []
        if not values or None in values or counted and values[0] is not None and values[0] < 0 or "\0" in line:
            expected = f'''"VIDEO {("START " if counted else "")}LABEL"'''
            raise where.error("a line is not understood", expected=expected, found=f'"{shortened(line.strip())}"')
        label = values[-1]
        assert label is not None
        clips.append(Video(root + " ".join(words[:-columns]), (values[0] or 0) if counted else 0, label, where))
    if not clips:
        raise Where(str(path)).error("the list is empty", expected="lines of a video and a label")
    return clips


class VideoClipsSource(VideoFramesSource):
    """Clips of videos: data N×(3·L)×h×w, of each colour the L frames, and labels N.

    A clip begins at frame START of its line, and takes every sampling_rate-th one: of a folder of images 000001.jpg and
    so on (use_image), or of a file, whose first frame is 0. With use_temporal_jitter the beginning is random: START is
    then the number of images, of which TEST takes the first; files have no START. mean_value: one, or one for each
    colour. Errors: a video that cannot be read or that has too few frames, frames that differ in size.
    """

    def __init__(self, layer: pb.LayerParameter, path: Path, root: str, phase: int, locate: Locator, seed: int):
        self._param, self._training, self._flow = layer.video_data_param, phase == pb.TRAIN, False
        self._jitter, self._length = self._param.use_temporal_jitter, self._param.new_length
        self._reach = (self._length - 1) * self._param.sampling_rate + 1
        self._counts: dict[str, int] = {}
        self._videos = read_clips(path, root, self._param.use_image or not self._jitter)
        transform = pb.TransformationParameter()
        transform.CopyFrom(layer.transform_param)
        if len(transform.mean_value) == 3:
            transform.mean_value[:] = np.repeat(layer.transform_param.mean_value, self._length).tolist()
        self._open_source(layer, transform, phase, locate, seed)

    def _first(self, video: Video, frames: int, position: int) -> int:
        """A random frame that a clip can begin with, from 0. frames: those of the video."""
        choices = frames - self._reach + 1
        if choices < 1:
            what = f'"{video.folder}" has too few frames'
            raise video.where.error(what, expected=f"{self._reach} or more", found=frames)
        return int(below(of_sample(self._key, position, 4)[:1], choices)[0])

    def _read_sample(self, video: Video, position: int) -> np.ndarray:
        frames = self._of_folder(video, position) if self._param.use_image else self._of_file(video, position)
        # frame by frame, each by colours → colour by colour, each by frames
        return np.stack(frames, 1).reshape(-1, *frames[0].shape[1:])

    def _of_folder(self, video: Video, position: int) -> list[np.ndarray]:
        start = video.frames
        if self._jitter:
            start = 1 + self._first(video, video.frames, position) * self._training
        indices = range(start, start + self._reach, self._param.sampling_rate)
        return self._images(video, [FRAME.format(number) for number in indices], True)

    def _of_file(self, video: Video, position: int) -> list[np.ndarray]:
        start = self._first(video, self._count(video), position) if self._jitter else video.frames
        capture, frames = self._open(video), []
        try:
            for number in range(start + self._reach):
                if (number - start) % self._param.sampling_rate or number < start:
                    readable, image = capture.grab(), None
                else:
                    readable, image = capture.read()
                if not readable:
                    expected = f"{start + self._reach} or more"
                    raise video.where.error(f'"{video.folder}" has too few frames', expected=expected, found=number)
                if image is not None:
                    frames.append(self._resized(channels_first(image)))
        finally:
            capture.release()
        return frames

    def _open(self, video: Video) -> Any:
        try:
            inputs.check(video.folder)
        except OSError as mistake:
            raise video.where.error(f'cannot read video "{video.folder}": {inputs.reason(mistake)}') from None
        capture = opencv("VideoClips").VideoCapture(video.folder)
        if not capture.isOpened():
            raise video.where.error(f'"{video.folder}" is no video')
        return capture

    def _count(self, video: Video) -> int:
        """The frames of a video, by reading them: what files say of it is often wrong."""
        if video.folder not in self._counts:
            capture, count = self._open(video), 0
            while capture.grab():
                count += 1
            capture.release()
            self._counts[video.folder] = count
        return self._counts[video.folder]


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
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        path, root = open_list(layer, ("new_length", "sampling_rate"), locate)
        return VideoClipsSource(layer, path, root, phase, locate, seed)

    @staticmethod
    def listed_files(param: pb.VideoDataParameter, path: Path) -> Iterator[str]:
        """Videos; the last word of a line, or the last two, are numbers."""
        for words in map(str.split, list_lines(path)):
            yield from (param.root_folder + " ".join(words[:-count]) for count in (1, 2) if len(words) > count)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        param, (height, width) = spec.video_data_param, frame_sides(spec)
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
