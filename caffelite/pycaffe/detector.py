"""A net that scores windows of images."""

import importlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..caffelite_pb2 import TEST
from ..errors import CaffeliteError
from . import io
from .classifier import image_transformer
from .net import Net

PROPOSALS = "selective_search_ijcv_with_python"  # a package without releases, loaded where somebody asks for it
Windows = Iterable[tuple[str, Iterable[Sequence[float]]]]


class Detector(Net):
    """A net with the preprocessing of windows, which are resized to its input.

    context_pad: pixels of the input around each window that show what surrounds it; 0 or None: the window alone.
    mean, input_scale, raw_scale, channel_swap: see ``io.Transformer``. The input is square where there is a context.
    """

    def __init__(
        self,
        model_file: str | os.PathLike[str],
        pretrained_file: str | os.PathLike[str],
        mean: np.ndarray | None = None,
        input_scale: float | None = None,
        raw_scale: float | None = None,
        channel_swap: Sequence[int] | None = None,
        context_pad: int | None = None,
    ):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = image_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def configure_crop(self, context_pad: int | None) -> None:
        """Sets the context; ``crop_mean`` becomes the image that preprocessing turns into zeros."""
        name = self.inputs[0]
        channels, *size = self.blobs[name].shape[1:]
        self.context_pad = context_pad or 0
        self.crop_dims = np.array([*size, channels])
        mean = self.transformer.mean.get(name, np.zeros(1, np.float32))
        image = np.broadcast_to(mean, (channels, *size))
        if name in self.transformer.channel_swap:
            image = image[np.argsort(self.transformer.channel_swap[name])]
        self.crop_mean = image.transpose(1, 2, 0) / self.transformer.raw_scale.get(name, 1)

    def detect_windows(self, images_windows: Windows) -> list[dict[str, Any]]:
        """Scores windows (ymin, xmin, ymax, xmax) of image files. Returns a dict for each: filename, window, and
        prediction, the first output."""
        entries, crops = [], []
        for filename, windows in images_windows:
            image = io.load_image(filename)
            for window in windows:
                entries.append({"window": window, "filename": filename})
                crops.append(self.crop(image, np.asarray(window)))
        if not crops:
            return []
        name = self.inputs[0]
        arrays: dict[str, Any] = {name: np.array([self.transformer.preprocess(name, crop) for crop in crops])}
        outputs = self.forward_all(**arrays)
        for entry, scores in zip(entries, outputs[self.outputs[0]], strict=True):
            entry["prediction"] = scores
        return entries

    def detect_selective_search(self, image_fnames: Iterable[str]) -> list[dict[str, Any]]:
        """Scores the windows that selective search proposes. Errors: its package is not installed."""
        try:
            selective_search = importlib.import_module(PROPOSALS)
        except ImportError:
            remedy = f"put {PROPOSALS} on PYTHONPATH, or give windows to detect_windows"
            raise CaffeliteError(f"selective search needs the package {PROPOSALS}", remedy=remedy) from None
        names = [os.path.abspath(name) for name in image_fnames]
        windows = selective_search.get_windows(names, cmd="selective_search_rcnn")
        return self.detect_windows(zip(names, windows, strict=True))

    def crop(self, im: np.ndarray, window: np.ndarray) -> np.ndarray:
        """The pixels H×W×K of a window, with its context in the size of the input. What is outside of the image has the
        mean."""
        if not self.context_pad:
            y0, x0, y1, x1 = (int(edge) for edge in window)
            return im[y0:y1, x0:x1]
        side = self.blobs[self.inputs[0]].width
        scale = side / (side - 2.0 * self.context_pad)
        low, high = np.array(window[:2], float), np.array(window[2:], float)
        half, limits = (high - low + 1) / 2, np.array(im.shape[:2])
        first, last = np.round(low + half - scale * half), np.round(low + half + scale * half)
        factor = side / (last - first + 1)
        start = np.round(np.maximum(0, -first) * factor).astype(int)
        inside = np.clip(first, 0, limits).astype(int), np.clip(last, 0, limits).astype(int)
        size = np.round((inside[1] - inside[0] + 1) * factor).astype(int)
        size = np.minimum(size, side - start)
        crop = np.array(self.crop_mean, np.float32)
        pixels = im[inside[0][0] : inside[1][0], inside[0][1] : inside[1][1]]
        if pixels.size and (size > 0).all():
            crop[start[0] : start[0] + size[0], start[1] : start[1] + size[1]] = io.resize_image(pixels, size)
        return crop
