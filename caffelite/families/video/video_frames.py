"""VideoFrames and VideoClips: parts of videos that a list names.

Source: yjxiong/caffe src/caffe/layers/video_data_layer.cpp, src/caffe/util/io.cpp.
Source: facebookarchive/C3D C3D-v1.1 src/caffe/layers/video_data_layer.cpp, src/caffe/util/image_io.cpp.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb, inputs
from ...data.draws import below, key, of_sample
from ...data.images import channels_first, resize
from ...data.listing import list_lines, read_entries, whole_number
from ...data.opening import batch_size_of, check_size, check_tops, root_folder_of, source_path
from ...data.order import Order
from ...data.pictures import Decoder, read_image
from ...data.pipeline import Batch, Source, workers
from ...data.samples import TransformedSource
from ...data.transforms import Transform
from ...errors import Locator, Where
from ...layers.base.layer import Shape, register
from ...layers.data import Feed
from .files import open_video

FLOW = pb.VideoDataParameter.FLOW
PATTERNS = {FLOW: "flow_%c_%04d.jpg", pb.VideoDataParameter.RGB: "image_%04d.jpg"}
NUMBER, AXIS, TEXT = r"%0?\d{0,2}d", "%c", r"(?:[^%/]|%%)*"  # parts of a pattern
AXES = ("x", "y")  # of the two images of a frame of optical flow


@dataclass(frozen=True)
class Video:
    """A folder of numbered frames, from 1; their count, and the label of the video."""

    folder: str
    frames: int
    label: int
    where: Where = field(repr=False)


def read_videos(path: Path, root: str) -> list[Video]:
    """The lines "FOLDER FRAMES LABEL" of a list. Errors: another line, a video without frames, an empty list."""

    def video(words: list[str], where: Where) -> Video | None:
        count, label = (whole_number(word) for word in words[-2:]) if len(words) > 2 else (None, None)
        if count is None or label is None or count < 1:
            return None
        return Video(root + " ".join(words[:-2]), count, label, where)

    return read_entries(path, video, '"FOLDER FRAMES LABEL"', "lines of a folder, frames, a label")


def _is_usable(pattern: str, flow: bool) -> bool:
    """Whether a pattern is the name of a file with the number of a frame; of optical flow, after the axis."""
    parts = (TEXT, *((AXIS, TEXT) if flow else ()), NUMBER, TEXT)
    return re.fullmatch("".join(parts), pattern) is not None


class VideoFramesSource(TransformedSource):
    """Frames of N videos: data N×C×h×w and labels N. Each video is divided into num_segments parts of equal length;
    new_length consecutive frames of each part are the channels.

    TRAIN takes a random first frame in each part, TEST that in the middle; of a part that is too short the frames are
    the first of the video. Channels: of a segment, frame by frame: blue, green and red (RGB), one (RGB with grayscale),
    or the horizontal and the vertical flow (FLOW), whose mirror also inverts the horizontal one. Every random number
    depends on the seed, the layer's name and the sample's index in the run. Errors: a frame that cannot be read or
    decoded, or of another size.
    """

    def __init__(self, layer: pb.LayerParameter, videos: list[Video], phase: int, locate: Locator, seed: int):
        self._param, self._videos, self._training = layer.video_data_param, videos, phase == pb.TRAIN
        param, at = self._param, locate.at("video_data_param")
        self._flow = param.modality == FLOW
        self._pattern = param.name_pattern or PATTERNS[param.modality]
        if not _is_usable(self._pattern, self._flow):
            expected = 'as "flow_%c_%05d.jpg"' if self._flow else 'as "img_%05d.jpg"'
            raise at.error("a bad name_pattern", "name_pattern", expected=expected, found=f'"{self._pattern}"')
        transform = pb.TransformationParameter()
        transform.CopyFrom(layer.transform_param)
        if self._flow:
            transform.ClearField("is_flow")
        self._open_source(layer, transform, phase, locate, seed)

    def _open_source(
        self, layer: pb.LayerParameter, transform: pb.TransformationParameter, phase: int, locate: Locator, seed: int
    ) -> None:
        """Reads the first sample, and initializes the source with its shape."""
        videos, batch = self._videos, self._param.batch_size
        self._order = Order(len(videos), key(seed, layer.name, "shuffle") if self._param.shuffle else None)
        self._key, there = key(seed, layer.name, "segments"), locate.at("transform_param")
        self._decoder = Decoder.of(transform, True, there)
        shape = self._read_sample(videos[0], 0).shape
        self.transform = Transform(transform, phase, shape, there, key(seed, layer.name, "transform"))
        shapes: list[tuple[int, ...]] = [(batch, *self.transform.shape), (batch,)]
        self.listed = videos
        super().__init__(shapes[: len(layer.top)], len(videos), layer.data_param.prefetch, workers())

    def _name(self, number: int, axis: str) -> str:
        return self._pattern % ((axis, number) if self._flow else (number,))

    def _starts(self, video: Video, position: int) -> list[int]:
        """How many frames come before the first one of each segment."""
        part, length = video.frames // self._param.num_segments, self._param.new_length
        count = self._param.num_segments
        if part < length:
            return [0] * count
        if not self._training:
            return [(part - length + 1) // 2 + i * part for i in range(count)]
        words = of_sample(self._key, position, -(-count // 4) * 4)[:count]
        return [int(start) + i * part for i, start in enumerate(below(words, part - length + 1))]

    def _read_sample(self, video: Video, position: int) -> np.ndarray:
        """C×H×W of a sample, before its transform. position: its index in the run."""
        return self._frames(video, self._starts(video, position))

    def _frames(self, video: Video, starts: list[int]) -> np.ndarray:
        """C×H×W of a sample."""
        indices = [start + i for start in starts for i in range(1, self._param.new_length + 1)]
        names = [self._name(number, axis) for number in indices for axis in (AXES if self._flow else AXES[:1])]
        return np.concatenate(self._images(video, names, not (self._flow or self._param.grayscale)))

    def _images(self, video: Video, names: list[str], color: bool) -> list[np.ndarray]:
        """The images of these names in the folder of a video, resized. Errors: two sizes."""
        decoder, folder = replace(self._decoder, color=color), video.folder
        images = [self._resized(read_image(f"{folder}/{name}", video.where, decoder, "frame")) for name in names]
        for name, image in zip(names, images, strict=True):
            if image.shape != images[0].shape:
                what = f'frame "{name}" differs in size from the first of its video'
                raise video.where.error(what, expected=images[0].shape[1:], found=image.shape[1:])
        return images

    def _resized(self, image: np.ndarray) -> np.ndarray:
        size = self._param.new_height, self._param.new_width
        return resize(image, *size) if any(size) and image.shape[1:] != size else image

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        pixels, choice = self.choose(position, batch)
        for i, number in enumerate(self._order(position, len(pixels)).tolist()):
            video = self._videos[number]
            for labels in batch.arrays:
                labels[i] = video.label
            yield partial(self._process, video, position + i, pixels, i, bool(choice.flips[i]))

    def _process(self, video: Video, position: int, pixels: np.ndarray, row: int, flip: bool) -> None:
        frames = self.transform.augment(self._read_sample(video, position), position)
        if flip and self._flow:
            frames = frames.copy()
            frames[::2] = 255 - frames[::2]
        pixels[row] = frames


def require_positive(layer: pb.LayerParameter, names: tuple[str, ...], locate: Locator) -> None:
    """Errors: a field of video_data_param that is 0."""
    for name in names:
        if not getattr(layer.video_data_param, name):
            raise locate.at("video_data_param").error(f"{name} must be at least 1", name, found=0)


def open_list(layer: pb.LayerParameter, positive: tuple[str, ...], locate: Locator) -> tuple[Path, str]:
    """The list of a layer, and the folder before its names. Errors: those of the layer's fields, of which ``positive``
    must not be 0."""
    param, at = layer.video_data_param, locate.at("video_data_param")
    check_tops(layer, locate, 2)
    batch_size_of(param, at)
    check_size((param.new_height, param.new_width), at)
    path, root = source_path(param, at), root_folder_of(param.root_folder, at)
    require_positive(layer, positive, locate)
    return path, root


def frame_sides(spec: pb.LayerParameter) -> tuple[int, int]:
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
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        path, root = open_list(layer, ("new_length", "num_segments"), locate)
        return VideoFramesSource(layer, read_videos(path, root), phase, locate, seed)

    @staticmethod
    def listed_files(param: pb.VideoDataParameter, path: Path) -> Iterator[str]:
        """Folders of frames with the pattern of their names; the last two words of a line are their number and the
        label."""
        for line in list_lines(path):
            folder = param.root_folder + " ".join(line.split()[:-2])
            yield f"{folder}/{param.name_pattern}" if param.name_pattern else folder

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        param, (height, width) = spec.video_data_param, frame_sides(spec)
        frame = 2 if param.modality == param.FLOW else 1 if param.grayscale else 3
        if not (height and width):
            return []
        channels = param.num_segments * param.new_length * frame
        return [(param.batch_size, channels, height, width), (param.batch_size,)][: len(spec.top)]


FRAME = "{:06d}.jpg"


def read_clips(path: Path, root: str, counted: bool) -> list[Video]:
    """The lines "VIDEO START LABEL" of a list, whose START becomes the ``frames`` of a Video; not counted: "VIDEO
    LABEL". Errors: another line, an empty list."""
    columns = 2 if counted else 1

    def clip(words: list[str], where: Where) -> Video | None:
        values = [0, *(whole_number(word) for word in words[-columns:])] if len(words) > columns else [None, None]
        start, label = values[-2:]
        if start is None or label is None or start < 0:
            return None
        return Video(root + " ".join(words[:-columns]), start, label, where)

    return read_entries(path, clip, f'"VIDEO {"START " * counted}LABEL"', "lines of a video and a label")


class VideoClipsSource(VideoFramesSource):
    """Clips of videos: data N×(3·L)×h×w, of each color the L frames, and labels N.

    A clip begins at frame START of its line, and takes every sampling_rate-th one: of a folder of images 000001.jpg and
    so on (use_image), or of a file, whose first frame is 0. With use_temporal_jitter the beginning is random: START is
    then the number of images, of which TEST takes the first; files have no START. mean_value: one, or one for each
    color. Errors: a video that cannot be read or that has too few frames, frames that differ in size.
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
        # frame by frame, each by colors → color by color, each by frames
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
            return open_video(video.folder, "VideoClips")
        except OSError as mistake:
            raise video.where.error(f'cannot read video "{video.folder}": {inputs.reason(mistake)}') from None
        except ValueError as mistake:
            raise video.where.error(f'"{video.folder}" {mistake}') from None

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

    A VideoData layer with a source and sampling_rate, use_image or use_temporal_jitter is such a layer, and one in a
    net with NdConvolution or NdPooling, as of video-caffe. Source: facebookarchive/C3D C3D-v1.1
    src/caffe/layers/video_data_layer.cpp.
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
        if len(first) == 4:  # the source has colors and frames on one axis
            length = self.p.new_length
            first = (first[0], first[1] // length, length, *first[2:])
        return [first, *others]

    def forward(self, x: list, y: list) -> None:
        super().forward(x, [y[0].reshape(self.source.shapes[0]), *y[1:]])
