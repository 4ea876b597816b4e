"""What the shipped weights know of a set, before it is learned."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from caffelite.scaffold.probe import MOST, Probe, probe
from caffelite.scaffold.reading import read


def drawings(folder: str, count: int, told_apart: bool) -> None:
    """Disks and crosses on noise in folders by shape, or as they come."""
    rng = np.random.default_rng(5)
    for i in range(2 * count):
        image = rng.integers(0, 120, (40, 32, 3), np.uint8)
        disk = i % 2 == 0 if told_apart else rng.random() < 0.5
        if disk:
            cv2.circle(image, (16, 20), 9, (200, 160, 90), -1)
        else:
            cv2.line(image, (6, 6), (26, 34), (200, 160, 90), 3)
            cv2.line(image, (26, 6), (6, 34), (200, 160, 90), 3)
        place = Path(folder) / ("a", "b")[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(place / f"{i}.png"), image)


@pytest.mark.parametrize("told_apart", [True, False])
def test_weights_are_proposed_where_features_tell_classes_apart(in_tmp_path, told_apart):
    for name, count in (("train", 20), ("test", 40)):
        drawings(f"pictures/{name}", count, told_apart)
    data = read(Path("pictures"), None, [], False)
    made = probe(data.train, data.test)
    assert (made.learned, made.tested, made.usual) == (40, 80, 0.5)
    assert (made.right == 1) is told_apart
    assert made.helps is told_apart
    assert made.text.endswith("start from them: -weights cifar10_resnet.") is told_apart


def test_the_figure_is_compared_with_the_most_frequent_class():
    assert Probe("net", 0.9, 0.8, MOST, MOST).helps
    assert not Probe("net", 0.89, 0.8, MOST, MOST).helps
