"""Weight gradients of convolutions of each channel by itself, with any window."""

from .parallel import loop
from .settings import kernel

BLOCK = 512  # pixels summed before they join the total: longer sums in float32 round worse


@kernel
def _flush(sums, totals):
    for c in range(sums.size):
        totals[c] += sums[c]
        sums[c] = 0


@loop("space.shape[0]")
def gradient(first, last, x, dy, kernel, stride, pad, dilation, space, dw, add):
    """dw (C, kh·kw) = [dw +] the weight gradient from x (N, H, W, C) and dy (N, OH, OW, C); space (kh·kw, 2, C):
    workspace."""
    for tap in range(first, last):
        sums, totals, count = space[tap, 0], space[tap, 1], 0
        space[tap] = 0
        top, left = tap // kernel[1] * dilation[0] - pad[0], tap % kernel[1] * dilation[1] - pad[1]
        for image in range(dy.shape[0]):
            for oh in range(dy.shape[1]):
                h = oh * stride[0] + top
                if h < 0 or h >= x.shape[1]:
                    continue
                for ow in range(dy.shape[2]):
                    w = ow * stride[1] + left
                    if 0 <= w < x.shape[2]:
                        pixel, factors = x[image, h, w], dy[image, oh, ow]
                        for c in range(sums.size):
                            sums[c] += pixel[c] * factors[c]
                count += dy.shape[2]
                if count >= BLOCK:
                    _flush(sums, totals)
                    count = 0
        _flush(sums, totals)
        for c in range(totals.size):
            dw[c, tap] = dw[c, tap] + totals[c] if add else totals[c]
