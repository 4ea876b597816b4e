"""Geometric perturbations: random sizes, random crops, one warp for shift, scale and rotation, elastic distortion."""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ..draws import uniform
from ..images import opencv
from .perturbation import Fields, Perturbation, between, normal, random_integer

_Algorithm = pb.TransformationParameter.InterpolationAlgo


def interpolations(fields: Fields) -> tuple[str, ...]:
    """OpenCV's names of the algorithms that resize_param within a message names. Errors: another field in it."""
    p = fields.message.resize_param
    for field, value in p.ListFields():
        warp = field.name == "resize_mode" and value == pb.ResizeParameter.WARP
        if field.name not in ("interp_mode", "prob", "height", "width") and not warp:
            what = f"{field.name} has no effect on a random size"
            raise fields.error("resize_param", what, path=("resize_param", field.name), remedy="leave it out")
    return tuple(f"INTER_{pb.ResizeParameter.Interp_mode.Name(mode)}" for mode in p.interp_mode)


def chosen(modes: tuple[str, ...], words: np.ndarray) -> str:
    """One of the algorithms, each as likely; none where there is none."""
    if len(modes) < 2:
        return "".join(modes)
    return modes[int(uniform(words)[0] * len(modes))]


class Resize(Perturbation):
    """The shorter side from img_rand_resize_lower to _upper, then another ratio of the sides, then a stretch of each;
    as in NVCaffe.

    In TEST it draws nothing: the shorter side is the middle of both, the ratio stays.
    """

    name = "size"
    _modes: tuple[str, ...] = ()

    def __init__(self, fields: Fields[pb.TransformationParameter], crop: tuple[int, int], draws: bool):
        p, self._crop, self._draws = fields.message, crop, draws
        if not any(crop):
            raise fields.error("crop_size", "a random size needs a crop", remedy="set crop_size")
        self.grows, down, up = p.allow_upscale, _Algorithm.INTER_NEAREST, _Algorithm.INTER_CUBIC
        low, high = "img_rand_resize_lower", "img_rand_resize_upper"
        sides = fields
        if p.HasField("random_resize_param"):
            if p.img_rand_resize_lower or p.img_rand_resize_upper:
                what = f"random_resize_param and {low} exclude each other"
                raise fields.error("random_resize_param", what, remedy="leave one out")
            self.grows, down, up = True, _Algorithm.INTER_LINEAR, _Algorithm.INTER_LINEAR
            low, high = "min_size", "max_size"
            sides = fields.inner("random_resize_param")
            self._modes = interpolations(sides)[: None if draws else 1]
        shortest, longest = sides.range(low, high)
        self._side = int(shortest), int(longest)
        if self._side[1] or sides is not fields:
            sides.positive(low, high)
        self._ratio = fields.range("rand_resize_ratio_lower", "rand_resize_ratio_upper")
        if any(self._ratio):
            fields.amount("rand_resize_ratio_lower", least=1)
        self._stretch = [
            fields.range(f"{which}_stretch_lower", f"{which}_stretch_upper") for which in ("vertical", "horizontal")
        ]
        fields.positive("vertical_stretch_lower", "horizontal_stretch_lower")
        self._down = _Algorithm.Name(p.interpolation_algo_down if p.HasField("interpolation_algo_down") else down)
        self._up = _Algorithm.Name(p.interpolation_algo_up if p.HasField("interpolation_algo_up") else up)

    @staticmethod
    def requested(p: pb.TransformationParameter) -> bool:
        pairs = "img_rand_resize", "rand_resize_ratio", "vertical_stretch", "horizontal_stretch"
        return p.HasField("random_resize_param") or any(
            p.HasField(f"{pair}_{end}") for pair in pairs for end in ("lower", "upper")
        )

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        sides = image.shape[:2]
        low, high = self._side if self._side[1] else (min(sides),) * 2
        factor = (random_integer(low, high, u[0]) if self._draws else (low + high) // 2) / min(sides)
        exact = [factor * side for side in sides]
        if self._draws:
            if self._ratio[1] > 1:
                longer = int(exact[1] > exact[0] or exact[1] == exact[0] and u[2] < 0.5)
                exact[longer] = exact[1 - longer] * between(*self._ratio, u[1])
            exact = [side * between(*stretch, v) for side, stretch, v in zip(exact, self._stretch, u[3:5], strict=True)]
        new = [max(least, math.floor(side + 0.5)) for side, least in zip(exact, self._crop, strict=True)]
        if not self.grows:
            new = [min(side, old) for side, old in zip(new, sides, strict=True)]
        cv2 = opencv("a random size")
        algorithm = self._down if new[0] <= sides[0] and new[1] <= sides[1] else self._up
        algorithm = chosen(self._modes, self.more(sample, 1)) or algorithm
        return image if tuple(new) == sides else cv2.resize(image, new[::-1], interpolation=getattr(cv2, algorithm))


class RandomRegion(Perturbation):
    """A random region of the image, resized to the net's input size; as Intel's Caffe, and Inception's training
    (Szegedy et al., 2014)."""

    name, grows = "part", True

    def __init__(self, fields: Fields, size: tuple[int, int]):
        self._size, self._area = size, fields.range("min_area_ratio", "max_area_ratio", most=1)
        fields.positive("min_area_ratio", "aspect_ratio_change")
        self._log_ratio = abs(math.log(fields.amount("aspect_ratio_change")))
        self._attempts = int(fields.amount("max_attempt", most=100, least=1))
        self._modes = interpolations(fields)

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        height, width = image.shape[:2]
        words = self.more(sample, 2 * self._attempts + (len(self._modes) > 1))
        tries = uniform(words[: 2 * self._attempts]).reshape(-1, 2)
        areas = height * width * between(*self._area, tries[:, 0])
        ratios = np.exp(between(-self._log_ratio, self._log_ratio, tries[:, 1]))
        sides = np.floor(np.sqrt([areas / ratios, areas * ratios]) + 0.5).astype(int).T
        fitting = sides[(sides >= 1).all(1) & (sides <= (height, width)).all(1)]
        h, w = fitting[0].tolist() if len(fitting) else (height, width)
        top, left = random_integer(0, height - h, u[0]), random_integer(0, width - w, u[1])
        cv2 = opencv("a random part")
        smaller = h >= self._size[0] and w >= self._size[1]
        algorithm = chosen(self._modes, words[-1:]) or ("INTER_AREA" if smaller else "INTER_LINEAR")
        region = image[top : top + h, left : left + w]
        return cv2.resize(region, self._size[::-1], interpolation=getattr(cv2, algorithm))


class Scales(Perturbation):
    """A region of the image, whose sides are two of several shares of its shorter side, resized to the crop; without
    multi_scale a region of the crop's size in one of few positions: of temporal segment networks (Wang et al. 2015,
    arXiv 1507.02159; yjxiong/caffe src/caffe/data_transformer.cpp)."""

    name, any_channels = "scales", True
    SHARES = 1.0, 0.875, 0.75, 0.66
    NEAR = 3  # a side that differs by fewer pixels from the crop's becomes that
    CORNERS = (0, 0), (0, 4), (4, 0), (4, 4), (2, 2)  # top and left, in quarters of what is beside the region
    MORE = (0, 2), (4, 2), (2, 0), (2, 4), (1, 1), (1, 3), (3, 1), (3, 3)

    def __init__(self, fields: Fields[pb.TransformationParameter], crop: tuple[int, int]):
        p, self._size = fields.message, crop
        self.grows, name = p.multi_scale, "multi_scale" if p.multi_scale else "fix_crop"
        if not all(crop):
            raise fields.error(name, f"{name} needs a crop", remedy="set crop_size")
        for i, share in enumerate(p.scale_ratios):
            if not 0 < share <= 1:
                raise fields.error("scale_ratios", path=("scale_ratios", i), expected="above 0, at most 1", found=share)
        self._shares = tuple(p.scale_ratios) or self.SHARES
        self._pairs = [
            (h, w) for h in range(len(self._shares)) for w in range(len(self._shares)) if abs(h - w) <= p.max_distort
        ]
        self._quarters = (*self.CORNERS, *(self.MORE if p.more_fix_crop else ())) if p.fix_crop else ()

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        sides = image.shape[:2]
        h, w = self._sides(sides, u[0]) if self.grows else self._size
        if self._quarters:
            quarters = self._quarters[int(u[1] * len(self._quarters))]
            top, left = (n * ((whole - side) // 4) for n, whole, side in zip(quarters, sides, (h, w), strict=True))
        else:
            top, left = random_integer(0, sides[0] - h, u[1]), random_integer(0, sides[1] - w, u[2])
        region = image[top : top + h, left : left + w]
        return opencv("a region of the image").resize(region, self._size[::-1])

    def _sides(self, sides: tuple[int, ...], u: float) -> list[int]:
        pair = self._pairs[int(u * len(self._pairs))]
        drawn = [int(min(sides) * self._shares[i]) for i in pair]
        return [
            size if abs(side - size) < self.NEAR and size <= whole else max(1, side)
            for side, size, whole in zip(drawn, self._size, sides, strict=True)
        ]


def _border(fields: Fields[pb.PerturbationParameter]) -> tuple[str, tuple[int, ...]]:
    """OpenCV's name of what is outside an image, and its constant value."""
    p = fields.message
    names = {p.MIRRORED: "BORDER_REFLECT_101", p.REPEATED: "BORDER_REPLICATE", p.CONSTANT: "BORDER_CONSTANT"}
    return names[p.border], fields.values("border_value")


class Warp(Perturbation):
    """Shift, scale and rotation around the center, as one affine map; `border` fills pixels outside the image.
    Bilinear."""

    name = "warp"

    def __init__(self, fields: Fields[pb.PerturbationParameter]):
        p = fields.message
        for name, side in (("shift_y", fields.size[0]), ("shift_x", fields.size[1])):
            if getattr(p, name) >= side:
                raise fields.error(
                    name, f"{name} moves images out of sight", expected=f"at most {side - 1}", found=getattr(p, name)
                )
        self._shift = p.shift_x, p.shift_y
        self._scale = fields.range("scale_min", "scale_max")
        fields.positive("scale_min")
        self._angle = fields.amount("max_rotate_degree", most=180)
        self._shifts, self._scales, self._rotates = (
            fields.probability(f"{what}_prob") for what in ("shift", "scale", "rotation")
        )
        self._border, self._value = _border(fields)
        self.active = (
            any(self._shift) and self._shifts or self._scale != (1, 1) and self._scales or self._angle and self._rotates
        )

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        dx, dy = (
            random_integer(-limit, limit, v) * (u[0] < self._shifts)
            for limit, v in zip(self._shift, u[1:3], strict=True)
        )
        scale = between(*self._scale, u[4]) if u[3] < self._scales else 1.0
        angle = math.radians(between(-self._angle, self._angle, u[6])) if u[5] < self._rotates else 0.0
        if (dx, dy, scale, angle) == (0, 0, 1, 0):
            return image
        height, width = image.shape[:2]
        a, b = scale * math.cos(angle), scale * math.sin(angle)
        x, y = (width - 1) / 2, (height - 1) / 2
        matrix = np.array([[a, b, x - a * x - b * y + dx], [-b, a, y + b * x - a * y + dy]])
        cv2 = opencv("shift, scale and rotation")
        border = getattr(cv2, self._border)
        return cv2.warpAffine(
            image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=border, borderValue=self._value
        )


class Elastic(Perturbation):
    """An elastic distortion: pixels move by white noise that a Gaussian smoothed and elastic_alpha scaled (Simard,
    Steinkraus, Platt 2003). Bilinear."""

    name = "elastic"

    def __init__(self, fields: Fields[pb.PerturbationParameter]):
        self.probability = fields.probability("elastic_prob")
        self._alpha = fields.amount("elastic_alpha", most=max(fields.size))
        self._sigma = fields.amount("elastic_sigma", most=max(fields.size) / 2 if self._alpha else math.inf)
        fields.positive("elastic_sigma")
        self._border, self._value = _border(fields)
        self.active = self.probability and self._alpha

    def field(self, sample: int, size: tuple[int, int]) -> np.ndarray:
        """The displacement of each pixel, H×W×2: x and y."""
        shape = (*size, 2)
        noise = normal(self.more(sample, -(-math.prod(shape) // 4)), shape)
        smooth = opencv("elastic distortion").GaussianBlur(noise, (0, 0), self._sigma)
        # White noise shrinks to 1 / 2σ√π.
        return smooth * np.float32(self._alpha * 2 * self._sigma * math.sqrt(math.pi))

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        height, width = image.shape[:2]
        moved = self.field(sample, (height, width))
        moved[..., 0] += np.arange(width, dtype=np.float32)
        moved[..., 1] += np.arange(height, dtype=np.float32)[:, None]
        cv2 = opencv("elastic distortion")
        border = getattr(cv2, self._border)
        return cv2.remap(image, moved, None, cv2.INTER_LINEAR, borderMode=border, borderValue=self._value)
