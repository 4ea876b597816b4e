"""The geometry of a sliding window."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """A window that slides over (H, W): kernel, stride, pad and dilation, each (vertical, horizontal)."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    def outputs(self, size: tuple[int, ...]) -> tuple[int, int]:
        """(OH, OW): how many windows fit into the padded image (H, W)."""
        reach = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        oh, ow = ((n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, self.pad, reach, self.stride, strict=True))
        return oh, ow
