"""A net that classifies images."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..caffelite_pb2 import TEST
from . import io
from .net import Net


def image_transformer(
    net: Net,
    mean: np.ndarray | None,
    input_scale: float | None,
    raw_scale: float | None,
    channel_swap: Sequence[int] | None,
) -> io.Transformer:
    """The Transformer of a net's first input, for images H×W×K."""
    name = net.inputs[0]
    transformer = io.Transformer({name: net.blobs[name].shape})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


class Classifier(Net):
    """A net with the preprocessing of its images.

    image_dims: height and width to which images are resized before the crops; default: the input's. mean, input_scale,
    raw_scale, channel_swap: see ``io.Transformer``.
    """

    def __init__(
        self,
        model_file: str | os.PathLike[str],
        pretrained_file: str | os.PathLike[str],
        image_dims: Sequence[int] | None = None,
        mean: np.ndarray | None = None,
        input_scale: float | None = None,
        raw_scale: float | None = None,
        channel_swap: Sequence[int] | None = None,
    ):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = image_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = tuple(self.crop_dims) if image_dims is None else tuple(image_dims)

    def predict(self, inputs: Sequence[np.ndarray], oversample: bool = True) -> np.ndarray:
        """The first output for each image H×W×K, (N, ...). oversample: the mean over ten crops; else of the center."""
        images = [io.resize_image(image, self.image_dims) for image in inputs]
        if oversample:
            crops = io.oversample(images, [*map(int, self.crop_dims)])
        else:
            (y, x), (height, width) = (np.array(self.image_dims) - self.crop_dims) // 2, self.crop_dims
            crops = np.array([image[y : y + height, x : x + width] for image in images])
        name = self.inputs[0]
        arrays: dict[str, Any] = {name: np.array([self.transformer.preprocess(name, crop) for crop in crops])}
        outputs = self.forward_all(**arrays)
        scores = outputs[self.outputs[0]]
        return scores.reshape(len(scores) // 10, 10, -1).mean(1) if oversample else scores
