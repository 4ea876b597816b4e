"""BiasChannel: scores that labels raise."""

import math
from types import ModuleType
from typing import Any

from ... import caffelite_pb2 as pb
from ...layers.array_loss import ArrayLoss
from ...layers.base import require
from ...layers.base.layer import Shape, register
from .unique_label import NONE


@register
class BiasChannel(ArrayLoss):
    """y = x, and more at the scores of labels: fg_bias at that of a label, bg_bias at that of label 0.

    x, y (N, C, H, W). label_type IMAGE: labels (N, L, 1, 1), each raises all pixels of its channel. PIXEL: labels (N,
    1, H, W), each raises its pixel; with bg_bias set, bg_bias goes to channel background_label of each pixel. Labels of
    ignore_label, and -1, raise nothing. Defaults: IMAGE, bg_bias 1, fg_bias 2, background_label 0. Errors: a bias below
    0, labels of another size; while it runs, labels that are no channel. Source: Papandreou et al. 2015, as in
    gramuah/weakly-supervised-segmentation and aharley/segaware caffe/src/caffe/layers/bias_channel_layer.cpp.
    """

    field = "bias_channel_param"
    loss = False
    needs_images = True
    divisible_axes = (0,)

    def setup(self) -> None:
        for name in ("bg_bias", "fg_bias"):
            require.value(self, name, getattr(self.p, name) >= 0, "0 or more")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, self.channels, *size = require.images(self, bottoms)
        pixels = self.p.label_type == pb.BiasChannelParameter.PIXEL
        wrong = math.prod(bottoms[1]) != n * math.prod(size) if pixels else math.prod(bottoms[1][2:]) != 1
        if wrong or bottoms[1][:1] != (n,):
            expected = f"[{n}, 1, {size[0]}, {size[1]}]" if pixels else f"[{n}, L, 1, 1]"
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        return [bottoms[0]]

    def _raised(self, xp: ModuleType, labels: Any) -> tuple[Any, Any]:
        """One-hot labels (N, C, L), without those that raise nothing; which labels raise something."""
        labels = xp.trunc(labels)
        counts = ~xp.isin(labels, xp.asarray([NONE, *self.p.ignore_label], labels.dtype))
        classes, _ = self.classes_of(xp, xp.where(counts, labels, 0), 0, self.channels - 1)
        return (xp.arange(self.channels)[:, None] == classes[:, None]) & counts[:, None], counts

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        p, (scores, labels) = self.p, x
        hot, counts = self._raised(xp, labels.reshape(len(labels), -1))
        channels = xp.arange(self.channels)[:, None]
        if p.label_type == pb.BiasChannelParameter.IMAGE:
            more = (hot * xp.where(channels == 0, p.bg_bias, p.fg_bias)).sum(2)[..., None, None]
        elif p.HasField("bg_bias") or p.HasField("background_label"):
            ground = channels == p.background_label
            more = xp.where(ground, p.bg_bias * counts[:, None], p.fg_bias * hot).reshape(scores.shape)
        else:
            more = (p.fg_bias * hot).reshape(scores.shape)
        return scores + more

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        return dy[0].copy(), None
