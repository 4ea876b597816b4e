"""Attacks by paths that lead out of the roots, in every field and dialect: what is refused is never opened."""

import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from starlette.testclient import TestClient
from tiny_project import NET, SOLVER

from caffelite.runs.limits import Bounds
from caffelite.runs.queue import job
from caffelite.serve import drafts
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig
from caffelite.serve.pages import new
from caffelite.serve.runs_of import Runs
from caffelite.serve.samples import OpenSets

SECRET = "the first line of a secret"
AS_JSON = {"Accept": "application/json"}
_opened: list[str] = []


def _record(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        _opened.append(os.fspath(arguments[0]) if isinstance(arguments[0], str | os.PathLike) else "")


sys.addaudithook(_record)


@pytest.fixture
def outside(tmp_path):
    """A folder beside the root, whose files must not be opened."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(SECRET + "\n")
    (folder / "net.prototxt").write_text(NET)
    del _opened[:]
    yield folder
    assert not [path for path in _opened if str(folder) in os.path.realpath(path)]


@pytest.fixture
def client(tmp_path, outside):
    """A client of a server without its services. Links in the root lead out of it."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "secret.txt").symlink_to(outside / "secret")
    config = ServeConfig(roots=(root,))
    app = create_app(config)
    app.state.data_sets, app.state.runs = OpenSets(), Runs(config)
    return TestClient(app, base_url=f"http://127.0.0.1:{config.port}")


def escaped(path) -> str:
    """A path whose slashes are octal escapes of the text format."""
    return str(path).replace("/", "\\057")


def refused(client, tmp_path, outside, fields):
    """Checks that /new/check and /new/start refuse a draft, write nothing and quote nothing."""
    given = {"solver": "solver.prototxt", "solver_text": SOLVER, "net_text": NET, **fields}
    given = {name: text.replace("OUT", str(outside)).replace("ESC", escaped(outside)) for name, text in given.items()}
    actual = client.post("/new/check", data=given, headers=AS_JSON)
    assert actual.status_code == 200, actual.text
    assert not actual.json()["ok"]
    assert SECRET not in actual.text
    started = client.post("/new/start", data=given, headers=AS_JSON)
    assert started.status_code in (400, 403) and SECRET not in started.text
    assert not job.jobs(tmp_path / "root")
    assert not (tmp_path / "root" / "solver.prototxt").exists()
    return actual.json()["findings"][0]


OUTPUT = 'layer { name: "o" type: "HDF5Output" bottom: "ip" bottom: "label" hdf5_output_param { file_name: "o.h5" } }'


@pytest.mark.parametrize(
    "setting",
    [
        'o.hdf5_output_param.file_name="ESC\\057x.h5"',
        "o.hdf5_output_param.file_name='ESC\\057x.h5'",
        'o.hdf5_output_param={file_name: "ESC\\057x.h5"}',
        'o.hdf5_output_param.file_name="OUT" "\\x2fx.h5"',
        "o.hdf5_output_param.file_name=link/x.h5",
        "o.hdf5_output_param.file_name=a.h5,OUT/x.h5",
        'o.hdf5_output_param.file_name=a.h5,"ESC\\057x.h5"',
        'data.transform_param.mean_file="ESC\\057secret"',
        "data.transform_param.mean_file=secret.txt",
        "data={type: 'HDF5Data' hdf5_data_param { source: 'secret.txt' batch_size: 1 }}",
        "ip.type=Python",
        "ip.type=InnerProduct,Python",
        'ip.type="\\120ython"',
        'snapshot_prefix="ESC\\057x"',
        'snapshot_prefix="\\056\\056\\057\\056\\056\\057x"',
        'weights="ESC\\057secret"',
        'net="ESC\\057net.prototxt"',
        'test_net=["ESC\\057net.prototxt"]',
        'net_param={layer { name: "x" type: "Python" }}',
        'net_param={layer { name: "x" type: "HDF5Data" hdf5_data_param { source: "ESC\\057secret" } }}',
    ],
)
def test_a_setting_stays_below_the_roots(client, tmp_path, outside, setting):
    refused(client, tmp_path, outside, {"settings": setting, "net_text": NET + OUTPUT})


@pytest.mark.parametrize(
    "layer",
    [
        'type: "HDF5Data" top: "x" hdf5_data_param { source: "OUT/secret" batch_size: 1 }',
        'type: "HDF5Data" top: "x" hdf5_data_param { source: "ESC\\057secret" batch_size: 1 }',
        'type: "HDF5Data" top: "x" hdf5_data_param { source: "secret.txt" batch_size: 1 }',
        'type: "Data" top: "x" data_param { source: "link/x" }',
        'type: "ImageData" top: "x" image_data_param { source: "link/secret" batch_size: 1 }',
        'type: "ImageData" top: "x" image_data_param { source: "OUT/secret" batch_size: 1 }',
        'type: "WindowData" top: "x" window_data_param { source: "OUT/secret" batch_size: 1 }',
        'type: "RoIData" top: "x" roi_data_param { source: "OUT/secret" }',
        'type: "DummyData" top: "x" transform_param { mean_file: "OUT/secret" }',
    ],
)
def test_a_refused_file_of_a_layer_is_not_opened(client, tmp_path, outside, layer):
    text = NET + f'layer {{ name: "extra" {layer} }}'
    actual = refused(client, tmp_path, outside, {"net_text": text})
    assert actual["message"] == "this path is not below a root of the server" and actual["file"] == "net"


@pytest.mark.parametrize(
    "text",
    [
        SOLVER + 'test_net: "OUT/net.prototxt" test_iter: 1 test_interval: 1',
        SOLVER + 'test_net: "ESC\\057secret" test_iter: 1 test_interval: 1',
        SOLVER + 'weights: "tiny.caffemodel, OUT/secret"',
        'net: "ESC\\057net.prototxt"\n',
        'train_net_param { layer { name: "x" type: "HDF5Data" top: "x" hdf5_data_param { source: "OUT/secret" } } }',
        'layer { name: "x" type: "HDF5Data" top: "x" hdf5_data_param { source: "OUT/secret" batch_size: 1 } }',
        'net: "solver.prototxt" snapshot_prefix: "ESC\\057x"',
    ],
)
def test_a_refused_file_of_a_solver_is_not_opened(client, tmp_path, outside, text):
    refused(client, tmp_path, outside, {"solver_text": text})


def test_a_net_outside_the_roots_is_not_opened(client, tmp_path, outside):
    for text in ('net: "OUT/net.prototxt"', 'base_lr: 0.1 net: "OUT/net.prototxt"', "net: 'link/net.prototxt'"):
        fields = {"solver": "solver.prototxt", "solver_text": text.replace("OUT", str(outside)), "net_text": NET}
        for address in ("/new/check", "/new/start"):
            assert client.post(address, data=fields, headers=AS_JSON).status_code == 403


def test_a_net_whose_solver_is_broken_is_held_too(client, tmp_path, outside):
    """The net is checked on its own where the solver cannot be read."""
    layer = 'layer { name: "x" type: "HDF5Data" top: "x" hdf5_data_param { source: "OUT/secret" batch_size: 1 } }'
    for text in ("base_lr: {", "", "max_iter: x"):
        refused(client, tmp_path, outside, {"solver_text": text, "net_text": NET + layer})


def test_a_file_of_the_servers_own_folder_is_not_opened(client, tmp_path, outside, monkeypatch):
    """A relative path starts at the root; the server, which looks at it, starts elsewhere."""
    monkeypatch.chdir(outside)
    layer = 'layer { name: "x" type: "HDF5Data" top: "x" hdf5_data_param { source: "secret" batch_size: 1 } }'
    refused(client, tmp_path, outside, {"net_text": NET + layer})
    refused(client, tmp_path, outside, {"settings": "data.transform_param.mean_file=secret"})


ADDRESSES = (
    "/try.json?run=PATH /try/model.json?net=PATH /models/net.json?path=PATH /models/report.json?path=PATH "
    "/download?path=PATH /data/set.json?path=PATH /data/image?path=PATH&number=0 "
    "/data/image?report=PATH&number=0 /data/preview.json?net=PATH&number=0 /new/edit.json?solver=PATH "
    "/start.json?solver=PATH /start.json?solver=solver.prototxt&data=PATH "
    "/run.json?folder=PATH /run/data.json?folder=PATH /run/layers.json?folder=PATH "
    "/compare.json?folder=PATH&folder=PATH /queue/jobs/x.json?result=PATH"
).split()


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_path_of_a_request_stays_below_the_roots(client, outside, address):
    for path in (f"{outside}/net.prototxt", "link/net.prototxt", "../outside/secret", "secret.txt", "%00"):
        actual = client.get(address.replace("PATH", path), headers=AS_JSON)
        assert actual.status_code in (400, 403, 404), path
        assert SECRET not in actual.text


@pytest.mark.parametrize("page", ["/models", "/data", "/runs", "/queue"])
def test_lists_do_not_open_links_out_of_the_roots(client, tmp_path, outside, page):
    for name in ("deploy.prototxt", "list.txt", "table.csv"):
        (tmp_path / "root" / name).symlink_to(outside / "secret")
    (tmp_path / "root" / "run").mkdir()
    for name in ("run.json", "config.json", "metrics.csv", "notes.json", "job.json", "report.json", "report.html"):
        (tmp_path / "root" / "run" / name).symlink_to(outside / "secret")
    actual = client.get(page, headers=AS_JSON)
    assert actual.status_code == 200, actual.text
    assert SECRET not in actual.text


def test_jobs_of_pages_carry_the_bounds_of_the_server(client, tmp_path, outside):
    fields = {"solver": "solver.prototxt", "solver_text": SOLVER, "net_text": NET}
    client.post("/new/start", data=fields, headers=AS_JSON)
    client.post("/new/start", data={**fields, "base_lr": "0.1,0.2"}, headers=AS_JSON)
    client.post("/new/prepare", data={"name": "mine", "data": "digits"}, headers=AS_JSON)
    actual = [each.bounds() for each in job.jobs(tmp_path / "root")]
    assert actual == [Bounds((tmp_path / "root",), False)] * 4


def test_every_page_names_the_bounds_of_its_jobs():
    """Without them a job may do what its user may."""
    for path in Path(create_app.__code__.co_filename).parent.rglob("*.py"):
        text = path.read_text()
        assert len(re.findall(r"\b(?:edit\.add|submit_run)\(", text)) <= len(re.findall(r"\bbounds\b", text)), path


BOMBS = {
    "chunk.png": b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\0\0\0\0\xff\xff\xff\xf0tEXt",
    "pixels.png": b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x40\0\0\0\x40\0\x10\6\0\0\0\0\0\0\0\0\0\0\0IEND\xaeB`\x82",
    "size.jpg": b"\xff\xd8\xff\xc0\0\x11\x08\x3f\xff\x3f\xff\3\1\x22\0\2\x11\1\3\x11\1\xff\xda\0\x0c",
    "size.jp2": b"\xff\x4f\xff\x51\0\x2f\0\0\0\0\x3f\xff\0\0\x3f\xff" + bytes(24) + b"\0\3" + b"\7\1\1" * 3,
    "size.gif": b"GIF89a\xff\x3f\xff\x3f\0\0\0;",
    "size.tif": b"II*\0\x08\0\0\0\2\0\0\1\4\0\1\0\0\0\xff\x3f\0\0\1\1\4\0\1\0\0\0\xff\x3f\0\0\0\0\0\0",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_not_decoded(client, tmp_path, monkeypatch, name):
    root = tmp_path / "root"
    (root / "good.png").write_bytes(cv2.imencode(".png", np.zeros((4, 4, 3), np.uint8))[1].tobytes())
    (root / "bomb").write_bytes(BOMBS[name])
    (root / "list.txt").write_text(f"{root}/good.png 0\n{root}/bomb 1\n")
    assert client.get("/data/image", params={"path": "list.txt", "number": 0}).status_code == 200
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    actual = client.get("/data/image", params={"path": "list.txt", "number": 1}, headers=AS_JSON)
    assert actual.status_code == 400 and re.search("cut short|too large", actual.text), actual.text


def test_few_values_of_settings_are_checked(client, tmp_path, outside):
    """Each is a check of the net: a form of 5 kB would take seconds."""
    many = {"base_lr": ",".join(map(str, range(1, 1000)))}
    for fields in (many, {"settings": "a=b\n" * 5000}, {"settings": "base_lr=" + "1," * 5000}):
        refused(client, tmp_path, outside, fields)


def test_checks_leave_threads_for_other_pages(client, tmp_path, monkeypatch):
    """However many drafts are sent at a time."""
    release, fields = threading.Event(), {"solver": "solver.prototxt", "solver_text": SOLVER, "net_text": NET}
    monkeypatch.setattr(drafts, "inspect", lambda *_: release.wait(60) and drafts.Inspection([], True))
    with ThreadPoolExecutor(60) as pool:
        try:
            send = lambda _: client.post("/new/check", data=fields, headers=AS_JSON).status_code  # noqa: E731
            answers = [pool.submit(send, number) for number in range(60)]
            until = time.monotonic() + 30
            while time.monotonic() < until and sum(each.done() for each in answers) < 60 - new.MOST_WAITING:
                time.sleep(0.01)
            assert {each.result() for each in answers if each.done()} == {503}
            assert client.get("/runs", headers=AS_JSON).status_code == 200
        finally:
            release.set()
        assert sorted(each.result() for each in answers) == [200] * new.MOST_WAITING + [503] * (60 - new.MOST_WAITING)
