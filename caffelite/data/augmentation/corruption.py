"""Perturbations that corrupt an image: NVCaffe's noise_param, blur, noise, cutout, random erasing."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ... import caffelite_pb2 as pb
from ..draws import below
from ..images import opencv
from .color import LEVELS
from .perturbation import Fields, Perturbation, between, normal, random_integer

USE = "blur and noise"


class Corruption(Perturbation):
    """All perturbations of noise_param, with one probability, in NVCaffe's order."""

    name = "noise_param"

    def __init__(self, fields: Fields[pb.NoiseParameter]):
        p = fields.message
        self.probability = self.active = fields.probability("prob")
        if p.decolorize:
            fields.needs_color("decolorize")
        if p.jpeg != -1:
            fields.positive("jpeg")
            fields.amount("jpeg", most=100)
        self._effects: list[Callable[[np.ndarray], np.ndarray]] = [
            partial(_EFFECTS[name], **({"quality": p.jpeg} if name == "jpeg" else {}))
            for name in _EFFECTS
            if getattr(p, name) is True or name == "jpeg" and p.jpeg > 0
        ]
        self._fraction = 0.0
        if p.saltpepper:
            inner = fields.inner("saltpepper_param")
            self._fraction = inner.amount("fraction", most=1)
            inner.positive("fraction")
            if not p.saltpepper_param.value:
                raise inner.error(
                    "value", "saltpepper without a value", expected="0 to 255", remedy="set value in saltpepper_param"
                )
            self._value = inner.values("value")

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        for effect in self._effects:
            image = effect(image)
        if pixels := int(self._fraction * image.shape[0] * image.shape[1]):
            image = image.copy()
            rows, columns = np.divmod(below(self.more(sample, pixels), image.shape[0] * image.shape[1]), image.shape[1])
            image[rows, columns] = self._value if image.ndim == 3 else self._value[0]
        return image


def _decolorize(image: np.ndarray) -> np.ndarray:
    cv2 = opencv(USE)
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)


def _on_brightness(image: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    cv2 = opencv(USE)
    if image.ndim == 2:
        return change(image)
    parts = cv2.cvtColor(image, cv2.COLOR_BGR2YCrCb)
    parts[..., 0] = change(np.ascontiguousarray(parts[..., 0]))
    return cv2.cvtColor(parts, cv2.COLOR_YCrCb2BGR)


def _jpeg(image: np.ndarray, quality: float) -> np.ndarray:
    cv2 = opencv(USE)
    _, content = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, round(quality)])
    return cv2.imdecode(content, cv2.IMREAD_COLOR if image.ndim == 3 else cv2.IMREAD_GRAYSCALE)


def _erode(image: np.ndarray) -> np.ndarray:
    cv2 = opencv(USE)
    return cv2.erode(image, cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3)))


# In the order in which they happen.
_EFFECTS: dict[str, Callable[..., np.ndarray]] = {
    "decolorize": _decolorize,
    "gauss_blur": lambda image: opencv(USE).GaussianBlur(image, (7, 7), 1.5),
    "hist_eq": lambda image: _on_brightness(image, opencv(USE).equalizeHist),
    "clahe": lambda image: _on_brightness(image, opencv(USE).createCLAHE(4).apply),
    "jpeg": _jpeg,
    "erode": _erode,
    "posterize": lambda image: opencv(USE).LUT(image, (LEVELS // 64 * 64 + 32).astype(np.uint8)),
    "inverse": lambda image: opencv(USE).bitwise_not(image),
}


class Blur(Perturbation):
    """A Gaussian blur."""

    name = "blur"

    def __init__(self, fields: Fields):
        self.probability = fields.probability("blur_prob")
        self._sigma = fields.range("blur_sigma_min", "blur_sigma_max")
        self.active = self.probability and self._sigma[1]

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        sigma = between(*self._sigma, u[0])
        return opencv(USE).GaussianBlur(image, (0, 0), sigma) if sigma else image


class Noise(Perturbation):
    """A Gaussian number added to every value."""

    name = "noise"

    def __init__(self, fields: Fields):
        self.probability = fields.probability("noise_prob")
        self._sigma = fields.range("noise_sigma_min", "noise_sigma_max", most=255)
        self.active = self.probability and self._sigma[1]

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        cv2 = opencv(USE)
        noise = normal(self.more(sample, -(-image.size // 4)), image.shape)
        numbers = noise * np.float32(between(*self._sigma, u[0]))
        return cv2.add(image, numbers, dtype=cv2.CV_8U)


class Cutout(Perturbation):
    """A square of one value, its middle anywhere in the image (DeVries and Taylor, 2017)."""

    name = "cutout"

    def __init__(self, fields: Fields[pb.PerturbationParameter], default: tuple[int, ...]):
        self.probability, self._side = fields.probability("cutout_prob"), fields.message.cutout_size
        self._value = fields.values("cutout_value", default)
        self.active = self.probability and self._side

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        image = image.copy()
        top, left = (
            random_integer(0, side - 1, v) - self._side // 2 for side, v in zip(image.shape, u[:2], strict=False)
        )
        square = image[max(0, top) : max(0, top + self._side), max(0, left) : max(0, left + self._side)]
        square[...] = self._value if image.ndim == 3 else self._value[0]
        return image


class Erasing(Perturbation):
    """A rectangle of random area and ratio inside the image, of one value or of random bytes (Zhong et al. 2017). One
    that is too high or too wide is cut to the image."""

    name = "erase"

    def __init__(self, fields: Fields[pb.PerturbationParameter], default: tuple[int, ...]):
        self.probability = self.active = fields.probability("erase_prob")
        self._area = fields.range("erase_area_min", "erase_area_max", most=1)
        self._log_ratio = -math.log(fields.amount("erase_ratio", most=1, least=1e-3))
        fields.positive("erase_area_min")
        self._value, self._random = fields.values("erase_value", default), fields.message.erase_random

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        image = image.copy()
        height, width = image.shape[:2]
        area, ratio = height * width * between(*self._area, u[0]), math.exp(self._log_ratio * (2 * u[1] - 1))
        h = min(height, max(1, round(math.sqrt(area / ratio))))
        w = min(width, max(1, round(math.sqrt(area * ratio))))
        top, left = random_integer(0, height - h, u[2]), random_integer(0, width - w, u[3])
        rectangle = image[top : top + h, left : left + w]
        if self._random:
            words = self.more(sample, -(-rectangle.size // 8))
            rectangle[...] = words.view(np.uint8)[: rectangle.size].reshape(rectangle.shape)
        else:
            rectangle[...] = self._value if image.ndim == 3 else self._value[0]
        return image
