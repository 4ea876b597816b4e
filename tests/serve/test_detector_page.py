"""The page try with a net that detects objects; also in Chromium."""

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

LABEL = "<b>a</b>"
NET = """
name: "quarters"
deploy_param { weights: "w.caffemodel" label: "background" label: "LABEL" label: "b" }
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } }
  transform_param { scale: 0.004 } }
layer { name: "loc" type: "InnerProduct" bottom: "data" top: "loc" inner_product_param { num_output: 16 } }
layer { name: "conf" type: "InnerProduct" bottom: "data" top: "conf" inner_product_param { num_output: 12 } }
layer { name: "cells" type: "Pooling" bottom: "data" top: "cells"
  pooling_param { pool: AVE kernel_size: 8 stride: 8 } }
layer { name: "prior" type: "PriorBox" bottom: "cells" bottom: "data" top: "prior"
  prior_box_param { min_size: 8 variance: 0.1 } }
layer { name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior" top: "out"
  detection_output_param { num_classes: 3 code_type: CENTER_SIZE confidence_threshold: 0.2 } }
""".replace("LABEL", LABEL)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A net of two classes that finds light quarters of an image, the upper ones of the first class; and an image whose
    upper left quarter is light and lower right one less so."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "deploy.prototxt").write_text(NET)
    conf = np.zeros((4, 3, 3, 16, 16), np.float32)
    for place in range(4):
        row, column = divmod(place, 2)
        conf[place, 1 + row, :, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 1 / (3 * 64)
    loc = [np.zeros((16, 768), np.float32), np.zeros(16, np.float32)]
    write_weights(folder / "w.caffemodel", {"loc": loc, "conf": [conf.reshape(12, 768), np.zeros(12, np.float32)]})
    image = np.zeros((32, 48, 3), np.uint8)
    image[:16, :24] = 10, 200, 250
    image[16:, 24:] = 99
    cv2.imwrite(str(folder / "image.png"), image)
    return folder


@pytest.fixture(scope="module")
def client(site):
    with TestClient(create_app(ServeConfig(roots=(site,))), base_url="http://127.0.0.1:5000") as actual:
        yield actual


def post(client, site, address="classify", **fields):
    files = {"image": ("image.png", (site / "image.png").read_bytes())}
    data = {"net": "deploy.prototxt", **fields}
    return client.post(f"/try/{address}", data=data, files=files, headers={"Accept": "application/json"})


@pytest.mark.parametrize("option", [(), ("threshold", "0.4"), ("top", "1")])
def test_boxes_equal_those_of_the_command(site, client, capsys, option):
    actual = post(client, site, **dict([option] if option else [])).json()
    words = [f"-{option[0]}", option[1]] if option else []
    cli.main(["classify", str(site / "image.png"), "-model", str(site / "deploy.prototxt"), "-json", *words])
    (expected,) = json.loads(capsys.readouterr().out)
    assert actual["detections"] == expected["detections"] and actual["notes"] == expected["notes"]
    assert len(actual["detections"]) == (1 if option else 2)
    best = actual["detections"][0]
    assert (best["label"], best["class"], best["box"]) == (LABEL, 1, pytest.approx([0, 0, 24, 16]))


def test_the_picture_is_the_image_of_the_boxes(site, client):
    actual = post(client, site).json()
    seen = cv2.imdecode(np.frombuffer(base64.b64decode(actual["seen"].partition(",")[2]), np.uint8), 1)
    assert (actual["width"], actual["height"]) == (48, 32) and seen.shape == (32, 48, 3)
    assert (seen == cv2.imread(str(site / "image.png"))).all()


def test_options_of_classifiers_are_refused(site, client):
    info = client.get("/try/model.json", params={"net": "deploy.prototxt"}).json()
    assert (info["detects"], info["classifies"]) == (True, False)
    assert info["labels"] == ["background", LABEL, "b"]
    assert "oversample is for classifiers" in post(client, site, oversample="on").json()["error"]
    for address, fields in (("layers", {}), ("saliency", {}), ("correct", {"class": "1"})):
        result = post(client, site, address, **fields)
        assert result.status_code == 400 and "detects objects" in result.json()["error"], address
    for bad in ("x", "nan", "2", "-1"):
        assert "a number from 0 to 1" in post(client, site, threshold=bad).json()["error"]


@pytest.mark.browser
def test_boxes_are_drawn_and_listed(browser, site):
    with Server(site, "-cpu_slots", "0") as server, opened(browser, server, "/try?net=deploy.prototxt") as page:
        page.set_input_files("#file", site / "image.png")
        page.wait_for_selector(".answer[data-count='2']")
        assert page.inner_text("[data-part=best]") == "2 objects" and page.is_hidden("[data-part=explain]")
        rows = [line.split("\t") for line in page.locator(".boxes tbody tr").all_inner_texts()]
        assert [row[0] for row in rows] == [LABEL, "b"] and rows[0][2:] == ["0.0", "0.0", "24.0", "16.0"]
        shown = page.locator(".boxes img").bounding_box()
        box = page.locator(".boxes rect").last.bounding_box()  # the best is on top
        scale = min(shown["width"] / 48, shown["height"] / 32)
        assert box["width"] == pytest.approx(24 * scale, abs=4)
        assert box["height"] == pytest.approx(16 * scale, abs=4)
        assert page.locator(".boxes text").last.text_content().startswith(LABEL)
        page.fill("#threshold", "0.4")
        page.press("#threshold", "Tab")
        page.wait_for_selector(".answer[data-count='1']")
