"""Links that a stranger planted below a root: no page reads or writes what is outside, by any name, also not where the
link takes the place of a folder while the page works."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
from small_reports import write_report
from small_runs import NET, make_root, train
from starlette.testclient import TestClient
from turns import one_first

from caffelite import roots
from caffelite.errors import CaffeliteError
from caffelite.runs import folder as files
from caffelite.runs.queue import edit
from caffelite.serve import assets, page
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig
from caffelite.serve.inference.client import InferenceLimits, Worker
from caffelite.serve.pages import queue
from caffelite.serve.runs_of import Runs
from caffelite.serve.samples import OpenSets
from caffelite.serve.stream import Looks

SECRET = "a line that nobody may read"
AS_JSON = {"Accept": "application/json"}
PNG = cv2.imencode(".png", np.arange(64, dtype=np.uint8).reshape(8, 8))[1].tobytes()
DEPLOY = """name: "small" input: "data" input_shape { dim: 1 dim: 1 dim: 8 dim: 8 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "score" type: "InnerProduct" bottom: "conv" top: "score" inner_product_param { num_output: 3 } }
deploy_param { weights: "one_iter_20.caffemodel" label: "a" label: "b" label: "c" }
"""
HDF5 = """layer { name: "h" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param { source: "h5.txt" batch_size: 1 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "data" bottom: "label" top: "loss" }"""
DRAFT = {"solver": "solver.prototxt", "solver_text": 'net: "net.prototxt" base_lr: 0.1 max_iter: 2 lr_policy: "fixed"'}
FILE = {"image": ("x.png", PNG)}

# Requests of every route, with every parameter that is a path: query, or form, or form and files.
GETS = {
    "/": [{}],
    "/runs": [{}],
    "/run": [{"folder": "one_run"}],
    "/run/data.json": [{"folder": "one_run"}],
    "/run/losses": [{"folder": "one_run"}],
    "/run/file": [{"folder": "one_run", "name": "log.txt"}, {"folder": "one_run", "name": "one_iter_20.caffemodel"}],
    "/run/net.svg": [{"folder": "one_run"}],
    "/run/layers.json": [{"folder": "one_run"}],
    "/run/layer.json": [{"folder": "one_run", "layer": "conv"}],
    "/run/samples.json": [{"folder": "one_run"}],
    "/run/sample.png": [{"folder": "one_run", "number": "0"}],
    "/run/filters.png": [{"folder": "one_run", "layer": "conv"}],
    "/run/histogram.png": [{"folder": "one_run", "layer": "conv"}],
    "/sweep": [{"folder": "."}],
    "/compare": [{"folder": ["one_run", "two_run"]}],
    "/start": [{}, {"solver": "solver.prototxt", "data": "folders", "job": "JOB"}],
    "/new": [{}],
    "/new/edit": [{"solver": "solver.prototxt"}, {"solver": "solver.prototxt", "job": "JOB"}],
    "/queue": [{}],
    "/queue/jobs/{id}": [{"result": "report"}],
    "/data": [{}],
    "/data/set": [{"path": each} for each in ("db", "folders", "list.txt", "table.csv")],
    "/data/samples": [{"path": "db"}],
    "/data/preview": [{"net": "net.prototxt", "number": "0"}],
    "/data/image": [{"path": "list.txt", "number": "0"}, {"report": "report", "number": "0"}],
    "/models": [{}],
    "/models/net": [{"path": "deploy.prototxt"}],
    "/models/report": [{"path": "report"}, {"path": "classes", "run": "one_run"}, {"path": "absent", "job": "JOB"}],
    "/download": [{"path": "deploy.prototxt"}, {"path": "bare/x.caffemodel"}],
    "/try": [{}, {"run": "one_run"}, {"net": "deploy.prototxt"}],
    "/try/model": [{"net": "deploy.prototxt"}],
}
POSTS = {
    "/run/retrain": [{"folder": "one_run"}],
    "/run/control": [{"folder": "one_run", "action": "resume"}],
    "/run/notes": [{"folder": "one_run", "note": "x"}],
    "/run/clone": [{"folder": "one_run"}],
    "/new/prepare": [
        {"name": "mine", "data": "images", "source": "folders", "net": "pasted", "net_text": NET},
        {"name": "mine", "data": "database", "source": "db", "net": "run:one_run"},
        {"name": "mine", "data": "digits", "test": "db"},
    ],
    "/new/skip": [{"solver": "mine/solver.prototxt", "job": "FAILED"}],
    "/start/prepare": [{"data": "images", "source": "folders"}, {"data": "digits"}],
    "/start/train": [{"solver": "solver.prototxt"}],
    "/new/check": [{**DRAFT, "net_text": HDF5}],
    "/new/start": [{**DRAFT, "net_text": HDF5}, {**DRAFT, "net_text": HDF5, "base_lr": "0.1,0.2"}],
    "/queue/move": [{"job": "JOB"}],
    "/queue/priority": [{"job": "JOB", "priority": "2"}],
    "/queue/cancel": [{"job": "JOB"}],
    "/queue/remove": [{"job": "ENDED"}],
    "/data/upload": [({"name": "new", "label": "a"}, {"images": ("x.png", PNG)})],
    "/data/correct": [{"report": "classes", "sample": "0", "label": "1"}],
    "/data/audit": [{"path": "db", "other": "folders"}],
    "/models/test": [{"path": "deploy.prototxt", "train_net": "net.prototxt"}, {"run": "one_run"}],
    "/models/deploy": [{"path": "bare/train_val.prototxt"}],
    "/models/export": [{"path": "deploy.prototxt"}],
    "/try/classify": [({"net": "deploy.prototxt", "hierarchy": "hierarchy.txt"}, FILE)],
    "/try/layers": [({"net": "deploy.prototxt"}, FILE)],
    "/try/saliency": [({"net": "deploy.prototxt"}, FILE)],
    "/try/many": [
        ({"net": "deploy.prototxt"}, {"images": ("x.png", PNG)}),
        {"net": "deploy.prototxt", "folder": "folders"},
    ],
    "/try/correct": [({"net": "deploy.prototxt", "class": "1"}, FILE)],
    "/try/deploy": [{"run": "one_run"}],
    "/try/shipped": [{"name": "lenet_mnist"}],
    "/try/fetch": [{"address": "http://127.0.0.1/"}],
}
ENDLESS = {"/run/stream"}
# What one test of each kind of page needs; the others are of the second tier.
FIRST_TIER = {("GET", "/run", 0), ("GET", "/data/set", 0), ("POST", "/try/correct", 0), ("POST", "/models/test", 0)}
CASES = [("GET", path, i) for path, each in GETS.items() for i in range(len(each))]
CASES += [("POST", path, i) for path, each in POSTS.items() for i in range(len(each))]

_opened: list[str] = []
_watched: list[str] = []
EVENTS = {"open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


def _record(event, arguments):
    if _watched and event in EVENTS:
        for path in arguments[:2]:
            if isinstance(path, str | os.PathLike) and os.path.isabs(path):
                head, name = os.path.split(path)
                # Of a link, not of what it leads to.
                itself = event not in ("open", "os.listdir", "os.scandir", "os.truncate")
                itself = itself or (event == "open" and bool((arguments[2] or 0) & os.O_NOFOLLOW))
                real = os.path.join(os.path.realpath(head), name) if itself else os.path.realpath(path)
                _opened.extend([real] * real.startswith(_watched[0]))


sys.addaudithook(_record)


class Inference:
    """Answers in place of the process of a model, whose files the page has looked at."""

    def worker(self, model, named):
        return self

    def open(self):
        return {"labels": ["a", "b", "c"], "detects": False, "segments": False, "reads": False}

    def request(self, content, image):
        if content["op"] == "layers":
            return {"layers": [{"name": "conv"}]}, [PNG]
        return {"answers": []}, [PNG]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The root as it is before each request, and a copy of it."""
    root = tmp_path_factory.mktemp("planted") / "root"
    root.mkdir()
    make_root(root)
    for name in ("one", "two"):
        train(root, name, "max_iter=20")
    (root / "db_labels.txt").write_text("a\nb\nc\n")
    for name in ("a", "b"):
        (root / "folders" / name).mkdir(parents=True)
        (root / "folders" / name / "x.png").write_bytes(PNG)
    (root / "list.txt").write_text(f"{root}/folders/a/x.png 0\n{root}/folders/b/x.png 1\n")
    (root / "table.csv").write_text(f"file,age\n{root}/folders/a/x.png,3\n")
    (root / "labels.txt").write_text("a\nb\nc\n")
    (root / "hierarchy.txt").write_text("all\n  a\n  b\n")
    (root / "solver.prototxt").write_text(DRAFT["solver_text"])
    (root / "deploy.prototxt").write_text(DEPLOY)
    (root / "bare").mkdir()
    shutil.copy(root / "net.prototxt", root / "bare/train_val.prototxt")
    shutil.copy(root / "one_iter_20.caffemodel", root / "bare/x.caffemodel")
    with h5py.File(root / "x.h5", "w") as file:
        file["data"], file["label"] = np.zeros((3, 4), "f4"), np.zeros(3, "f4")
    (root / "h5.txt").write_text("x.h5\n")
    (root / "report").mkdir()
    (root / "report/report.html").write_text("")
    layer = f'name: "data" top: "data" type: "Data" data_param {{ source: "{root}/db" backend: LMDB batch_size: 1 }}'
    (root / "report/report.json").write_text(json.dumps({"name": "n", "data_layer": layer}))
    (root / "sweep.json").write_text("{}")
    write_report(root / "classes", root / "list.txt")
    (root / "audits").mkdir()
    (root / "audits/x.json").write_text(f'{{"sets": [{{"path": "{root}/db", "shapes": []}}]}}')
    (root / "one_run" / files.NOTES).write_text('{"tags": [], "note": "x"}')
    record = root / "one_run" / files.RUN
    record.write_text(record.read_text().replace('"kind": "finished"', '"kind": "stopped early"'))
    edit.cancel(root, edit.add(root, ["models"]).id)
    edit.cancel(root, edit.add(root, ["new", "mine", "folders"]).id)
    edit.add(root, ["models"])
    shutil.copytree(root, root.parent / "copy", symlinks=True)
    return root


@pytest.fixture
def site(original):
    """The root, restored, beside an empty folder ``outside``."""
    return restored(original)


def restored(root):
    for name in ("root", "outside"):
        shutil.rmtree(root.parent / name, ignore_errors=True)
    shutil.copytree(root.parent / "copy", root, symlinks=True)
    (root.parent / "outside").mkdir()
    queue._scanner.cache_clear()
    return root


def send(root, method, path, number):
    """The answer to a request of the tables."""
    entry = (GETS if method == "GET" else POSTS)[path][number]
    return sent(root, method, path, *(entry if isinstance(entry, tuple) else (entry, None)))


def sent(root, method, path, fields, uploads=None):
    """The answer to a request; of a server without its services."""
    config = ServeConfig(roots=(root,))
    app = create_app(config)
    with OpenSets() as sets:
        app.state.data_sets, app.state.runs, app.state.models = sets, Runs(config), Inference()
        app.state.streams = Looks(config, app.state.runs)
        client = TestClient(app, base_url=f"http://127.0.0.1:{config.port}", raise_server_exceptions=False)
        ids = sorted(each.name for each in (root.parent / "copy/jobs").iterdir() if each.is_dir())
        jobs = root.parent / "copy/jobs"
        ids.sort(key=lambda id: ((jobs / id / files.PROCESS).exists(), '"new"' in (jobs / id / files.JOB).read_text()))
        of_job = dict(zip(("JOB", "ENDED", "FAILED"), ids, strict=True))
        fields = {name: of_job.get(text, text) if isinstance(text, str) else text for name, text in fields.items()}
        path = path.replace("{id}", of_job["JOB"])
        if method == "GET":
            return client.get(path, params=fields, headers=AS_JSON)
        return client.post(path, data=fields, files=uploads, headers=AS_JSON, follow_redirects=False)


def test_every_route_is_in_the_tables():
    app = create_app(ServeConfig(roots=(Path("/"),)))
    known = {f"{path}.json" for path in GETS} | GETS.keys() | POSTS.keys() | ENDLESS
    assert {route.path for route in app.routes} - known == {route.path for route in assets.ROUTES}


def names_of(monkeypatch, root, *case):
    """The names below the root that a request opens, creates or looks into, and the folders above them."""
    named: set[str] = set()

    def noting(function):
        def noted(self, path, *arguments, **options):
            named.add(
                os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), root)
            )
            return function(self, path, *arguments, **options)

        return noted

    _opened[:], _watched[:] = [], [str(root)]
    with monkeypatch.context() as patched:
        patched.setattr(roots.Confinement, "located", noting(roots.Confinement.located))
        answer = send(root, *case)
    _watched.clear()
    named |= {os.path.relpath(path, root) for path in _opened}
    assert answer.status_code < 400 or case[1] == "/try/fetch", answer.text
    above = {str(parent) for name in named for parent in Path(name).parents}
    return sorted(name for name in named | above if not name.startswith("..") and name != ".")


def tree(folder):
    return {each: each.read_bytes() if each.is_file() else b"" for each in sorted(folder.rglob("*"))}


def plant(site, name, as_it_is):
    """Replaces a name by a link to what it has, outside; or, where there is nothing by the name, to a folder
    (``as_it_is``) or to nothing. Returns whether there was anything to do."""
    planted, target = site / name, site.parent / "outside/target"
    there = os.path.lexists(planted)
    if there and not as_it_is:
        return False
    planted.parent.mkdir(parents=True, exist_ok=True)
    if there:
        shutil.move(planted, target)
    elif as_it_is:
        target.mkdir()
    if target.suffix == planted.suffix == ".txt" or planted.suffix == ".txt" and there:
        target.write_text(target.read_text() + SECRET)
    planted.symlink_to(target)
    return True


@pytest.mark.parametrize(
    "method, path, number", [pytest.param(*c, marks=() if c in FIRST_TIER else pytest.mark.slow) for c in CASES]
)
def test_no_name_leads_out_of_the_roots(site, monkeypatch, method, path, number):
    case, outside = (method, path, number), site.parent / "outside"
    for name in names_of(monkeypatch, site, *case):
        for as_it_is in (True, False):
            restored(site)
            if not plant(site, name, as_it_is):
                continue
            before = tree(outside)
            _opened[:], _watched[:] = [], [str(outside)]
            answer = send(site, *case)
            _watched.clear()
            assert not _opened, (name, _opened)
            assert answer.status_code < 500, (name, answer.text)
            assert SECRET not in answer.text, name
            assert tree(outside) == before, name


def test_a_worker_opens_no_model_outside_the_roots(site):
    """The process of a model is confined to the roots, too."""
    worker = Worker(site / "deploy.prototxt", InferenceLimits(), roots=(site,))
    shutil.move(site / "one_iter_20.caffemodel", site.parent / "outside/x")
    (site / "one_iter_20.caffemodel").symlink_to(site.parent / "outside/x")
    with pytest.raises(CaffeliteError, match="not below a root"):
        worker.open()
    worker.close()


@pytest.mark.parametrize("name", ["db/data.mdb", "db_labels.txt", "list.txt", "folders/a"])
def test_a_data_set_with_a_link_is_refused(site, name):
    plant(site, name, True)
    path = "folders" if name.startswith("folders") else name if name == "list.txt" else "db"
    case = next(i for i, each in enumerate(GETS["/data/set"]) if each["path"] == path)
    assert send(site, "GET", "/data/set", case).status_code == 403


def test_a_snapshot_prefix_outside_names_no_files(site):
    outside = site.parent / "outside"
    for suffix in ("solverstate", "caffemodel"):
        shutil.copy(site / f"one_iter_20.{suffix}", outside / f"one_iter_20.{suffix}")
    solver = site / "one_run" / files.SOLVER
    solver.write_text(re.sub('snapshot_prefix: ".*"', f'snapshot_prefix: "{outside}/one"', solver.read_text()))
    before, _opened[:], _watched[:] = tree(outside), [], [str(outside)]
    answers = {
        path: send(site, "GET", path, i) for path in GETS if path.startswith("/run") for i in range(len(GETS[path]))
    }
    answers["/try/deploy"] = send(site, "POST", "/try/deploy", 0)
    _watched.clear()
    assert not _opened and tree(outside) == before
    assert answers["/run"].json()["snapshots"] == [] and answers["/run/layer.json"].json()["snapshot"] is None
    assert answers["/run/file"].status_code == 403 and answers["/try/deploy"].status_code == 403


@pytest.mark.parametrize("kind", one_first(["link", "values"]))
def test_a_draft_reads_no_hdf5_of_another_file(site, kind):
    outside = site.parent / "outside"
    with h5py.File(outside / "x.h5", "w") as file:
        file["data"] = np.zeros((3, 4), "f4")
    with h5py.File(site / "x.h5", "a") as file:
        del file["data"]
        if kind == "link":
            file["data"] = h5py.ExternalLink(str(outside / "x.h5"), "/data")
        else:
            file.create_dataset("data", (3, 4), "f4", external=[(str(outside / "x.h5"), 0, 48)])
    [finding] = send(site, "POST", "/new/check", 0).json()["findings"]
    assert finding["kind"] == "mistake" and "refused below the roots" in finding["message"]


@pytest.mark.parametrize(
    "path, number, name", [("/download", 0, "deploy.prototxt"), ("/run/file", 0, "one_run/log.txt")]
)
def test_a_download_is_of_the_file_that_was_checked(site, monkeypatch, path, number, name):
    """A link takes its place before it is sent."""
    content, send_file = (site / name).read_bytes(), page._OpenFile.__call__

    async def exchanging(self, *arguments):
        (site / name).unlink()
        (site.parent / "outside/secret").write_text(SECRET * 100)
        (site / name).symlink_to(site.parent / "outside/secret")
        await send_file(self, *arguments)

    monkeypatch.setattr(page._OpenFile, "__call__", exchanging)
    assert send(site, "GET", path, number).content == content


PATHS = {
    "folder",
    "path",
    "net",
    "other",
    "run",
    "solver",
    "source",
    "test",
    "result",
    "audit",
    "hierarchy",
    "train_net",
}
PATHS |= {"report"}
MORE = [
    *[("GET", "/data/set", {"path": "db", "audit": "audits/x.json"}), ("GET", "/try", {"net": "deploy.prototxt"})],
    *[("GET", "/new/edit", {"solver": "one.prototxt"}), ("GET", "/queue/jobs/{id}", {"result": "one_run/log.txt"})],
]


def path_fields():
    """Every field of a request that is a path: the request, and the field."""
    for method, table in (("GET", GETS), ("POST", POSTS)):
        for path, entries in table.items():
            for entry in entries:
                for name in (entry[0] if isinstance(entry, tuple) else entry).keys() & PATHS:
                    yield method, path, entry, name
    for method, path, entry in MORE:
        for name in entry.keys() & PATHS:
            yield method, path, entry, name


@pytest.mark.slow
def test_a_path_of_any_field_stays_below_the_roots(site):
    outside = site.parent / "outside"
    shutil.copytree(site.parent / "copy", outside / "target", symlinks=True)
    (site / "link").symlink_to(outside / "target")
    before, count = tree(outside), 0
    for method, path, entry, name in path_fields():
        fields, uploads = entry if isinstance(entry, tuple) else (entry, None)
        values = fields[name] if isinstance(fields[name], list) else [fields[name]]
        if values == ["pasted"]:
            continue
        for start in (f"{outside}/target/", "link/", "../outside/target/", "folders/../../outside/target/"):
            kind = "run:" if values[0].startswith("run:") else ""
            there = [kind + start + value.removeprefix("run:") for value in values]
            changed = {**fields, name: there if len(there) > 1 else there[0]}
            _opened[:], _watched[:] = [], [str(outside)]
            answer = sent(site, method, path, changed, uploads)
            _watched.clear()
            assert answer.status_code == 403, (path, changed, answer.status_code, answer.text)
            assert not _opened, (path, changed)
            count += 1
    assert count > 150 and tree(outside) == before
