"""Nets that ship with weights answer on a GPU as on the CPU: `Net.classify`, `Net.detect`, `Net.read`."""

from contextlib import closing

import numpy as np
import pytest
from devices.host import plans

import caffelite
from caffelite import devices
from caffelite.zoo import trained

HOW = {"ctc_words": "read", "ssd_shapes": "detect", "faster_rcnn_shapes": "detect"}
CLASSIFY = ("digits", "lenet_mnist", "mnist_elastic", "cifar10_resnet")
LEAST = 0.3  # score of objects that are compared: around a threshold rounding decides


def answer(name: str, gpu: int | None):
    """(texts, labels or names; numbers) of the first picture that ships with a net."""
    picture = sorted((trained.find(name).folder / "pictures").rglob("*.*"))[0]
    with closing(caffelite.load(name, gpu=gpu)) as net:
        if name in CLASSIFY:
            scores = sorted((p.label, p.score) for p in net.classify(picture, top=10))
            return [label for label, _ in scores], [score for _, score in scores]
        if HOW[name] == "read":
            reading = net.read(picture)
            return [reading.text], [reading.score]
        objects = [found for found in net.detect(picture, LEAST)]
        return [found.label for found in objects], [n for found in objects for n in (found.score, *found.box)]


HOST = pytest.param("host", marks=pytest.mark.host)
GPU = pytest.param("gpu", marks=pytest.mark.gpu)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HOW, *CLASSIFY])
@pytest.mark.parametrize("gpu", [HOST, GPU])
def test_a_gpu_answers_as_the_cpu(monkeypatch, name, gpu):
    words, numbers = answer(name, None)
    if gpu == "host":
        dev = plans.device("fp32", deterministic=True)
        monkeypatch.setattr(devices, "open_device", lambda number: dev)
    actual, theirs = answer(name, 0)
    assert gpu == "gpu" or dev.backend.launches > 3
    assert actual == words and len(words) > 0
    np.testing.assert_allclose(theirs, numbers, rtol=2e-2, atol=2e-2)
