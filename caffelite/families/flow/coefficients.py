"""The numbers by which images and flows are changed, and how they are drawn.

A vector has a number for each of ``NAMES``: 0 where nothing changes, the logarithm of those that change nothing at 1.
Vectors of changes that follow one another are added.
"""

import itertools
import math
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base.message import LayerMessage

POSITIONS = "mirror dx dy angle zoom_x zoom_y".split()
CHROMATIC = "gamma brightness contrast color1 color2 color3".split()
EIGEN = """pow_nomean0 pow_nomean1 pow_nomean2 add_nomean0 add_nomean1 add_nomean2 mult_nomean0 mult_nomean1
mult_nomean2 pow_withmean0 pow_withmean1 pow_withmean2 add_withmean0 add_withmean1 add_withmean2 mult_withmean0
mult_withmean1 mult_withmean2 lmult_pow lmult_add lmult_mult col_angle""".split()
EFFECTS = """fog_amount fog_size motion_blur_angle motion_blur_size shadow_angle shadow_distance shadow_strength
noise""".split()
NAMES = [*POSITIONS, *CHROMATIC, *EIGEN, *EFFECTS]  # in the order of the fork's message
INDEX = {name: i for i, name in enumerate(NAMES)}
_FACTORS = ("gamma", "contrast", "color", "pow", "mult", "zoom", "lmult_pow", "lmult_mult")  # the first letters
IS_FACTOR = np.array([name.startswith(_FACTORS) for name in NAMES])

# field of AugmentationParameter: the numbers that it draws, each apart; "=": all the same
_CHROMATIC = {name: [name] for name in ("gamma", "brightness", "contrast")} | {"color": CHROMATIC[3:]}
_EIGEN: dict[str, list[str]] = {}
for _change in ("pow", "add", "mult"):
    _EIGEN |= {f"ladd_{_change}": [f"{_change}_nomean0"], f"col_{_change}": [f"{_change}_nomean{i}" for i in (1, 2)]}
    _EIGEN[f"sat_{_change}"] = ["=", *(f"{_change}_withmean{i}" for i in (1, 2))]
    _EIGEN[f"lmult_{_change}"] = [f"lmult_{_change}"]
_EIGEN["col_rotate"] = ["col_angle"]
_COLORS = (_CHROMATIC, _EIGEN)
_SPATIAL = ("mirror", "translate", "rotate", "zoom", "squeeze", "translate_x", "translate_y")
# those that are drawn together where one of them is given; a number without a change is 0
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("fog_amount", "fog_size"),
    ("motion_blur_angle", "motion_blur_size"),
    tuple(EFFECTS[4:7]),
)
KINDS = ("uniform", "gaussian", "bernoulli", "uniform_bernoulli", "gaussian_bernoulli")
TRIES = 50  # to find a change that leads to no place outside the image


def check(layer: LayerMessage) -> None:
    """Errors: an unknown rand_type, eigenvectors that are no matrix."""
    aug = layer.spec.augmentation_param
    for field, message in aug.ListFields():
        if isinstance(message, pb.RandomGeneratorParameter) and message.rand_type not in KINDS:
            expected, found = ", ".join(KINDS), f'"{message.rand_type}"'
            where = "augmentation_param", field.name, "rand_type"
            raise layer.error("an unknown rand_type", *where, expected=expected, found=found, outer=True)
    if any(aug.HasField(name) for name in _EIGEN) and len(aug.chromatic_eigvec) != 9:
        path, count = ("augmentation_param", "chromatic_eigvec"), len(aug.chromatic_eigvec)
        raise layer.error("needs the eigenvectors of colors", *path, expected="9 numbers", found=count, outer=True)


def schedule(param: pb.CoeffScheduleParameter, passes: float) -> float:
    """The factor of the spread of random numbers in a pass, the first of which is 1."""
    done = 2 / (1 + math.exp(-1.0986 * passes / param.half_life)) - 1
    return param.initial_coeff + (param.final_coeff - param.initial_coeff) * done


def values(vector: np.ndarray) -> dict[str, float]:
    """The numbers of a vector by name; what is as good as no change is none."""
    numbers = np.where(IS_FACTOR, np.exp(vector), vector)
    numbers = np.where(np.abs(numbers - IS_FACTOR) < 1e-3, IS_FACTOR, numbers)
    return dict(zip(NAMES, numbers.tolist(), strict=True))


class Drawing:
    """Draws vectors. aug: the distributions; coefficient: of ``schedule``; image, crop: sizes, height then width."""

    def __init__(self, aug: Any, coefficient: float, image: tuple[int, int], crop: tuple[int, int]):
        self.aug, self.coefficient, self.image, self.crop = aug, coefficient, image, crop

    def vector(self, start: np.ndarray, mode: str, random: np.random.Generator) -> np.ndarray:
        """A new vector. start: the one before; mode: "add", "replace" (what is drawn), "regenerate"."""
        vector = np.zeros(len(NAMES)) if mode == "regenerate" else start.astype(float)
        if any(self.aug.HasField(name) for name in _SPATIAL):
            if mode == "replace":
                vector[: len(POSITIONS)] = 0
            vector = self._inside(vector, random)
        for drawn in (*(self._colors(fields, random) for fields in _COLORS), self._effects(random)):
            for name, number in drawn.items():
                i = INDEX[name]
                number = math.log(number) if IS_FACTOR[i] and number > 0 else -np.inf if IS_FACTOR[i] else number
                vector[i] = number + (vector[i] if mode == "add" else 0)
        return vector

    def _number(self, name: str, random: np.random.Generator, unchanged: float | None = None) -> float:
        """unchanged: what a number is with the probability 1 - prob; None: that of 0."""
        p = getattr(self.aug, name)
        spread = p.spread * (self.coefficient if p.apply_schedule else 1)
        if p.rand_type == "bernoulli":
            number = float(random.random() < p.prob)
        else:
            number = p.mean
            if p.rand_type.endswith("bernoulli") and not random.random() < p.prob:
                if unchanged is not None:
                    return unchanged
                number = 0.0
            elif spread > 0 and p.rand_type.startswith("uniform"):
                number = random.uniform(p.mean - spread, p.mean + spread)
            elif spread > 0:
                number = random.normal(p.mean, spread)
            number = math.exp(number) if p.exp else number
        if p.discretize:
            number = math.copysign(math.floor(abs(number) + 0.5), number)
        return p.multiplier * number

    def _spatial(self, random: np.random.Generator) -> np.ndarray:
        aug, drawn = self.aug, dict.fromkeys(POSITIONS, 0.0) | {"zoom_x": 1.0, "zoom_y": 1.0}
        if aug.HasField("mirror"):
            drawn["mirror"] = float(self._number("mirror", random, 0) != 0)
        for name, targets in (("translate", ("dx", "dy")), ("translate_x", ("dx",)), ("translate_y", ("dy",))):
            if aug.HasField(name):
                drawn |= {target: self._number(name, random, 0) for target in targets}
        if aug.HasField("rotate"):
            drawn["angle"] = self._number("rotate", random, 0)
        if aug.HasField("zoom"):
            drawn["zoom_x"] = drawn["zoom_y"] = self._number("zoom", random, 1)
        if aug.HasField("squeeze"):
            factor = self._number("squeeze", random, 1)
            drawn["zoom_x"] *= factor
            drawn["zoom_y"] /= factor
        vector = np.zeros(len(NAMES))
        for name, number in drawn.items():
            vector[INDEX[name]] = math.log(number) if IS_FACTOR[INDEX[name]] else number
        return vector

    def _inside(self, start: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """A change that leads from the corners of the crop to positions in the image; after many tries none."""
        last = tuple(side - 1 for side in self.crop)
        corners = np.array([*itertools.product((0, last[1]), (0, last[0]))], float).T
        limits = np.array([self.image[1], self.image[0]])[:, None] - 2
        for _ in range(TRIES - 1):
            vector = self._spatial(random) + start
            matrix = transform(values(vector), self.crop, self.image)
            at = np.floor(matrix[:, :2] @ corners + matrix[:, 2:])
            if ((at >= 0) & (at <= limits)).all():
                return vector
        return start

    def _colors(self, fields: dict[str, list[str]], random: np.random.Generator) -> dict[str, float]:
        drawn: dict[str, float] = {}
        for name, targets in fields.items():
            if self.aug.HasField(name):
                if targets[0] == "=":
                    drawn |= dict.fromkeys(targets[1:], self._number(name, random))
                else:
                    drawn |= {target: self._number(name, random) for target in targets}
        return drawn

    def _effects(self, random: np.random.Generator) -> dict[str, float]:
        drawn: dict[str, float] = {}
        for names in _TOGETHER:
            if any(self.aug.HasField(name) for name in names):
                drawn |= {name: self._number(name, random, 0) for name in names}
        return drawn | ({"noise": self._number("noise", random)} if self.aug.HasField("noise") else {})


def transform(change: dict[str, float], crop: tuple[int, int], image: tuple[int, int]) -> np.ndarray:
    """The matrix (2, 3) that leads from a pixel of the crop (column, row, 1) to its place in the image."""
    height, width = crop
    mirror = -1.0 if change["mirror"] else 1.0
    matrix = np.array([[mirror, 0, -mirror * width / 2], [0, 1, -height / 2]])
    cos, sin = math.cos(change["angle"]), math.sin(change["angle"])
    matrix = np.array([[cos, -sin], [sin, cos]]) @ matrix
    matrix[:, 2] += change["dx"] * width, change["dy"] * height
    matrix /= np.array([[change["zoom_x"]], [change["zoom_y"]]])
    matrix[:, 2] += image[1] / 2, image[0] / 2
    return matrix
