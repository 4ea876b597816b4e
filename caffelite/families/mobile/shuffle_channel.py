"""ShuffleChannel: channels of groups in turn."""

from __future__ import annotations

import math

from ...layers import require
from ...layers.layer import Layer, Shape, register


@register
class ShuffleChannel(Layer):
    """Transposes the channels as a matrix of ``group`` rows (default 1): channel i of group k becomes channel k of
    group i.

    x, y (N, C, P...). Errors: a group that does not divide C. Source: Zhang et al. 2018 (ShuffleNet),
    farmingyard/ShuffleNet shuffle_channel_layer.cpp.
    """

    field = "shuffle_channel_param"
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, group = bottoms[0], self.p.group
        require.channels(self, bottoms)
        if group < 1 or shape[1] % group:
            raise self.error(f"group {group} does not divide the {shape[1]} channels", "group")
        self.rows = shape[0], group, shape[1] // group, math.prod(shape[2:])
        self.view = 1 in self.rows[1:3]
        return [shape]

    def _columns(self, blob):
        """The top or its gradient as (N, group, C / group, P), of the bottom's order."""
        n, rows, columns, p = self.rows
        return blob.reshape(n, columns, rows, p).transpose(0, 2, 1, 3)

    def forward(self, x: list, y: list) -> None:
        if not self.view:
            self.dev.assign(x[0].reshape(self.rows), self._columns(y[0]))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        if not self.view:
            self.dev.assign(self._columns(dy[0]), dx[0].reshape(self.rows))
