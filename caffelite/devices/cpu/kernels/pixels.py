"""Converts pixels to floats: crop, mean, mirror and scale in one pass."""

import numpy as np

from .parallel import loop
from .settings import kernel


@kernel
def _plane(i, pixels, picks, cut, mean, scale, out):
    """A channel of a sample: plane i of out."""
    channels, height, width = out.shape[1:]
    s, c = i // channels, i % channels
    index, top, left, mirrored = picks[s, 0], picks[s, 1], picks[s, 2], picks[s, 3]
    flat = mean.shape[1] * mean.shape[2] == 1
    whole = mean.shape[1] == height and mean.shape[2] == width
    y, x = (top, left) if cut else (0, 0)
    my, mx = (0, 0) if whole else (top, left)
    for h in range(height):
        source, target = pixels[index, c, y + h, x : x + width], out[s, c, h]
        if flat:
            m = mean[c, 0, 0]
            if mirrored:
                for w in range(width):
                    target[width - 1 - w] = (np.float32(source[w]) - m) * scale
            else:
                for w in range(width):
                    target[w] = (np.float32(source[w]) - m) * scale
        else:
            means = mean[c, my + h, mx : mx + width]
            if mirrored:
                for w in range(width):
                    target[width - 1 - w] = (np.float32(source[w]) - means[w]) * scale
            else:
                for w in range(width):
                    target[w] = (np.float32(source[w]) - means[w]) * scale


@kernel
def preprocess(pixels, picks, cut, mean, scale, out):
    """out (N, C, h, w) = (pixels - mean) · scale in float32, cropped and mirrored as the rows of picks say.

    pixels (M, C, H, W), of any strides; picks (N, 4): which pixels, top, left, whether mirrored; cut: the pixels are
    larger than the crop. mean: (C, 1, 1), (C, h, w), or (C, H, W) to be cropped too.
    """
    for i in range(out.shape[0] * out.shape[1]):
        _plane(i, pixels, picks, cut, mean, scale, out)


@loop("out.shape[0] * out.shape[1]")
def preprocess_parallel(first, last, pixels, picks, cut, mean, scale, out):
    """The same by all threads."""
    for i in range(first, last):
        _plane(i, pixels, picks, cut, mean, scale, out)
