"""ConvLSTM: a recurrent layer whose products are convolutions."""

import math
from types import ModuleType
from typing import Any

from ...layers.base import require, sliding
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register


@register
class ConvLSTM(ArrayLayer):
    """One sequence of T images: x (T, C, H, W) → h (T, K, H, W), K num_output. i, f, o = σ(a), g = tanh(a) of the
    channels i, f, g, o of a = wx * x_t + b + wh * h_(t-1); c_t = f c_(t-1) + i g; h_t = o tanh(c_t); h, c start at 0.

    wx (4K, C, k, k), b (4K), wh (4K, K, k, k); kernel_size k odd, padded to keep the size, and dilation. Errors: an
    even kernel_size. Source: Shi et al. 2015, as in jasonustc/caffe, src/caffe/layers/conv_lstm_layer.cpp.
    """

    field = "convolution_param"
    converted = sliding.CONVERTED

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        require.positive(self, "num_output", meaning="the channels of the top")
        p, (t, c, h, w) = self.p, bottoms[0]
        self.kernel = p.kernel_size[0] if p.kernel_size else 0
        if self.kernel % 2 == 0 or self.kernel > sliding.LARGEST:
            raise self.error("a bad kernel_size", "kernel_size", expected="an odd number", found=self.kernel)
        self.dilation = p.dilation[0] if p.dilation else 1
        if not 1 <= self.dilation <= sliding.LARGEST:
            raise self.error("a bad dilation", "dilation", expected=f"1 to {sliding.LARGEST}", found=self.dilation)
        self.k = k = p.num_output
        self.add_param((4 * k, c, self.kernel, self.kernel), p.weight_filler)
        self.add_param((4 * k,), p.bias_filler)
        self.add_param((4 * k, k, self.kernel, self.kernel), p.weight_filler)
        return [(t, k, h, w)]

    def multiply_adds(self, bottoms: list[Shape], tops: list[Shape]) -> int:
        return 4 * math.prod(tops[0]) * (bottoms[0][1] + self.k) * self.kernel**2

    def _columns(self, xp: ModuleType, x: Any) -> Any:
        """x (T, C, H, W) as (T, C·k·k, H·W): what each place sees."""
        border, (t, _, h, w) = self.kernel // 2 * self.dilation, x.shape
        padded = xp.pad(x, ((0, 0), (0, 0), (border, border), (border, border)))
        steps = [i * self.dilation for i in range(self.kernel)]
        seen = xp.stack([padded[:, :, i : i + h, j : j + w] for i in steps for j in steps], 2)
        return seen.reshape(t, -1, h * w)

    def _images(self, xp: ModuleType, columns: Any, channels: int, h: int, w: int) -> Any:
        """The sums of what ``_columns`` has from each place."""
        border, t = self.kernel // 2 * self.dilation, len(columns)
        seen = columns.reshape(t, channels, -1, h, w)
        padded = xp.zeros((t, channels, h + 2 * border, w + 2 * border))
        for k in range(seen.shape[2]):
            i, j = (index * self.dilation for index in divmod(k, self.kernel))
            padded[:, :, i : i + h, j : j + w] += seen[:, :, k]
        return padded[:, :, border : border + h, border : border + w]

    def _steps(self, xp: ModuleType, x: tuple) -> list[tuple]:
        """Of each step: columns of h before, c before, gates i, f, g, o, and tanh(c)."""
        images, wx, b, wh = x
        t, k, (h, w) = len(images), self.k, images.shape[2:]
        from_x = wx.reshape(4 * k, -1) @ self._columns(xp, images) + b[:, None]
        hidden, cell, steps = xp.zeros((1, k, h, w)), xp.zeros((k, h * w)), []
        for step in range(t):
            columns = self._columns(xp, hidden)[0]
            sums = (from_x[step] + wh.reshape(4 * k, -1) @ columns).reshape(4, k, h * w)
            i, f, o = ((1 + xp.tanh(sums[n] / 2)) / 2 for n in (0, 1, 3))
            g = xp.tanh(sums[2])
            before, cell = cell, f * cell + i * g
            hidden = (o * xp.tanh(cell)).reshape(1, k, h, w)
            steps.append((columns, before, i, f, g, o, xp.tanh(cell)))
        return steps

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        shape = len(x[0]), self.k, *x[0].shape[2:]
        return xp.stack([o * top for *_, o, top in self._steps(xp, x)]).reshape(shape)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        images, wx, _, wh = x
        k, (h, w) = self.k, images.shape[2:]
        gate_slopes, dwh = [], xp.zeros((4 * k, wh[0].size))
        later_h, later_c = xp.zeros((k, h * w)), xp.zeros((k, h * w))
        for step, (columns, before, i, f, g, o, top) in reversed(list(enumerate(self._steps(xp, x)))):
            above = dy[0][step].reshape(k, h * w) + later_h
            dc = above * o * (1 - top**2) + later_c
            parts = dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g**2), above * top * o * (1 - o)
            sums, later_c = xp.concatenate(parts), dc * f
            dwh += sums @ columns.T
            later_h = self._images(xp, (wh.reshape(4 * k, -1).T @ sums)[None], k, h, w).reshape(k, h * w)
            gate_slopes.append(sums)
        slopes = xp.stack(gate_slopes[::-1])
        dwx = (slopes @ self._columns(xp, images).swapaxes(1, 2)).sum(0).reshape(wx.shape)
        below = self._images(xp, wx.reshape(4 * k, -1).T @ slopes, images.shape[1], h, w)
        return below, dwx, slopes.sum((0, 2)), dwh.reshape(wh.shape)
