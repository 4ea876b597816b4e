"""The geometry of a sliding window."""

from typing import NamedTuple


class Window(NamedTuple):
    """A window that slides over spatial axes: kernel, stride, pad and dilation, each a number per axis.

    Devices take windows over (H, W); layers also have windows over one or three axes.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    pad: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)

    def outputs(self, size: tuple[int, ...]) -> tuple[int, int]:
        """(OH, OW): how many windows fit into the padded image (H, W)."""
        reach = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        oh, ow = ((n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, self.pad, reach, self.stride, strict=True))
        return oh, ow
