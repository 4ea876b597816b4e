"""caffelite new -weights: what a net has learned helps where images are few."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from projects import trained


def grating(rng, angle):
    """A gray 32×32 pattern of stripes at an angle in degrees, with noise that hides it from single pixels."""
    y, x = np.mgrid[:32, :32]
    turned = x * np.cos(np.radians(angle)) + y * np.sin(np.radians(angle))
    wave = 45 * np.sin(2 * np.pi * turned / 6 + rng.uniform(0, 2 * np.pi))
    return np.clip(128 + wave + rng.normal(0, 30, (32, 32)), 0, 255).astype(np.uint8)


def gratings(folder, angles, count, seed):
    rng = np.random.default_rng(seed)
    for angle in angles:
        place = Path(folder) / f"angle{angle:03}"
        place.mkdir(parents=True)
        for i in range(count):
            cv2.imwrite(str(place / f"{i:03}.png"), cv2.merge([grating(rng, angle)] * 3))


@pytest.mark.slow
def test_trained_weights_help_where_images_are_few(call, in_tmp_path):
    """Stripes: what a net learned of four angles separates others after five images each, in 40 iterations."""
    gratings("many", (0, 45, 90, 135), 60, 1)
    gratings("few", (22, 67, 112, 157), 5, 2)
    gratings("new", (22, 67, 112, 157), 25, 3)
    common = ["-gray", "-net", "cifar10_quick"]
    assert call("new", "base", "many", *common).status == 0
    trained(call, "base", 150)
    call("new", "scratch", "few", "-test", "new", *common)
    call("new", "tuned", "few", "-test", "new", *common, "-weights", "base/base_iter_150.caffemodel")
    actual = {name: trained(call, name, 40)["accuracy"]["value"] for name in ("scratch", "tuned")}
    assert actual["tuned"] > actual["scratch"] + 0.05, actual
