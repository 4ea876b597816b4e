"""A deploy net that detects objects and answers requests: classify, whose answer is boxes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ... import devices
from ...data.images import encode_png, resize
from ...deploy.detect import LEAST_SCORE, Detector
from ...errors import CaffeliteError
from ...prototxt import Document
from .deploy_weights import load_named_weights

LONGEST = 1280  # pixels of a side of the picture that an answer has


class OpenDetector:
    """A deploy net that detects objects, with the weights that it names.

    Errors: those of `Detector`; it names no weights; no layer of the weights is in the net.
    """

    def __init__(self, document: Document):
        started = time.perf_counter()
        self._name = document.message.name
        self._detector = Detector(document, devices.open_device())
        load_named_weights(self._detector.net, document)
        self._detector.warm_up()
        self._opened = time.perf_counter() - started

    def describe(self) -> dict[str, Any]:
        """As `OpenClassifier.describe`; labels: of the classes, the background first."""
        return {
            "name": self._name,
            "labels": self._detector.labels,
            "shape": list(self._detector.preparation.shape),
            "classifies": False,
            "detects": True,
            "seconds": self._opened,
        }

    def answer(self, content: dict[str, Any], payloads: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to the request "classify"; its first part is the image. Errors: another operation, or an option
        of classifiers."""
        if content["op"] != "classify":
            raise CaffeliteError("not for a net that detects objects", found=str(content["op"]))
        for name in ("oversample", "hierarchy"):
            if content.get(name):
                raise CaffeliteError(f"{name} is for classifiers, and the net detects objects")
        return self._detect(payloads[0], content.get("threshold", LEAST_SCORE), content.get("top") or None)

    def _detect(self, image: bytes, least: float, top: int | None) -> tuple[dict[str, Any], list[bytes]]:
        """detections: the boxes with scores of at least ``least``, the highest score first, in pixels of the image of
        ``width`` and ``height``; notes; seconds. Part 0: the image, reduced to LONGEST pixels, PNG."""
        picture = self._detector.preparation.decode(image)
        (detected,) = self._detector.detections([image], least)
        height, width = picture.shape[1:]
        result = {
            "seconds": detected.seconds,
            "notes": detected.notes,
            "width": width,
            "height": height,
            "detections": [each.record() for each in detected.detections[:top]],
        }
        return result, [encode_png(self._shown(picture))]

    def _shown(self, picture: np.ndarray) -> np.ndarray:
        """H×W×3, red, green, blue, or H×W, of a decoded image, reduced to LONGEST pixels."""
        scale = LONGEST / max(picture.shape[1:])
        if scale < 1:
            height, width = (max(1, round(side * scale)) for side in picture.shape[1:])
            picture = resize(np.ascontiguousarray(picture), height, width, "INTER_AREA")
        if len(picture) == 1:
            return picture[0]
        is_rgb = self._detector.preparation.deploy.channel_order == pb.DeployParameter.RGB
        return (picture if is_rgb else picture[::-1]).transpose(1, 2, 0)
