"""Inference in a process of its own: its messages, answers, limits, and what follows when it dies."""

import multiprocessing
import os
import signal
import time

import cv2
import numpy as np
import pytest
from report_pages import write_weights

from caffelite.data import pictures
from caffelite.errors import CaffeliteError
from caffelite.serve.inference import client
from caffelite.serve.inference.client import InferenceLimits, Models, resident

NET = """
name: "shades"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } }
  transform_param { scale: 0.01 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
deploy_param { weights: "shades.caffemodel" label: "dark" label: "gray" label: "light" }
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "deploy.prototxt").write_text(NET)
    conv = [np.ones((2, 1, 3, 3), np.float32) / 9, np.zeros(2, np.float32)]
    ip = [np.outer([-1, 0, 1], np.ones(8)).astype(np.float32), np.array([8, 0, -16], np.float32)]
    write_weights(folder / "shades.caffemodel", {"conv": conv, "ip": ip})
    return folder / "deploy.prototxt"


@pytest.fixture(scope="module")
def worker(model):
    with Models() as models:
        yield models.worker(model, [model.with_name("shades.caffemodel")])


def png(value, side=4):
    return cv2.imencode(".png", np.full((side, side), value, np.uint8))[1].tobytes()


def best(worker, value):
    result, parts = worker.request({"op": "classify", "top": 3}, png(value))
    assert cv2.imdecode(np.frombuffer(parts[0], np.uint8), 0).tolist() == np.full((4, 4), value).tolist()
    return result["answers"][0]["label"]


def test_messages_keep_their_parts():
    ours, theirs = multiprocessing.Pipe()
    with theirs, ours:
        client.send(ours, {"op": "é"}, [b"one", b"", b"\0three"])
        client.send(ours, {})
        assert client.receive(theirs) == ({"op": "é"}, [b"one", b"", b"\0three"])
        assert client.receive(theirs) == ({}, [])
        ours.send_bytes(b'{"payloads": 1}')
        ours.close()
        with pytest.raises(EOFError):
            client.receive(theirs)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"payloads": "2"}', b"not JSON"])
def test_messages_that_are_none_are_refused(text):
    ours, theirs = multiprocessing.Pipe()
    with theirs, ours:
        ours.send_bytes(text)
        with pytest.raises(ValueError):
            client.receive(theirs)


def test_messages_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(client, "MOST_BYTES", 4)
    ours, theirs = multiprocessing.Pipe()
    with theirs, ours:
        client.send(ours, {}, [b"12345"])
        with pytest.raises(OSError):
            client.receive(theirs)


def test_answers_and_explanations(worker):
    assert [best(worker, value) for value in (10, 250)] == ["dark", "light"]
    actual, pictures = worker.request({"op": "layers"}, png(99))
    assert [(row["name"], row["shape"]) for row in actual["layers"]] == [("conv", [2, 2, 2]), ("ip", [3])]
    assert actual["layers"][0]["greatest"] == pytest.approx(0.99) and len(pictures) == 2
    actual, pictures = worker.request({"op": "saliency", "class": 2}, png(99))
    assert (actual["label"], actual["layer"], len(pictures)) == ("light", "conv", 3)
    with pytest.raises(CaffeliteError, match="no such class; expected 0 to 2, found 3"):
        worker.request({"op": "saliency", "class": 3}, png(99))


def test_bad_images_are_errors_and_the_process_stays(worker):
    before = worker.process
    for content in (b"", b"no image", png(1)[:40]):
        with pytest.raises(CaffeliteError, match="not an image|no image|cut short"):
            worker.request({"op": "classify", "top": 1}, content)
    with pytest.raises(CaffeliteError, match="no such operation"):
        worker.request({"op": "eval"}, b"")
    assert worker.process == before and best(worker, 10) == "dark"


def test_a_killed_process_starts_again(worker):
    best(worker, 10)
    before = worker.process
    os.kill(before, signal.SIGKILL)
    assert best(worker, 250) == "light" and worker.process not in (None, before)


def test_limits_end_the_process(model):
    with Models(InferenceLimits(pixels=99, idle=0.0)) as models:
        small = models.worker(model, [])
        assert best(small, 10) == "dark"
        with pytest.raises(CaffeliteError, match="the PNG is too large: 10×10 pixels, at most 99"):
            small.request({"op": "classify", "top": 1}, png(1, 10))
        assert resident(small.process) > 1 << 20
        small.close_if_idle()
        assert small.process is None
    with Models(InferenceLimits(memory=1)) as models:
        large = models.worker(model, [])
        with pytest.raises(CaffeliteError):
            large.open()
        assert large.process is None


def test_a_request_that_takes_too_long_is_given_up(model):
    with Models(InferenceLimits(request=0.5)) as models:
        worker = models.worker(model, [])
        worker.open()
        os.kill(worker.process, signal.SIGSTOP)
        with pytest.raises(CaffeliteError, match=r"longer than 0\.5 s"):
            worker.request({"op": "classify", "top": 1}, png(1))
        assert worker.process is None


def test_a_changed_model_is_opened_again(model):
    with Models() as models:
        first = models.worker(model, [])
        first.open()
        assert models.worker(model, []) is first
        os.utime(model, (time.time() + 5, time.time() + 5))
        assert models.worker(model, []) is not first and first.process is None


def test_a_net_that_cannot_be_opened_is_an_error(model):
    broken = model.with_name("broken.prototxt")
    broken.write_text(NET.replace("shades.caffemodel", "none.caffemodel"))
    with Models() as models, pytest.raises(CaffeliteError, match=r"none\.caffemodel"):
        models.worker(broken, []).open()


def test_images_of_pages_are_decoded_in_a_process(monkeypatch):
    """With the same numbers; a process that is killed starts again, and one that needs too much memory refuses."""
    picture = np.random.default_rng(1).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    content, gray = (cv2.imencode(".png", one)[1].tobytes() for one in (picture, picture[..., 0]))
    expected = [
        pictures.decode(content),
        pictures.decode(content, False),
        pictures.decode(gray),
        pictures.AS_CAFFE.labels(gray),
    ]
    large = cv2.imencode(".png", np.zeros((9000, 9000, 3), np.uint8))[1].tobytes()
    monkeypatch.setattr(client, "MEMORY", 1 << 28)
    with client.decoding(InferenceLimits()):
        with monkeypatch.context() as here:
            here.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded here"))
            actual = [pictures.decode(content), pictures.decode(content, False), pictures.decode(gray)]
            actual.append(pictures.AS_CAFFE.labels(gray))
            np.testing.assert_equal(actual, expected)
            with pytest.raises(ValueError, match="not an image that can be decoded"):
                pictures.decode(b"no image")
            with pytest.raises(ValueError, match="memory|decoded"):
                pictures.decode(large)
            np.testing.assert_array_equal(pictures.decode(content), expected[0])
    assert pictures.elsewhere is None


def test_a_model_opens_without_code_of_the_current_folder(model, monkeypatch, tmp_path):
    """The folder of the server may be that of a stranger, and an empty entry of PYTHONPATH means it."""
    for name in ("caffelite", "numpy", "cv2", "google"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    worker = client.Worker(model, InferenceLimits())
    assert worker.open()["name"] == "shades"
    worker.close()
    assert not (tmp_path / "executed").exists()
