"""The page try with a net that classifies pixels; also in Chromium."""

import base64
import json

import cv2
import numpy as np
import pytest
from browsing import Server, opened
from report_pages import write_weights
from starlette.testclient import TestClient

from caffelite import cli
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig

NET = """
name: "channels"
deploy_param { weights: "w.caffemodel" label: "background" label: "blue" label: "red" channel_order: ORDER }
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 3 kernel_size: 1 } }
layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two nets, of channels in either order, that tell blue and red pixels from dark ones; an image of twice their
    size, a quarter of which is blue and an eighth red."""
    folder = tmp_path_factory.mktemp("site")
    weights = np.zeros((3, 3, 1, 1), np.float32)
    weights[1, 0] = weights[2, 2] = 0.1
    for name, order in (("bgr", [0, 1, 2]), ("rgb", [2, 1, 0])):
        (folder / name).mkdir()
        (folder / name / "deploy.prototxt").write_text(NET.replace("ORDER", name.upper()))
        blobs = [np.ascontiguousarray(weights[:, order]), np.array([5, 0, 0], np.float32)]
        write_weights(folder / name / "w.caffemodel", {"score": blobs})
    image = np.zeros((16, 16, 3), np.uint8)
    image[:8, :8], image[8:, 12:] = (200, 0, 0), (0, 0, 200)
    cv2.imwrite(str(folder / "image.png"), image)
    return folder


@pytest.fixture(scope="module")
def client(site):
    with TestClient(create_app(ServeConfig(roots=(site,))), base_url="http://127.0.0.1:5000") as actual:
        yield actual


def post(client, site, net="bgr/deploy.prototxt", address="classify", **fields):
    files = {"image": ("image.png", (site / "image.png").read_bytes())}
    data = {"net": net, **fields}
    return client.post(f"/try/{address}", data=data, files=files, headers={"Accept": "application/json"})


@pytest.mark.parametrize("name", ["bgr", "rgb"])
def test_shares_and_colors_equal_those_of_the_command(site, client, capsys, name):
    net = f"{name}/deploy.prototxt"
    result = post(client, site, net).json()
    cli.main(["classify", str(site / "image.png"), "-model", str(site / net), "-json"])
    (expected,) = json.loads(capsys.readouterr().out)
    shares = [(answer["label"], answer["score"]) for answer in result["answers"]]
    assert shares == [(answer["label"], answer["share"]) for answer in expected["answers"]]
    assert shares == [("background", 0.625), ("blue", 0.25), ("red", 0.125)]
    seen = cv2.imdecode(np.frombuffer(base64.b64decode(result["seen"].partition(",")[2]), np.uint8), 1)
    assert seen[12, 4].tolist() == [0, 0, 0], "the background has no color"
    assert seen[4, 4].tolist() == [100, 0, 64] and seen[12, 14].tolist() == [0, 64, 100], "half image, half palette"


def test_options_of_classifiers_are_refused(site, client):
    info = client.get("/try/model.json", params={"net": "bgr/deploy.prototxt"}).json()
    assert info["segments"] and not info["detects"]
    assert "the net classifies pixels" in post(client, site, oversample="on").json()["error"]
    for address, fields in (("layers", {}), ("saliency", {}), ("correct", {"class": "1"})):
        assert post(client, site, address=address, **fields).status_code == 400, address


@pytest.mark.browser
def test_the_colored_image_is_shown(browser, site):
    with Server(site, "-cpu_slots", "0") as server, opened(browser, server, "/try?net=bgr/deploy.prototxt") as page:
        page.set_input_files("#file", site / "image.png")
        page.wait_for_selector(".answer[data-best='background']")
        assert page.is_visible(".boxes img") and page.is_hidden("[data-part=explain]")
        assert page.locator("[data-part=scores] li").count() == 3
