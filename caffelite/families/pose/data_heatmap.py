"""DataHeatmap: images with joints, whose places become heat maps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb, inputs
from ...data.images import opencv, resize
from ...data.listing import list_lines, read_entries, whole_number
from ...data.opening import root_folder_of, source_path
from ...data.pictures import Decoder
from ...data.sampled import DataLayer
from ...errors import Where
from ...layers.base import require
from ...layers.base.layer import Shape, register

EXPECTED = '"IMAGE X,Y,... CROP CLASS"'
WIDTH = 1.5  # of the Gaussian around a joint, in pixels of the heat map
PEAK = 4 / (WIDTH * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class Line:
    """An image, the places of its joints (J, 2), and its class."""

    name: str
    joints: np.ndarray
    group: int
    where: Where = field(repr=False)


@register
class DataHeatmap(DataLayer):
    """Images of people and heat maps of their joints: data (N, 3, S, S), red, green and blue times scale, S = outsize,
    and label (N, J, H, W), H = label_height, W = label_width; N = batchsize.

    The list has lines "IMAGE X,Y,X,Y,... CROP CLASS"; labelinds selects coordinates, multfact is the pixels of their
    unit. An image is cut to cropsize, in its middle or with random_crop at a random place, mirrored every other time
    (joints 2 and 3, 4 and 5, ... or without dont_flip_first 1 and 2, ... change places, unless flip_joint_labels is
    false) and rotated by up to angle_max degrees; then resized. A map is 4 / (1.5 √2π) e^(-d² / 4.5), d pixels from its
    joint. sample_per_cluster: classes take turns. CROP is not read. Errors: segmentation, meanfile, images lower than
    cropsize. As in tpfister/caffe-heatmap, src/caffe/layers/data_heatmap.cpp, whose maps are square.
    """

    field = "heatmap_data_param"
    files = ("source", "root_img_dir")
    tops = (1, 2)
    reads_images = True

    def setup(self) -> None:
        for name in ("segmentation", "meanfile"):
            if getattr(self.p, name):
                raise self.error(f"{name} is not supported", name)
        require.positive(self, "batchsize", "cropsize", "outsize", "label_width", "label_height")
        require.value(self, "angle_max", 0 <= self.p.angle_max <= 180, "0 to 180")
        words = [word for word in self.p.labelinds.split(",") if word.strip()]
        if not all((whole_number(word.strip()) or 0) > 0 for word in words) or len(words) % 2:
            expected = "an even number of integers from 1, with commas between"
            raise self.error("a bad labelinds", "labelinds", expected=expected, found=f'"{self.p.labelinds}"')
        self.chosen = sorted(int(word) - 1 for word in words)

    def samples_per_batch(self) -> int:
        return self.p.batchsize

    def open(self) -> None:
        at = self.locate.at(self.field)
        self.root = root_folder_of(self.p.root_img_dir, at)
        self.decoder = Decoder.of(self.spec.transform_param, True, self.locate.at("transform_param"))
        lines = read_entries(source_path(self.p, at), self._line, EXPECTED, f"lines {EXPECTED}")
        groups = sorted({line.group for line in lines}) if self.p.sample_per_cluster else [0]
        members = [[line for line in lines if len(groups) < 2 or line.group == group] for group in groups]
        most = max(map(len, members))
        self.lines = [each[i % len(each)] for i in range(most) for each in members]

    def _line(self, words: list[str], where: Where) -> Line | None:
        try:
            name, coordinates, _, group = words
            values = np.array([float(word) for word in coordinates.split(",") if word])
            values = values[self.chosen] if self.chosen else values
            return Line(name, values.reshape(-1, 2), int(group), where)
        except (ValueError, IndexError):
            return None

    def length(self) -> int:
        return len(self.lines)

    def sample(self, index: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        p, line = self.p, self.lines[index]
        image, joints = self._read(line), line.joints * p.multfact
        side = p.cropsize
        if image.shape[0] < side:
            raise line.where.error(f'"{line.name}" is too low', expected=f"{side} rows or more", found=image.shape[0])
        if image.shape[1] < side:
            image = np.pad(image, ((0, 0), (0, side - image.shape[1]), (0, 0)))
        free = np.array(image.shape[1::-1]) - side
        if p.random_crop:
            image, joints = self._mirrored(image, joints) if random.random() < 0.5 else (image, joints)
            start = random.integers(0, free + 1)
        else:
            start = free // 2
        image, joints = image[start[1] : start[1] + side, start[0] : start[0] + side], joints - start
        if p.random_crop and p.angle_max:
            image, joints = self._rotated(image, joints, random.uniform(-p.angle_max, p.angle_max))
        data = resize(image.transpose(2, 0, 1), p.outsize, p.outsize).astype(np.float32)[::-1] * p.scale
        return data, self._maps(joints / side)

    def _read(self, line: Line) -> np.ndarray:
        """H×W×3: blue, green and red."""
        try:
            return self.decoder(inputs.read(self.root + line.name, inputs.IMAGE)).transpose(1, 2, 0)
        except (OSError, ValueError) as mistake:
            raise line.where.error(f'cannot read "{line.name}": {inputs.reason(mistake)}') from None

    def _mirrored(self, image: np.ndarray, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        joints = joints * (-1, 1) + (image.shape[1], 0)
        if self.p.flip_joint_labels:
            first = int(self.p.dont_flip_first)
            for i in range(first, len(joints) - 1, 2):
                joints[[i, i + 1]] = joints[[i + 1, i]]
        return image[:, ::-1], joints

    def _rotated(self, image: np.ndarray, joints: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
        cv2, side = opencv("angle_max"), len(image)
        turn = cv2.getRotationMatrix2D((side // 2, side // 2), angle, 1)
        rotated = cv2.warpAffine(np.ascontiguousarray(image), turn, (side, side))
        return rotated, joints @ turn[:, :2].T + turn[:, 2]

    def _maps(self, joints: np.ndarray) -> np.ndarray:
        """Of the joints' places as shares of the image."""
        height, width = self.p.label_height, self.p.label_width
        x, y = (joints * (width, height)).T
        across = np.exp(-((np.arange(width) - x[:, None]) ** 2) / (2 * WIDTH**2))
        down = np.exp(-((np.arange(height) - y[:, None]) ** 2) / (2 * WIDTH**2))
        return PEAK * down[:, :, None] * across[:, None]

    @staticmethod
    def listed_files(param: pb.HeatmapDataParameter, path: Path) -> Iterator[str]:
        for line in list_lines(path):
            if words := line.split():
                yield param.root_img_dir + words[0]

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p = spec.heatmap_data_param
        joints = len([word for word in p.labelinds.split(",") if word.strip()]) // 2
        shapes: list[Shape] = [(p.batchsize, 3, p.outsize, p.outsize)]
        shapes.append((p.batchsize, joints, p.label_height, p.label_width))
        return shapes[: len(spec.top)] if joints else []
