"""The pages try and models over a folder with digits and a net that was trained on them; some in Chromium."""

import base64
import json
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import cv2
import numpy as np
import pytest
from browsing import PAPER, SEVEN, Server, answered, cut_off, draw, opened, until
from site_folders import NAUGHTY, caffelite, ended, table, write_class_folders
from starlette.testclient import TestClient

from caffelite import caffelite_pb2 as pb, devices, prototxt, weights
from caffelite.data import stored
from caffelite.deploy.classify import Classifier
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig

NET = """
name: "<digits>"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.00390625 } data_param { source: "digits_train_lmdb" batch_size: 64 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.00390625 } data_param { source: "digits_test_lmdb" batch_size: 60 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 5 stride: 2 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOLVER = """net: "net.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005 max_iter: 200
  display: 100 snapshot_prefix: "digits" random_seed: 1"""
HIERARCHY = "round\n  0\n  6\n  8\n  9\nstraight\n  1\n  4\n  7\n"
UNLABELED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button")].filter(
    (each) => !each.labels?.length && !each.ariaLabel && !each.textContent.trim()).map((each) => each.outerHTML)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with digits, a trained run, and its hierarchy; no deploy net yet."""
    folder = tmp_path_factory.mktemp("site")
    caffelite(folder, "dataset", "digits")
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    caffelite(folder, "train", "-solver", "solver.prototxt")
    (folder / "digits_run" / "hierarchy.txt").write_text(HIERARCHY)
    return folder


@pytest.fixture(scope="module")
def client(site):
    config = ServeConfig(roots=(site,))
    with TestClient(create_app(config), base_url="http://127.0.0.1:5000") as actual:
        yield actual


@pytest.fixture(scope="module")
def deployed(site, client):
    """The address of the run's deploy net, made by the job that the page queues."""
    assert "caffelite deploy" in client.get("/try", params={"run": "digits_run"}).text
    result = client.post("/try/deploy", data={"run": "digits_run"}, headers={"Accept": "application/json"})
    ended(client, result.json()["id"])
    actual = client.get("/try.json", params={"run": "digits_run"}).json()
    assert actual["hierarchy"] == "digits_run/hierarchy.txt"
    return actual["net"]


@pytest.fixture(scope="module")
def drawing(site):
    """A seven as a file, as one draws it."""
    paper = np.full((PAPER, PAPER), 255, np.uint8)
    for stroke in SEVEN:
        cv2.polylines(paper, [np.array(stroke, np.int32)], False, 0, 24)
    (site / "drawn").mkdir()
    cv2.imwrite(str(site / "drawn/seven.png"), paper)
    return site / "drawn/seven.png"


def classify(client, net, content, **fields):
    files = {"image": ("image.png", content)}
    return client.post(
        "/try/classify", data={"net": net, **fields}, files=files, headers={"Accept": "application/json"}
    )


@pytest.mark.slow
def test_answers_equal_those_of_the_command(site, client, deployed, drawing):
    actual = classify(client, deployed, drawing.read_bytes(), top="10", hierarchy="digits_run/hierarchy.txt").json()
    words = ("classify", drawing, "-model", deployed, "-top", 10, "-json", "-hierarchy", "digits_run/hierarchy.txt")
    (expected,) = json.loads(caffelite(site, *words))
    assert [a["label"] for a in actual["answers"]] == [a["label"] for a in expected["answers"]]
    assert [a["score"] for a in actual["answers"]] == pytest.approx([a["score"] for a in expected["answers"]], abs=1e-6)
    assert actual["answers"][0]["label"] == "7" and actual["notes"] == expected["notes"]
    assert [g["name"] for g in actual["general"]] == [g["name"] for g in expected["general"]]
    seen = cv2.imdecode(np.frombuffer(base64.b64decode(actual["seen"].partition(",")[2]), np.uint8), 0)
    assert seen.shape == (28, 28) and seen[14].max() > 128


# none; of a run that has not come so far
@pytest.mark.slow
@pytest.mark.parametrize("named", ["", "digits_iter_99999.caffemodel"])
def test_a_deploy_net_without_weights_has_those_beside_it(site, client, deployed, drawing, named):
    folder = site / "beside"
    folder.mkdir(exist_ok=True)
    text = re.sub(r'weights: ".*"', f'weights: "{named}"' if named else "", (site / deployed).read_text())
    (folder / "deploy.prototxt").write_text(text)
    weights = max(site.glob("digits_iter_*.caffemodel"), key=lambda path: path.stat().st_mtime)
    shutil.copy(weights, folder)
    (folder / "digits_iter_7.caffemodel").symlink_to("/etc/hostname")
    try:
        net = "beside/deploy.prototxt"
        assert net in [one["path"] for one in client.get("/models.json").json()["models"]]
        shown = client.get("/models/net.json", params={"path": net}).json()["files"]
        assert f"beside/{weights.name}" in [one["path"] for one in shown]
        scores = [classify(client, one, drawing.read_bytes()).json()["answers"] for one in (net, deployed)]
        assert scores[0] == scores[1]
        (folder / "deploy.prototxt").unlink()
        shutil.copy(site / "digits_run/net.prototxt", folder / "train_val.prototxt")
        assert [one["path"] for one in client.get("/models.json").json()["train_nets"]] == ["beside/train_val.prototxt"]
        result = client.post(
            "/models/deploy", data={"path": "beside/train_val.prototxt"}, headers={"Accept": "application/json"}
        ).json()
        ended(client, result["id"])
        assert classify(client, net, drawing.read_bytes()).json()["answers"][0]["label"] == "7"
        assert client.get("/models/net.json", params={"path": net}).json()["train_net"] == "beside/train_val.prototxt"
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_run_is_tried_with_the_deploy_net_of_its_project(site, client, deployed):
    text = (site / deployed).read_text().replace('weights: "../', 'weights: "')
    (site / "deploy.prototxt").write_text(text)
    (site / deployed).rename(site / "hidden")
    try:
        assert client.get("/try.json", params={"run": "digits_run"}).json()["net"] == "deploy.prototxt"
    finally:
        (site / "hidden").rename(site / deployed)
        (site / "deploy.prototxt").unlink()


def test_explanations_have_a_picture_for_each_layer(client, deployed, drawing):
    form = {"data": {"net": deployed}, "files": {"image": ("a.png", drawing.read_bytes())}}
    actual = client.post("/try/layers", **form).json()["layers"]
    assert [(row["name"], row["shape"]) for row in actual][:2] == [("conv", [8, 12, 12]), ("relu", [8, 12, 12])]
    assert all(row["picture"].startswith("data:image/png;base64,") for row in actual)
    actual = client.post("/try/saliency", **form).json()
    assert actual["label"] == "7" and sorted(actual["pictures"]) == ["gradcam", "input", "saliency"]


def test_corrected_answers_become_a_labeled_set(site, client, deployed, drawing):
    form = {"data": {"net": deployed, "class": "3"}, "files": {"image": ("a.png", drawing.read_bytes())}}
    for _ in range(2):
        actual = client.post("/try/correct", **form, headers={"Accept": "application/json"}).json()
    assert actual["count"] == 1 and (site / actual["file"]).read_bytes() == drawing.read_bytes()
    shown = client.get("/data/samples.json", params={"path": actual["list"]}).json()
    assert [row["label"] for row in shown["samples"]] == ["3"]
    form["data"]["class"] = "10"
    assert client.post("/try/correct", **form).status_code == 400


def test_many_images_are_a_job_with_a_table(site, client, deployed, drawing):
    content = drawing.read_bytes()
    files = [("images", (f"../{i}<b>.png", content)) for i in range(3)] + [("images", ("broken.png", b"none"))]
    data = {"net": deployed, "folder": "", "top": "2"}
    actual = client.post("/try/many", data=data, files=files, headers={"Accept": "application/json"}).json()
    ended(client, actual["id"])
    progress = client.get(f"/queue/jobs/{actual['id']}.json").json()["progress"]
    assert (progress["total"], progress["text"]) == (4, "images")
    rows = table(site / actual["result"])
    assert [row["label1"] for row in rows] == ["7", "7", "7", ""] and "decoded" in rows[3]["error"]
    assert all(site in Path(row["file"]).resolve().parents for row in rows)
    assert client.get("/download", params={"path": actual["result"]}).content.startswith(b"file,seconds,error,label1")


REFUSED = ["../../etc/passwd", "/etc/passwd", "link/passwd", "a\0b"]


@pytest.mark.parametrize("path", REFUSED)
def test_paths_outside_the_roots_are_refused(site, client, deployed, drawing, path):
    if not (site / "link").exists():
        (site / "link").symlink_to("/etc")
    content = drawing.read_bytes()
    assert classify(client, path, content).status_code == 403
    assert classify(client, deployed, content, hierarchy=path).status_code == 403
    for address, name in (("/try/many", "folder"), ("/models/test", "train_net"), ("/data/audit", "other")):
        data = {"net": deployed, "path": deployed, name: path}
        assert client.post(address, data=data).status_code == 403, address
    text = (site / deployed).read_text()
    (site / "evil.prototxt").write_text(re.sub(r'weights: ".*"', lambda _: f"weights: {json.dumps(path)}", text))
    assert classify(client, "evil.prototxt", content).status_code in (400, 403)
    (site / "evil.prototxt").unlink()


def test_python_layers_are_refused_and_not_imported(site, client, deployed):
    (site / "evil_module.py").write_text("raise SystemExit('imported')")
    layer = (
        'layer { name: "p" type: "Python" bottom: "data" top: "p" python_param { module: "evil_module" layer: "P" } }'
    )
    (site / "python.prototxt").write_text((site / deployed).read_text() + layer)
    result = client.get("/try/model.json", params={"net": "python.prototxt"})
    assert result.status_code == 400 and "runs no Python layers" in result.json()["error"]
    (site / "python.prototxt").unlink()


# in Chromium


@pytest.fixture(scope="module")
def server(site, deployed):
    actual = Server(site)
    yield actual
    actual.end()


@pytest.fixture
def tab(browser, server):
    with opened(browser, server) as actual:
        yield actual


@pytest.mark.browser
def test_a_drawn_seven_is_answered_7_with_its_group(tab, deployed):
    tab.goto(f"/try?net={deployed}")
    draw(tab, SEVEN[:1])
    tab.wait_for_selector(".answer[data-best]")  # an answer after the first stroke
    draw(tab, SEVEN[1:])
    answered(tab, "7")
    assert tab.locator("[data-part=best]").inner_text() == "7"
    names = tab.locator("[data-part=general] li span:first-child").all_inner_texts()
    assert names[0] == "7" and names == list(dict.fromkeys(names)) and set(names[1:]) <= {"straight", "anything"}
    assert tab.locator("[data-part=seen]").evaluate("picture => picture.naturalWidth") == 28
    tab.click("[data-part=layers-button]")
    tab.wait_for_selector("[data-part=layers] img")
    assert tab.locator("[data-part=layers] figcaption").first.inner_text().startswith("conv ")


@pytest.mark.browser
def test_a_broken_picture_has_no_answer(browser, server, deployed, drawing):
    context = browser.new_context(base_url=server.address)  # whose console has the refusal
    tab = context.new_page()
    tab.goto(f"/try?net={deployed}")
    tab.wait_for_selector(".answer[data-ready]")
    tab.click("#tab-image")
    tab.set_input_files("#file", drawing)
    answered(tab, "7")
    tab.click("[data-part=layers-button]")
    tab.wait_for_selector("[data-part=layers] img")
    tab.set_input_files("#file", {"name": "b.png", "mimeType": "image/png", "buffer": b"\x89PNG broken"})
    tab.wait_for_selector("[data-part=error]:not(:empty)")
    assert tab.inner_text("[data-part=best]") == "–" and not tab.is_visible("[data-part=seen]")
    assert not tab.locator("[data-part=scores] li, [data-part=layers] img, .answer[data-best]").count()
    tab.set_input_files("#file", drawing)
    answered(tab, "7")
    assert tab.inner_text("[data-part=error]") == "" and tab.is_visible("[data-part=seen]")
    context.close()


@pytest.mark.browser
def test_images_come_from_files_the_clipboard_and_a_camera(tab, deployed, drawing):
    tab.goto(f"/try?net={deployed}")
    tab.wait_for_selector(".answer[data-ready]")
    tab.click("#tab-image")
    tab.set_input_files("#file", drawing)
    answered(tab, "7")
    content = base64.b64encode(drawing.read_bytes()).decode()
    carried = tab.evaluate_handle(
        """(content) => {
            const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
            const found = new DataTransfer();
            found.items.add(new File([bytes], "seven.png", { type: "image/png" }));
            return found;
        }""",
        content,
    )
    for act in (
        lambda: tab.dispatch_event("#drop", "drop", {"dataTransfer": carried}),
        lambda: carried.evaluate(
            "data => document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }))"
        ),
    ):
        tab.evaluate("delete document.querySelector('.answer').dataset.best")
        act()
        answered(tab, "7")
    tab.click("#tab-camera")
    tab.click("#camera")
    tab.evaluate("delete document.querySelector('.answer').dataset.best")
    tab.locator("#snap:not([disabled])").click()
    tab.wait_for_selector(".answer[data-best]")
    tab.click("#tab-draw")
    assert tab.evaluate("document.getElementById('video').srcObject") is None, "the camera is off"


@pytest.mark.browser
def test_a_layer_shows_its_output_for_a_sample(site, tab, client, deployed):
    tab.goto("/run?folder=digits_run")
    tab.wait_for_selector("#chart .main-svg")  # which moves the net down
    tab.click("#net [data-layer=conv]")
    tab.locator("#activations .thumbs button").nth(3).click()
    tab.wait_for_selector("#activations > img[alt='Output of conv']:not([hidden])")
    picture = client.get("/run/sample.png", params={"folder": "digits_run", "number": "3"}).content
    form = {"data": {"net": deployed, "layer": "conv"}, "files": {"image": ("a.png", picture)}}
    (row,) = client.post("/try/layers", **form).json()["layers"]
    assert tab.get_attribute("#activations > img", "src") == row["picture"]
    assert f"8×12×12, {row['least']:#.3g} … {row['greatest']:#.3g}" in tab.inner_text("#activations [role=status]")
    tab.click("#net [data-layer=ip]")  # the sample stays
    tab.wait_for_selector("#activations > img[alt='Output of ip']:not([hidden])")
    assert "sample 3" in tab.inner_text("#activations [role=status]")
    form["data"]["layer"] = "data"
    assert "the deploy net has no such layer" in client.post("/try/layers", **form).text


@pytest.mark.browser
def test_a_sample_is_answered_by_two_models(site, tab, deployed):
    (site / "digits_run/second.prototxt").write_text((site / deployed).read_text())
    tab.goto(f"/try?net={deployed}&other=digits_run/second.prototxt")
    tab.click("#tab-samples")
    tab.select_option("#data", "digits_test_lmdb")
    tab.locator("#thumbs button").first.click()
    tab.locator(".answer[data-best]").nth(1).wait_for()
    best = tab.locator("[data-part=best]").all_inner_texts()
    assert best[0] == best[1]


def any_report(client, deployed):
    """A test report; made where there is none."""
    if not (actual := client.get("/models.json").json()["reports"]):
        form = {"path": deployed, "train_net": "digits_run/net.prototxt"}
        ended(client, client.post("/models/test", data=form, headers={"Accept": "application/json"}).json()["id"])
        actual = client.get("/models.json").json()["reports"]
    return actual[0]


def report_of(tab):
    """The address of the report that a page shows."""
    return tab.evaluate("new URLSearchParams(location.search).get('path')")


@pytest.mark.browser
def test_a_confusion_cell_opens_exactly_its_samples(site, client, tab, deployed):
    tab.goto(f"/models/net?path={deployed}")
    tab.click("text=Test as a job")
    tab.wait_for_selector(".confusion td.wrong", timeout=60_000)
    assert cut_off(tab, ".scroll:has(.confusion)") == []
    layer = pb.LayerParameter(name="data", type="Data", top=["data", "label"])
    layer.data_param.source, layer.data_param.backend = str(site / "digits_test_lmdb"), pb.DataParameter.LMDB
    layer.data_param.batch_size = 1
    samples = stored.open_samples(layer)
    actual = stored.read(samples, list(range(samples.length)))
    document = prototxt.read_net(site / deployed)
    classifier = Classifier(document, devices.open_device(), len(actual))
    classifier.net.load(weights.read_model(site / "digits_iter_200.caffemodel"), "weights")
    answers = [one.top(1)[0] for one in classifier.predictions([image[0] for image, _ in actual])]
    labels = [label for _, label in actual]
    samples.close()
    label, result = next(pair for pair in zip(labels, answers, strict=True) if pair[0] != pair[1])
    cells = list(zip(labels, answers, strict=True))
    for pair in ((label, result), (4, 4)):
        tab.click(f'a[aria-label="{pair[0]} taken for {pair[1]}: {cells.count(pair)}"]')
        tab.wait_for_selector("#cell")
        shown = tab.locator("#cell [data-sample]").evaluate_all("every => every.map(one => Number(one.dataset.sample))")
        assert shown == [i for i, cell in enumerate(cells) if cell == pair]
    result = client.get("/models/report.json", params={"path": report_of(tab), "label": "4", "answer": "9"}).json()
    assert [row["sample"] for row in result["cell"]["samples"]] == [i for i, cell in enumerate(cells) if cell == (4, 9)]
    picture = tab.request.get(tab.locator("#cell img").first.get_attribute("src")).body()
    assert (cv2.imdecode(np.frombuffer(picture, np.uint8), -1) == actual[shown[0]][0][0]).all()


@pytest.mark.browser
def test_5000_images_are_a_job_and_pages_still_answer(site, tab, deployed):
    (site / "heap").mkdir()
    rng = np.random.default_rng(0)
    for i in range(5000):
        pixels = rng.integers(0, 256, (28, 28), np.uint8)
        (site / "heap" / f"{i:04d}.png").write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    tab.goto(f"/try?net={deployed}")
    tab.click("#tab-many")
    tab.fill("[name=folder]", "heap")
    tab.click("text=Classify as a job")
    tab.wait_for_selector("#job")
    states = []
    while not states or states[-1] in ("queued", "running"):
        assert tab.request.get("/models").ok and tab.request.get("/data/samples.json?path=digits_test_lmdb").ok
        states.append(tab.locator("#state").inner_text())
        assert len(states) < 2000
    assert states[-1] == "finished"
    with tab.expect_download() as download:
        tab.click("#result a")
    rows = table(download.value.path())
    assert len(rows) == 5000 == len({row["file"] for row in rows}) and all(row["label1"] for row in rows)


@pytest.mark.browser
def test_pages_ask_nobody_else_log_nothing_and_fit_a_phone(site, browser, server, client, deployed):
    write_class_folders(site)
    shutil.copytree(site / "digits_run", site / "copy_run", ignore=shutil.ignore_patterns("*.prototxt.*"))
    job = client.get("/queue.json").json()["ended"][0]["id"]
    report = any_report(client, deployed)
    paths = ["/runs", "/run?folder=digits_run", "/compare?folder=digits_run&folder=copy_run", "/new", "/queue"]
    paths += ["/new/edit?solver=solver.prototxt", f"/queue/jobs/{job}", "/data", "/data/set?path=digits_test_lmdb"]
    paths += ["/data/set?path=folders", "/data/preview?net=net.prototxt&number=1", "/models"]
    paths += [f"/models/net?path={deployed}", f"/models/report?path={quote(report['path'])}", f"/try?net={deployed}"]
    for path in paths:
        with opened(browser, server, path, color_scheme="light") as page:
            page.wait_for_timeout(150) if "/run?" not in path else page.wait_for_selector(".main-svg")
            assert page.evaluate(UNLABELED) == [], path
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size({"width": 380, "height": 800})
            until(page, "document.documentElement.scrollWidth <= 380")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 20, 23)"
            if "folders" in path:
                assert NAUGHTY in page.inner_text(".histogram") and page.locator("img[src=x]").count() == 0


def test_an_empty_folder_offers_nets_that_ship_with_weights(tmp_path):
    with TestClient(create_app(ServeConfig(roots=(tmp_path,))), base_url="http://127.0.0.1:5000") as client:
        start = client.get("/", follow_redirects=False)
        assert start.status_code == 303 and start.headers["location"] == "/start"
        page = client.get("/try").text
        assert "Try lenet_mnist" in page and "MNIST" in page
        headers = {"accept": "application/json"}
        net = client.post("/try/shipped", data={"name": "lenet_mnist"}, headers=headers).json()["net"]
        assert net == "lenet_mnist/deploy.prototxt"
        values = client.get("/try.json").json()
        assert values["models"] == [net] and "lenet_mnist/pictures" in values["data_sets"]
        picture = (tmp_path / "lenet_mnist" / "pictures" / "7" / "7.png").read_bytes()
        actual = client.post("/try/classify", data={"net": net}, files={"image": ("7.png", picture)}, headers=headers)
        assert actual.json()["answers"][0]["label"] == "7"
        again = client.post("/try/shipped", data={"name": "lenet_mnist"}, headers=headers)
        assert again.json() == {"net": net}, "what is there stays"
        (tmp_path / "mine").mkdir()
        untrained = (tmp_path / net).read_text().replace('weights: "', 'weights: "not_yet_')
        (tmp_path / "mine/deploy.prototxt").write_text(untrained)
        assert len(client.get("/try.json").json()["models"]) == 2
        assert client.get("/try.json").json()["net"] == net, "a net without weights cannot answer"
        shutil.rmtree(tmp_path / "mine")
        (tmp_path / "lenet_mnist/card.json").unlink()  # as a project of that name, which has none
        assert [one["shipped"] for one in client.get("/models.json").json()["models"]] == [False]
        other = client.post("/try/shipped", data={"name": "lenet_mnist"}, headers=headers).json()["net"]
        assert other == "lenet_mnist_2/deploy.prototxt"
        assert client.get("/try.json").json()["of_package"] == [other] and client.get("/try.json").json()["net"] == net
        refused = client.post("/try/shipped", data={"name": "../other"}, headers=headers)
        assert refused.status_code == 400 and "no net" in refused.json()["error"]
