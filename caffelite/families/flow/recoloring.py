"""Changes of the colors of images (N, 3, H, W) by the numbers of coefficients.py."""

from __future__ import annotations

import numpy as np

from .coefficients import CHROMATIC, EIGEN, IS_FACTOR, NAMES

Changes = list[dict[str, float]]  # of each image
UNCHANGED = dict(zip(NAMES, map(float, IS_FACTOR), strict=True))
LEAST = 1e-2  # what counts as more than 0


def differ(changes: Changes, names: list[str]) -> bool:
    return any(change[name] != UNCHANGED[name] for change in changes for name in names)


def recolored(images: np.ndarray, changes: Changes, space: Eigenspace | None, most: float, random) -> np.ndarray:
    """space: of the images before they were cut; None: without vectors. most: the largest value. random: for noise."""
    if space and differ(changes, EIGEN):
        images = np.stack([space.changed(image, change, most) for image, change in zip(images, changes, strict=True)])
    if differ(changes, CHROMATIC):
        images = np.stack([_chromatic(image, change, most) for image, change in zip(images, changes, strict=True)])
    if any(_has_effect(change) for change in changes):
        images = np.stack([_effects(image, change, most) for image, change in zip(images, changes, strict=True)])
        for image, change in zip(images, changes, strict=True):
            if change["noise"] > 0:
                image += random.normal(0, change["noise"], image.shape)
    return images


def _chromatic(image: np.ndarray, change: dict[str, float], most: float) -> np.ndarray:
    colored = image * np.array([change[f"color{i}"] for i in (1, 2, 3)])[:, None, None]
    colored = np.clip(colored * (image.sum(0) / (colored.sum(0) + 0.01)), 0, 1)  # as bright as before
    colored = colored ** change["gamma"] + change["brightness"]
    return np.clip(0.5 + (colored - 0.5) * change["contrast"], 0, most)


def _has_effect(change: dict[str, float]) -> bool:
    fog = change["fog_amount"] != 0 and change["fog_size"] != 0
    return fog or change["motion_blur_size"] > 0 or change["shadow_strength"] > 0 or change["noise"] > 0


def _effects(image: np.ndarray, change: dict[str, float], most: float) -> np.ndarray:
    height, width = image.shape[1:]
    across = (np.arange(width) - width // 2) * np.cos(change["shadow_angle"])
    down = (np.arange(height) - height // 2) * np.sin(change["shadow_angle"])
    dark = across + down[:, None] - change["shadow_distance"] > 0
    return np.clip(image - dark * change["shadow_strength"], 0, most)


class Eigenspace:
    """The colors of a batch of images along three vectors: their mean, and how far they go along each."""

    def __init__(self, images: np.ndarray, vectors: np.ndarray):
        self.vectors = vectors
        self.mean = images.mean((0, 2, 3))
        self.reach = np.abs(np.einsum("kc,nchw->nkhw", vectors, images)).max((0, 2, 3))
        self.some = self.reach > LEAST
        self.far = float(np.sqrt((self.reach**2).sum()))

    def changed(self, image: np.ndarray, change: dict[str, float], most: float) -> np.ndarray:
        scale = np.where(self.some, self.reach, 1)
        e = np.einsum("kc,chw->khw", self.vectors, image - self.mean[:, None, None]) / scale[:, None, None]
        for k in np.flatnonzero(self.some):
            e[k] = _curved(e[k], *(change[f"{kind}_nomean{k}"] for kind in ("pow", "add", "mult")))
        e += (self.vectors @ self.mean / scale)[:, None, None]
        if self.some[0]:
            e[0] = _curved(e[0], *(change[f"{kind}_withmean0"] for kind in ("pow", "add", "mult")))
        saturation = np.hypot(e[1], e[2])
        colorful = saturation > LEAST
        power, add, factor = (change[f"{kind}_withmean1"] for kind in ("pow", "add", "mult"))
        more = np.maximum(saturation**power + add, 0) * factor
        cos, sin = np.cos(change["col_angle"]), np.sin(change["col_angle"])
        e = np.stack([e[0], cos * e[1] - sin * e[2], sin * e[1] + cos * e[2]]) * scale[:, None, None]
        length = np.sqrt((e**2).sum(0)) / (self.far or 1)
        e[1:] *= np.where(colorful, more / np.where(colorful, saturation, 1), 1)
        if self.far > LEAST:
            now = np.sqrt((e**2).sum(0))
            wanted = np.maximum(length ** change["lmult_pow"] + change["lmult_add"], 0)
            wanted = wanted * change["lmult_mult"] * self.far
            long = now > LEAST
            e = np.where(long, np.minimum(e * wanted / np.where(long, now, 1), self.reach[:, None, None]), e)
        return np.clip(np.einsum("kc,khw->chw", self.vectors, e), 0, most)


def _curved(e: np.ndarray, power: float, add: float, factor: float) -> np.ndarray:
    return (np.copysign(np.abs(e) ** power, e) + add) * factor
