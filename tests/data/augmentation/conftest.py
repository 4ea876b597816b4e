import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.data.draws import key
from caffelite.data.transforms import Transform
from caffelite.errors import Locator


@pytest.fixture
def transform():
    """Makes a Transform of a transform_param given as text."""

    def make(text, shape=(3, 16, 20), phase=pb.TRAIN, folder=".", layer="in"):
        param = text_format.Parse(text, pb.TransformationParameter())
        return Transform(param, phase, shape, Locator(f"{folder}/net.prototxt"), key(1, layer, "transform"))

    return make


@pytest.fixture
def perturbed(transform):
    """Images C×h×w of the samples first … first + count - 1, each from the same image."""

    def run(text, image, count=40, first=0, phase=pb.TRAIN):
        made = transform(text, image.shape, phase)
        before = image.copy()
        actual = np.stack([made.augment(image, first + i) for i in range(count)])
        np.testing.assert_array_equal(image, before, "the source's image was changed")
        return actual

    return run


@pytest.fixture
def picture():
    """3×16×20 of bytes, smooth enough to be interpolated."""
    y, x = np.mgrid[:16, :20]
    return np.stack([8 * x + 3 * y, 200 - 6 * x, 12 * y + 2 * x]).astype(np.uint8)
