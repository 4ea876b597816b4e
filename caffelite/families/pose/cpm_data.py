"""CPMData: images of people and maps of their joints and limbs, as OpenPose trains with them."""

import math
from dataclasses import dataclass
from threading import Lock

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.database import Database, Datums
from ...data.images import MOST_PIXELS, opencv
from ...data.leveldb import LevelDB
from ...data.opening import source_path
from ...data.sampled import DataLayer
from ...layers.base.layer import Shape, register

SEEN = 1  # of ``visible``: 0 for a joint that is hidden by something in the image, 1 for one that is seen,
OUTSIDE = 2  # for one that is not in the image,
UNLABELED = 3  # and for one that the data set does not have


@dataclass
class People:
    """The person that a record is about and, after it, the others in the image: the middle of the person (x, y), its
    height in the record's unit, and of all P people the joints (P, J, 2) and their states (P, J)."""

    center: np.ndarray
    scale: float
    joints: np.ndarray
    visible: np.ndarray


@dataclass(frozen=True)
class Body:
    """The joints that a net knows. sources: for each the two joints of a record whose middle it is; limbs: pairs of
    joints; sides: pairs that change places in a mirrored image."""

    sources: tuple[tuple[int, int], ...]
    limbs: tuple[tuple[int, int], ...]
    sides: tuple[tuple[int, int], ...]

    @property
    def stored(self) -> int:
        """Joints that a record needs."""
        return 1 + max(map(max, self.sources))

    @property
    def mirrored(self) -> list[int]:
        """For each joint the one whose place it takes in a mirrored image."""
        order = list(range(len(self.sources)))
        for left, right in self.sides:
            order[left], order[right] = right, left
        return order

    def converted(self, people: People) -> People:
        """The people with these joints instead of those of a record."""
        first, second = np.array(self.sources).T
        joints = (people.joints[:, first] + people.joints[:, second]) / 2
        a, b = people.visible[:, first], people.visible[:, second]
        visible = np.minimum(a, b)
        for state in (UNLABELED, OUTSIDE):
            visible = np.where((a == state) | (b == state), state, visible)
        return People(people.center, people.scale, joints, visible)


def _pairs(first: str, second: str, base: int = 0) -> tuple[tuple[int, int], ...]:
    return tuple((int(a) - base, int(b) - base) for a, b in zip(first.split(), second.split(), strict=True))


BODIES = {  # by num_parts
    56: Body(  # of COCO: nose, neck, arms, legs, eyes, ears
        _pairs("1 6 7 9 11 6 8 10 13 15 17 12 14 16 3 2 5 4", "1 7 7 9 11 6 8 10 13 15 17 12 14 16 3 2 5 4", 1),
        _pairs("2 9 10 2 12 13 2 3 4 3 2 6 7 6 2 1 1 15 16", "9 10 11 12 13 14 3 4 5 17 6 7 8 18 1 15 16 17 18", 1),
        _pairs("3 4 5 9 10 11 15 17", "6 7 8 12 13 14 16 18", 1),
    ),
    43: Body(  # of MPI: head, neck, arms, legs, chest
        _pairs("9 8 12 11 10 13 14 15 2 1 0 3 4 5 7", "9 8 12 11 10 13 14 15 2 1 0 3 4 5 6"),
        _pairs("0 1 2 3 1 5 6 1 14 8 9 14 11 12", "1 2 3 4 5 6 7 14 8 9 10 11 12 13"),
        _pairs("3 4 5 9 10 11", "6 7 8 12 13 14", 1),
    ),
}


def read_people(plane: np.ndarray, joints: int) -> People:
    """The people that the fourth plane H×W of a record describes, each with so many joints. Its rows have, from their
    first byte on: a name; height and width; flags and the number of other people; the person's middle; its height; x,
    y and states of its joints; a row with the middle of each other person; their heights; three rows for the joints of
    each. Pixels count from 1, numbers are float32.

    Source: CMU-Perceptual-Computing-Lab/caffe_train, src/caffe/cpm_data_transformer.cpp, ReadMetaData. Errors:
    ValueError where rows are missing or too short, or a number is not finite or a height not above 0.
    """
    rows, width = plane.shape

    def floats(row: int, count: int) -> np.ndarray:
        return np.frombuffer(plane[row, : 4 * count].tobytes(), "<f4").astype(np.float64)

    others = int(plane[2, 1]) if rows > 2 and width > 1 else 0
    expected = 9 + 4 * others if others else 8
    if rows < expected or width < 4 * joints:
        size = f"expected {expected} rows of {4 * joints} bytes or more, found {rows} of {width}"
        raise ValueError(f"the image is too small for the description of {1 + others} people: {size}")
    height, width = floats(1, 2)
    center, scale = floats(3, 2) - 1, float(floats(4, 1)[0])
    starts = [5, *(9 + others + 3 * other for other in range(others))]
    values = np.array([[floats(start + i, joints) for i in range(3)] for start in starts])
    if not (np.isfinite(values).all() and np.isfinite(center).all()):
        raise ValueError("the description of people has numbers that are not finite")
    if not 0 < scale < np.inf:
        raise ValueError(f"the height of a person must be above 0, found {scale:g}")
    positions, states = values[:, :2].transpose(0, 2, 1) - 1, values[:, 2]
    outside = (positions < 0).any(-1) | (positions >= (width, height)).any(-1)
    visible = np.where(outside, OUTSIDE, (states != 0).astype(int))
    visible[0][states[0] == UNLABELED] = UNLABELED
    return People(center, scale, positions, visible)


CHANNELS = 6  # blue, green, red; the description of people; the mask of people with joints; the mask of all people
GRAY, UNMASKED = (128, 128, 128), 255  # around an image, and around its mask
FAR = math.log(100)  # exponent from which on a Gaussian counts as 0
LIMB_STRIDE = 8  # pixels of a cell in the maps of limbs, whatever the stride, as in the fork


@dataclass
class Picture:
    """An image H×W×3, its mask H×W (255: all people here have joints), and the people in it, in pixels."""

    image: np.ndarray
    mask: np.ndarray
    people: People


@register
class CPMData(DataLayer):
    """Images of people and what a net for poses learns of them: data (N, C, H, W), blue, green and red as (pixel - 128)
    / 256, then three channels of zeros, and label (N, D, H/stride, W/stride), D = 2 num_parts + 2; N =
    data_param.batch_size.

    A record is a Datum of six planes, as the fork's genLMDB.py writes: the image, the description of its people, the
    mask of people whose joints are known, a mask that is not read. Of the maps the first num_parts + 1 are weights, the
    mask between 0 and 1, and 0 where the person's joint of that index is not in the data set. The others are x and y of
    the unit vector along each limb, 1 cell to either side of it; e^(-d² / 2σ²) of each joint, d pixels away, of all
    people together at most 1; and the background, 1 less the largest of these.

    In TRAIN the person gets the height target_dist, times a number from scale_min to scale_max with scale_prob; the
    image is rotated by up to max_rotate_degree, cut around the person, give or take center_perterb_max, to crop_size_x
    × crop_size_y, and mirrored with flip_prob; 128 surrounds it. In TEST all images have one size and stay as they are.
    Errors: aug_way but rand, transform_body_joint: false. As in CMU-Perceptual-Computing-Lab/caffe_train,
    src/caffe/cpm_data_transformer.cpp, where channels 3 to 5, and in TEST the weights, have no defined values.
    """

    field = "data_param"
    files = ("source",)
    tops = (1, 2)

    def setup(self) -> None:
        t, at = self.spec.cpm_transform_param, self.locate.at("cpm_transform_param")
        self.t = t
        if t.num_parts not in BODIES:
            known = " or ".join(map(str, sorted(BODIES)))
            raise at.error("a bad num_parts", "num_parts", expected=known, found=t.num_parts)
        self.body: Body = BODIES[t.num_parts]
        if t.np_in_lmdb < self.body.stored:
            expected = f"at least {self.body.stored}, with num_parts: {t.num_parts}"
            raise at.error("a bad np_in_lmdb", "np_in_lmdb", expected=expected, found=t.np_in_lmdb)
        if t.aug_way != "rand":
            raise at.error("aug_way is not supported", "aug_way", expected='"rand"', found=f'"{t.aug_way}"')
        if not t.transform_body_joint:
            raise at.error("transform_body_joint: false is not supported", "transform_body_joint")
        for name in ("stride", "crop_size_x", "crop_size_y", "target_dist", "scale_min", "scale_max", "sigma"):
            if not 0 < getattr(t, name) < math.inf:
                raise at.error(f"{name} must be positive", name, expected="above 0", found=f"{getattr(t, name):g}")

    def open(self) -> None:
        path = source_path(self.p, self.locate.at(self.field))
        is_leveldb = self.p.backend == pb.DataParameter.LEVELDB and not (path / "data.mdb").is_file()
        self._database: Datums = LevelDB(path) if is_leveldb else Database(path)
        self._reading = Lock()

    def close(self) -> None:
        self._database.close()

    def length(self) -> int:
        return self._database.length

    def sample(self, index: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        with self._reading:  # several threads ask for samples
            (record,) = self._database.read(np.array([index]))
            record = bytes(record[0]), bytes(record[1])
        try:
            planes, _ = self._database.image(index, record)
            if len(planes) != CHANNELS or planes.dtype != np.uint8:
                raise ValueError(f"expected 6 planes of bytes, found {len(planes)} of {planes.dtype}")
            people = self.body.converted(read_people(planes[3], self.t.np_in_lmdb))
            picture = Picture(self._colored(planes[:3].transpose(1, 2, 0).copy()), planes[4], people)
            if self.phase == pb.TRAIN:
                picture = self._augmented(picture, random)
        except ValueError as mistake:
            raise self._database.error(index, record, str(mistake)) from None
        data = np.zeros((CHANNELS, *picture.mask.shape), np.float32)
        data[:3] = (picture.image.transpose(2, 0, 1).astype(np.float32) - 128) / 256
        return (data, self._label(picture))[: len(self.spec.top)]

    def _colored(self, image: np.ndarray) -> np.ndarray:
        t = self.t
        if t.do_clahe:
            cv2 = opencv("do_clahe")
            lab = cv2.cvtColor(image, cv2.COLOR_BGR2Lab)
            tiles = (int(t.clahe_tile_size),) * 2
            lab[..., 0] = cv2.createCLAHE(int(t.clahe_clip_limit), tiles).apply(lab[..., 0].copy())
            image = cv2.cvtColor(lab, cv2.COLOR_Lab2BGR)
        if t.gray == 1:
            cv2 = opencv("gray")
            image = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
        return image

    def _augmented(self, picture: Picture, random: np.random.Generator) -> Picture:
        t = self.t
        scale = t.target_dist / picture.people.scale
        if random.random() <= t.scale_prob:
            scale *= random.uniform(t.scale_min, t.scale_max)
        picture = scaled(picture, scale)
        picture = rotated(picture, random.uniform(-1, 1) * t.max_rotate_degree)
        shift = np.trunc(random.uniform(-1, 1, 2) * t.center_perterb_max)
        picture = cut(picture, shift, t.crop_size_x, t.crop_size_y)
        return self._mirrored(picture) if random.random() <= t.flip_prob else picture

    def _mirrored(self, picture: Picture) -> Picture:
        people, width = picture.people, picture.image.shape[1]
        joints = people.joints * (-1, 1) + (width - 1, 0)
        order = self.body.mirrored
        center = people.center * (-1, 1) + (width - 1, 0)
        moved = People(center, people.scale, joints[:, order], people.visible[:, order])
        return Picture(picture.image[:, ::-1], picture.mask[:, ::-1], moved)

    def _label(self, picture: Picture) -> np.ndarray:
        t, body, people = self.t, self.body, picture.people
        height, width = (side // t.stride for side in picture.mask.shape)
        cv2 = opencv("CPMData")
        mask = cv2.resize(np.ascontiguousarray(picture.mask), (width, height), interpolation=cv2.INTER_CUBIC)
        label = np.zeros((2 * t.num_parts + 2, height, width), np.float32)
        weights, limbs, joints = np.split(label, [t.num_parts + 1, t.num_parts + 1 + 2 * len(body.limbs)])
        weights[:] = mask / np.float32(255)
        weights[: len(body.sources)][people.visible[0] == UNLABELED] = 0
        for (start, end), maps in zip(body.limbs, limbs.reshape(-1, 2, height, width), strict=True):
            for person, visible in zip(people.joints, people.visible, strict=True):
                if max(visible[start], visible[end]) <= SEEN:
                    draw_limb(maps, person[start] / LIMB_STRIDE, person[end] / LIMB_STRIDE)
        for i, gaussians in enumerate(joints[:-1]):
            for person, visible in zip(people.joints, people.visible, strict=True):
                if visible[i] <= SEEN:
                    draw_joint(gaussians, person[i], t.stride, t.sigma)
        joints[-1] = np.maximum(1 - joints[:-1].max(0), 0)
        return label

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        t, batch = spec.cpm_transform_param, spec.data_param.batch_size
        height, width = t.crop_size_y, t.crop_size_x
        label = batch, 2 * t.num_parts + 2, height // max(1, t.stride), width // max(1, t.stride)
        shapes: list[Shape] = [(batch, CHANNELS, height, width), label]
        return shapes[: len(spec.top)]


def scaled(picture: Picture, scale: float) -> Picture:
    cv2, people = opencv("CPMData"), picture.people
    if picture.mask.size * scale * scale > MOST_PIXELS:
        raise ValueError(f"a person of height {people.scale:g} makes the image too large")
    image, mask = (
        cv2.resize(np.ascontiguousarray(values), None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
        for values in (picture.image, picture.mask)
    )
    return Picture(image, mask, People(people.center * scale, people.scale, people.joints * scale, people.visible))


def rotated(picture: Picture, degrees: float) -> Picture:
    """All of the image, in one that is large enough."""
    cv2, people = opencv("CPMData"), picture.people
    height, width = picture.mask.shape
    middle = width / 2, height / 2
    turn = cv2.getRotationMatrix2D(middle, degrees, 1)
    corners = cv2.boxPoints((middle, (width, height), degrees))
    sides = np.ceil(corners.max(0)) - np.floor(corners.min(0)) + 1
    turn[:, 2] += sides / 2 - middle
    size = tuple(sides.astype(int).tolist())
    image = cv2.warpAffine(picture.image, turn, size, flags=cv2.INTER_CUBIC, borderValue=GRAY)
    mask = cv2.warpAffine(picture.mask, turn, size, flags=cv2.INTER_CUBIC, borderValue=UNMASKED)
    center, joints = (points @ turn[:, :2].T + turn[:, 2] for points in (people.center, people.joints))
    return Picture(image, mask, People(center, people.scale, joints, people.visible))


def cut(picture: Picture, shift: np.ndarray, width: int, height: int) -> Picture:
    """width × height pixels around the person's middle, moved by ``shift``."""
    people = picture.people
    left, top = (np.rint(people.center + shift).astype(int) - (width // 2, height // 2)).tolist()
    image = np.full((height, width, 3), GRAY, np.uint8)
    mask = np.full((height, width), UNMASKED, np.uint8)
    rows, columns = picture.mask.shape
    inner = slice(max(0, top), min(rows, top + height)), slice(max(0, left), min(columns, left + width))
    if inner[0].start < inner[0].stop and inner[1].start < inner[1].stop:
        target = tuple(slice(s.start - first, s.stop - first) for s, first in zip(inner, (top, left), strict=True))
        image[target], mask[target] = picture.image[inner], picture.mask[inner]
    corner = left, top
    return Picture(image, mask, People(people.center - corner, people.scale, people.joints - corner, people.visible))


def draw_limb(maps: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """maps (2, H, W): the unit vector of a limb, in cells no farther than 1 from its line and from the box around it;
    over what is there."""
    with np.errstate(invalid="ignore"):
        x, y = (end - start) / np.linalg.norm(end - start)
    low, high = (_rounded(corner) for corner in (np.minimum(start, end) - 1, np.maximum(start, end) + 1))
    height, width = maps.shape[1:]
    rows = np.arange(max(0, low[1]), min(height, high[1]))[:, None]
    columns = np.arange(max(0, low[0]), min(width, high[0]))
    near = np.abs((columns - start[0]) * y - (rows - start[1]) * x) <= 1
    for values, component in zip(maps, (x, y), strict=True):
        values[rows, columns] = np.where(near, component, values[rows, columns])


def _rounded(values: np.ndarray) -> list[int]:
    """Halves are rounded away from 0."""
    return (np.sign(values) * np.floor(np.abs(values) + 0.5)).astype(int).tolist()


def draw_joint(values: np.ndarray, joint: np.ndarray, stride: int, sigma: float) -> None:
    """values (H, W): a Gaussian around a joint is added; sums are at most 1."""
    rows, columns = (np.arange(count) * stride + stride / 2 - 0.5 for count in values.shape)
    exponent = ((columns - joint[0]) ** 2 + (rows[:, None] - joint[1]) ** 2) / (2 * sigma**2)
    np.minimum(values + np.where(exponent <= FAR, np.exp(-exponent), 0), 1, out=values)
