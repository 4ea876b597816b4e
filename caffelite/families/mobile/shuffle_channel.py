"""ShuffleChannel: channels of groups in turn."""

import math

from ...layers.base import require
from ...layers.base.layer import Shape, register
from ...layers.shape import Rearranged


@register
class ShuffleChannel(Rearranged):
    """Transposes the channels as a matrix of ``group`` rows (default 1): channel i of group k becomes channel k of
    group i.

    x, y (N, C, P...). Errors: a group that does not divide C. Source: Zhang et al. 2018 (ShuffleNet),
    farmingyard/ShuffleNet shuffle_channel_layer.cpp.
    """

    field = "shuffle_channel_param"

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, group = require.channels(self, bottoms), self.p.group
        if group < 1 or shape[1] % group:
            raise self.error(f"group {group} does not divide the {shape[1]} channels", "group")
        self.axes, self.order = (shape[0], group, shape[1] // group, math.prod(shape[2:])), (0, 2, 1, 3)
        self.view = 1 in self.axes[1:3]
        return [shape]
