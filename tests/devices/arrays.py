"""What the tests of operations share: devices by name, arrays between guards, comparisons."""

import numpy as np
from devices.host.backend import SANITIZER, HostBackend

from caffelite.devices import Window, open_device
from caffelite.devices.cuda import GPU

MAKE = {
    "cpu": lambda dtype: open_device(None, dtype),
    "host": lambda dtype: GPU(0, dtype, HostBackend()),
    "gpu": lambda dtype: open_device(0, dtype, "fp32"),
}
GUARD = 0 if SANITIZER else 256  # bytes before and behind an array


def put(dev, array, dtype=None):
    """An array of the device between two guards that nothing may touch; the sanitizers have their own."""
    host = np.asarray(array, dtype or dev.dtype)
    whole = dev.empty((host.nbytes + 2 * GUARD,), np.uint8)
    dev.fill(whole, 0x5A)
    there = dev.view(whole, GUARD, host.shape, host.dtype)
    dev.upload(there, host)
    GUARDED.append((dev, whole, host.nbytes))
    return there


GUARDED: list = []


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """x rounded to the nearest bfloat16, a tie to the even one, as float64."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


def blank(dev, shape, dtype=None):
    """An array whose old contents must not matter."""
    return put(dev, np.full(shape, 77, dtype or dev.dtype), dtype)


def close(dev, there, expected, scale=1.0):
    tolerance = scale * (2e-5 if dev.dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(dev.download(there).astype(np.float64), expected, rtol=tolerance, atol=tolerance)


POOLS = {  # x, window
    "1x1": ((1, 1, 1, 1), Window((1, 1))),
    "LeNet": ((2, 3, 8, 8), Window((2, 2), (2, 2))),
    "overlap, ceiling": ((2, 2, 8, 7), Window((3, 3), (2, 2))),
    "pad": ((1, 2, 7, 5), Window((3, 2), (2, 3), (1, 1))),
    "pad, last dropped": ((1, 1, 4, 5), Window((2, 3), (2, 2), (1, 2))),
    "gaps": ((1, 2, 7, 9), Window((2, 1), (3, 4))),
    "global": ((2, 2, 3, 5), Window((3, 5))),
    "larger than the image": ((2, 2, 1, 2), Window((2, 3), (2, 2))),
    "larger than the padded image": ((1, 2, 1, 2), Window((4, 5), (2, 3), (1, 1))),
}
CONVOLUTIONS = {  # x, outputs, window, groups
    "1x1": ((1, 1, 1, 1), 1, Window((1, 1)), 1),
    "pointwise": ((2, 3, 4, 5), 4, Window((1, 1)), 1),
    "pointwise, stride": ((2, 17, 5, 4), 33, Window((1, 1), (2, 2)), 1),
    "LeNet": ((2, 1, 9, 9), 5, Window((5, 5)), 1),
    "first layer": ((2, 3, 11, 9), 16, Window((5, 3), (2, 2), (1, 0)), 1),
    "blocks and a rest": ((2, 19, 5, 6), 35, Window((3, 3), pad=(1, 1)), 1),
    "stride, pad": ((3, 2, 7, 6), 4, Window((3, 2), (2, 3), (1, 2)), 1),
    "dilation": ((2, 2, 9, 8), 3, Window((3, 2), (1, 2), (2, 1), (2, 3)), 1),
    "groups": ((2, 4, 5, 5), 6, Window((3, 3), (2, 1), (1, 1)), 2),
    "wide groups": ((1, 32, 3, 3), 48, Window((2, 2)), 2),
    "depthwise": ((1, 3, 6, 5), 3, Window((2, 3), pad=(0, 1)), 3),
    "depthwise, twofold": ((2, 18, 4, 4), 36, Window((3, 3), (1, 1), (1, 1)), 18),
    "few channels": ((2, 3, 9, 8), 20, Window((3, 3), (2, 1), dilation=(1, 2)), 1),
    "few channels, many outputs": ((1, 4, 7, 9), 96, Window((3, 2)), 1),
    "one output": ((2, 5, 6, 4), 1, Window((3, 3)), 1),
    "one pixel": ((1, 1, 1, 1), 1, Window((3, 3), pad=(1, 1)), 1),
    "one pixel, few channels": ((1, 2, 1, 1), 50, Window((1, 1)), 1),
    "one pixel, groups": ((1, 4, 1, 1), 4, Window((3, 3), pad=(1, 1)), 4),
    "far pad": ((1, 1, 2, 2), 2, Window((1, 1), pad=(3, 3)), 1),
}
