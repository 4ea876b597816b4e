"""Perturbations of light and color."""

import numpy as np

from ..images import opencv
from .perturbation import Fields, Perturbation, between

LEVELS = np.arange(256)
USE = "light and color"


class Distort(Perturbation):
    """Brightness, contrast, saturation, hue, order of channels, each with its probability; as NVCaffe, but hues turn
    around the circle."""

    name = "distort"

    def __init__(self, fields: Fields):
        self._brightness_delta = fields.amount("brightness_delta", most=255)
        self._hue_delta = fields.amount("hue_delta", most=180)
        self._probability = {}
        for what in ("brightness", "contrast", "saturation", "hue", "random_order"):
            self._probability[what] = fields.probability(f"{what}_prob")
        self._contrast, self._saturation = (
            fields.range(f"{what}_lower", f"{what}_upper") for what in ("contrast", "saturation")
        )
        if self._probability["contrast"]:
            fields.positive("contrast_upper")
        for what in ("saturation", "hue", "random_order"):
            if self._probability[what]:
                fields.needs_color(f"{what}_prob")
        self.active = any(self._probability.values())

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        happens = {what: v < self._probability[what] for what, v in zip(self._probability, u[:5], strict=True)}
        if happens["brightness"]:
            image = toned(image, 1, between(-self._brightness_delta, self._brightness_delta, u[5]))
        contrast, first = between(*self._contrast, u[6]), u[7] < 0.5
        if happens["contrast"] and first:
            image = toned(image, contrast, 0)
        if happens["saturation"] or happens["hue"]:
            factor = between(*self._saturation, u[8]) if happens["saturation"] else 1.0
            turn = between(-self._hue_delta, self._hue_delta, u[9]) if happens["hue"] else 0.0
            image = recolored(image, factor, turn)
        if happens["contrast"] and not first:
            image = toned(image, contrast, 0)
        if happens["random_order"]:
            image = np.ascontiguousarray(image[..., ORDERS[int(len(ORDERS) * u[10])]])
        return image


ORDERS = [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]  # all but the one that changes nothing


class Tint(Perturbation):
    """Changes the brightness of each channel by a separate amount, as light of another color does."""

    name = "tint"

    def __init__(self, fields: Fields):
        self.probability, self._delta = fields.probability("tint_prob"), fields.amount("tint_delta", most=255)
        self.active = self.probability and self._delta
        if self.active:
            fields.needs_color("tint_delta")

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        return toned(image, 1, np.array([between(-self._delta, self._delta, v) for v in u[: image.shape[2]]]))


class Inverse(Perturbation):
    """v becomes 255 - v."""

    name = "inverse"

    def __init__(self, fields: Fields):
        self.probability = self.active = fields.probability("inverse_prob")

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        return opencv(USE).bitwise_not(image)


def toned(image: np.ndarray, factor: float, plus: float | np.ndarray) -> np.ndarray:
    """factor · v + plus, rounded and held within 0 … 255; plus: one for all, or one a channel."""
    levels = factor * LEVELS[:, None] + np.atleast_1d(plus)
    table = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
    return opencv(USE).LUT(image, table.reshape(1, 256, -1))


def recolored(image: np.ndarray, factor: float, turn: float) -> np.ndarray:
    """Multiplies saturation by factor and adds turn to hue (180 is a full circle), in HSV."""
    cv2 = opencv(USE)
    hue = np.rint(LEVELS + turn) % 180
    table = np.stack([hue, np.minimum(np.rint(factor * LEVELS), 255), LEVELS], axis=-1).astype(np.uint8)
    return cv2.cvtColor(cv2.LUT(cv2.cvtColor(image, cv2.COLOR_BGR2HSV), table[None]), cv2.COLOR_HSV2BGR)
