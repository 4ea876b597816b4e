"""The pages runs, run and compare: their JSON, their files, and what they refuse."""

import asyncio
import html
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_runs import make_root, train, write_solver
from starlette.testclient import TestClient

from caffelite.runs import launch, live
from caffelite.runs.config import RunConfig
from caffelite.runs.listing import INDEX, Index
from caffelite.serve import stream
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig
from caffelite.serve.pages.compare import class_name
from caffelite.serve.runs_of import service

NAUGHTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with two finished runs."""
    folder = tmp_path_factory.mktemp("root")
    make_root(folder)
    train(folder, "first")
    train(folder, "second", "base_lr=0.02")
    return folder


@pytest.fixture(scope="module")
def client(root):
    with TestClient(create_app(ServeConfig((root,), cpu_slots=0)), base_url="http://127.0.0.1:5000") as actual:
        yield actual


def test_every_column_can_be_sorted(client):
    """Also one that is empty in all runs, as tags often are."""
    links = re.findall(r'href="(/runs\?sort=[^"]+)"', client.get("/runs").text)
    assert len(links) > 5 and any("tags" in link for link in links)
    assert {link: client.get(html.unescape(link)).status_code for link in links} == dict.fromkeys(links, 200)


def test_runs_are_filtered_and_sorted(client):
    def names(query):
        return [run["name"] for run in client.get(f"/runs.json?{query}").json()["runs"]]

    assert names("sort=name&reverse=0") == ["first_run", "second_run"]
    assert names("sort=name&reverse=1") == ["second_run", "first_run"]
    assert names("text=SECOND") == ["second_run"]
    assert names("where=base_lr%3D0.02") == ["second_run"]
    assert names("state=running") == []
    assert client.get("/runs.json?state=flying").status_code == 400
    assert client.get("/runs?group=net&columns=note&columns=seconds").status_code == 200


def test_a_run_has_everything_in_json(client):
    actual = client.get("/run.json?folder=first_run").json()
    assert (actual["run"]["state"], actual["run"]["iteration"], actual["run"]["net"]) == ("finished", 60, "small")
    assert set(actual["run"]["scores"]) == {"loss", "accuracy"} == set(actual["run"]["best"])
    assert [each["iteration"] for each in actual["snapshots"]] == [60, 40, 20]
    assert "Optimization Done" in actual["log"] and actual["state"]["actions"] == []
    assert actual["state"]["last_rate"] == {"iteration": 59, "rate": 0.005}
    assert actual["commands"]["pause"].startswith("caffelite control pause /")


def test_chart_data_equals_the_records(client, root):
    data = client.get("/run/data.json?folder=first_run").json()
    records = (root / "first_run/losses.f32").read_bytes()
    assert client.get(f"/run/losses?folder=first_run&count={data['losses']}").content == records
    assert client.get("/run/losses?folder=first_run&first=58").content == records[4 * 58 :]
    lines = (root / "first_run/metrics.csv").read_text().splitlines()
    assert len(data["rows"]) == len(lines) - 1
    assert data["epoch"] == {"samples": 40, "batch": 8, "fields": {}}
    assert {row["phase"] for row in data["rows"]} == {"train", "test"}


def test_net_and_layers(client):
    train_net = client.get("/run/net.svg?folder=first_run").text
    assert 'data-layer="conv"' in train_net and 'data-layer="accuracy"' not in train_net
    assert 'data-layer="accuracy"' in client.get("/run/net.svg?folder=first_run&phase=TEST").text
    layer = client.get("/run/layer.json?folder=first_run&layer=conv").json()
    assert layer["tops"] == [{"name": "conv", "shape": [8, 4, 6, 6]}]
    assert layer["parameters"][0]["shape"] == [4, 1, 3, 3] and layer["pictures"]["filters"]
    assert client.get("/run/layer.json?folder=first_run&layer=konv").json()["error"].endswith('did you mean "conv"?')
    rows = client.get("/run/layers.json?folder=first_run").json()["rows"]
    assert [row["name"] for row in rows][1:] == ["conv", "score", "loss"]
    for kind in ("filters", "histogram"):
        assert client.get(f"/run/{kind}.png?folder=first_run&layer=conv").content.startswith(b"\x89PNG")


def test_files_are_downloaded_by_name(client, root):
    model = client.get("/run/file?folder=first_run&name=first_iter_60.caffemodel")
    assert model.content == (root / "first_iter_60.caffemodel").read_bytes()
    assert "attachment" in model.headers["content-disposition"]
    for name in ("../db/data.mdb", "second_iter_60.caffemodel", "lock", ""):
        assert client.get(f"/run/file?folder=first_run&name={name}").status_code == 404


def test_snapshots_outside_the_roots_are_refused(client, root, tmp_path):
    shutil.copytree(root / "first_run", root / "moved_run")
    secret = tmp_path / "x_iter_1.solverstate"
    secret.write_bytes(b"secret")
    solver = root / "moved_run/solver.prototxt"
    solver.write_text(solver.read_text().replace(str(root / "first"), str(tmp_path / "x")))
    assert client.get(f"/run/file?folder=moved_run&name={secret.name}").status_code == 403
    shutil.rmtree(root / "moved_run")


def test_compare_shows_what_differs(client):
    actual = client.get("/compare.json?folder=first_run&folder=second_run").json()
    assert actual["fields"] == [{"field": "base_lr", "values": ["0.01", "0.02"]}]
    text = client.get("/compare?folder=first_run&folder=second_run").text
    assert 0 < text.index("accuracy, last") < text.index('class="mono">base_lr'), "the scores come first"
    assert client.get("/compare.json?folder=first_run").status_code == 400


@pytest.mark.parametrize(
    ("labels", "name"),
    [([["a", "b"], []], "right[b]"), ([["a", "b"], ["b", "a"]], "right[1]"), ([["a"]], "right[1]"), ([], "right[1]")],
)
def test_a_comparison_names_classes_that_all_runs_share(labels, name):
    assert class_name("right[1]", labels) == name and class_name("right", labels) == "right"


def test_samples_may_be_spread_over_the_data(client):
    def numbers(**query):
        answer = client.get("/run/samples.json", params={"folder": "first_run"} | query).json()
        return [sample["number"] for sample in answer["samples"]]

    assert numbers(count=4, spread=1) == [0, 13, 26, 39] and numbers(count=3, start=5) == [5, 6, 7]
    assert numbers(count=0, spread=1) == []


def test_notes_are_kept_and_escaped(client, root):
    result = client.post("/run/notes.json", data={"folder": "first_run", "tags": f"base, {NAUGHTY}", "note": NAUGHTY})
    assert result.status_code == 404  # forms have no .json address
    form = {"folder": "first_run", "tags": f"base, {NAUGHTY}", "note": NAUGHTY}
    result = client.post("/run/notes", data=form, headers={"Accept": "application/json"})
    assert result.json() == {"tags": sorted(["base", NAUGHTY]), "note": NAUGHTY}
    assert json.loads((root / "first_run/notes.json").read_text())["note"] == NAUGHTY
    for page in ("/runs?columns=note&columns=tags", "/run?folder=first_run"):
        text = client.get(page).text
        assert NAUGHTY not in text and "&lt;img src=x" in text
    assert [run["name"] for run in client.get("/runs.json?tag=base").json()["runs"]] == ["first_run"]
    (root / "first_run/notes.json").unlink()


def test_a_clone_is_a_new_solver(client, root):
    result = client.post("/run/clone", data={"folder": "first_run"}, headers={"Accept": "application/json"})
    assert result.json() == {"solver": "first_copy/solver.prototxt"}
    copy = train(root, "third", f"net={root}/first_copy/net.prototxt", "base_lr=0.01")
    assert (copy / "losses.f32").read_bytes() == (root / "first_run/losses.f32").read_bytes()
    assert str(root / "first_copy/first_copy") in (root / "first_copy/solver.prototxt").read_text()
    for name in ("first_copy", "third_run"):
        shutil.rmtree(root / name)


EPOCHS = "max_epoch: 3.0 test_epoch: 0.5 snapshot_epoch: 1.0 step_epoch: 0.7 step_epoch: 2.0"
ITERATIONS = "test_interval: 20 max_iter: 60 snapshot: 20 stepsize: 30"


@pytest.mark.parametrize(("shown", "records"), [(EPOCHS, True), ("max_iter: 15", False)])
def test_a_clone_has_the_epochs_and_relative_paths_of_its_run(client, root, monkeypatch, shown, records):
    monkeypatch.chdir(root)
    text = write_solver(root, "epochs").read_text().replace(f"{root}/", "").replace('"step"', '"multistep"')
    for iterations in ITERATIONS.replace(": ", ":").split():
        text = text.replace(iterations.replace(":", ": "), "")
    (root / "epochs.prototxt").write_text(text + EPOCHS)
    (root / "net.prototxt").write_text((net := (root / "net.prototxt").read_text()).replace(f"{root}/", ""))
    try:
        launch.train(RunConfig("epochs.prototxt"))
        if not records:  # of a run before its epochs were recorded, or of a foreign one
            run = json.loads((root / "epochs_run/run.json").read_text())
            run["epoch"]["fields"] = {"max_epoch": "three"}
            (root / "epochs_run/run.json").write_text(json.dumps(run))
        result = client.post("/run/clone", data={"folder": "epochs_run"}, headers={"Accept": "application/json"})
        solver = (root / result.json()["solver"]).read_text()
        for field in shown.replace(": ", ":").split():
            assert f"\n{field.replace(':', ': ')}\n" in f"\n{solver}"
        assert str(root) not in solver + (root / "epochs_copy/net.prototxt").read_text()
        assert 'net: "epochs_copy/net.prototxt"' in solver and "epochs_copy/epochs_copy" in solver
        checked = client.get("/new/edit.json", params={"solver": result.json()["solver"]}).json()
        assert checked["net"] == "epochs_copy/net.prototxt", "the editor finds the net"
    finally:
        (root / "net.prototxt").write_text(net)
        for folder in root.glob("epochs*"):
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()


def test_nets_with_python_layers_are_not_built(client, root):
    folder = shutil.copytree(root / "first_run", root / "python_run")
    (root / "evil_module.py").write_text("raise SystemExit('imported')")
    solver = folder / "solver.prototxt"
    python = 'name: "p" type: "Python" top: "p" python_param { module: "evil_module" layer: "L" }'
    solver.write_text(solver.read_text().replace("_param {\n  name", f"_param {{ layer {{ {python} }}\n  name"))
    actual = client.get("/run/net.svg?folder=python_run", headers={"Accept": "application/json"})
    assert actual.status_code == 400 and "no Python layers" in actual.json()["error"]
    form = {"folder": "python_run", "action": "resume"}
    assert client.post("/run/control", data=form).status_code == 400
    shutil.rmtree(folder)


def test_actions_need_a_state_that_takes_them(client):
    for action, text in (("pause", "does not run"), ("resume", "cannot be resumed"), ("fly", "unknown action")):
        result = client.post("/run/control", json={"folder": "first_run", "action": action})
        assert result.status_code == 400 and text in result.text


@pytest.mark.parametrize("folder", ["..", "/etc", "db", "link", "\0", ""])
def test_folders_that_are_no_runs(client, root, folder):
    if not (root / "link").exists():
        os.symlink(root.parent, root / "link")
    for page in ("run", "run.json", "run/data.json", "run/net.svg", "run/losses", "run/stream"):
        assert client.get(f"/{page}", params={"folder": folder}).status_code in (403, 404)


def test_the_index_may_be_deleted(root):
    """Its content makes no difference, a damaged one neither."""
    first = Index([root], 3, root / INDEX)
    expected = [run.to_json() for run in first.runs()]
    first.save()
    assert (root / INDEX).exists()
    again = Index([root], 3, root / INDEX)
    assert [run.to_json() for run in again.runs()] == expected
    for body in ("{", '{"format": 1, "entries": {"x": [1, {}], "y": 1}}', '{"format": 1, "entries": 5}'):
        (root / INDEX).write_text(body)
        assert [run.to_json() for run in Index([root], 3, root / INDEX).runs()] == expected
    (root / INDEX).unlink()
    assert [run.to_json() for run in Index([root], 3, None).runs()] == expected


def test_live_records_continue_from_a_position(root, tmp_path):
    folder = shutil.copytree(root / "first_run", tmp_path / "run")
    whole = live.read(folder)
    assert live.Position.parse(str(whole.position)) == whole.position and len(whole.losses) == 60
    assert not live.read(folder, whole.position)
    with open(folder / "losses.f32", "ab") as file:
        file.write(np.array([1.5, np.nan], "<f4").tobytes() + b"\1\2")
    with open(folder / "metrics.csv", "a") as file:
        file.write("60,1.0,train,0.1,2.5,0.5,0.5\n61,2.0,tra")
    more = live.read(folder, whole.position)
    assert (more.first, more.losses[0], [row["iteration"] for row in more.rows]) == (60, 1.5, [60])
    os.truncate(folder / "losses.f32", 40)
    assert live.read(folder, more.position).reset
    assert live.Position.parse("1-2") is None and live.Position.parse("x") is None


def test_streams_at_one_position_share_a_look(root, monkeypatch):
    """Two streams of two runs: their events, ids, and how often the records are read."""
    config = ServeConfig((root,), cpu_slots=0)
    folders = [root / "first_run", root / "second_run"]
    reads, live_read = [], live.read
    monkeypatch.setattr(live, "read", lambda *given: reads.append(given) or live_read(*given))

    async def take(looks, count):
        events = stream._events(dict.fromkeys(folders), looks)
        return [await anext(events) for _ in range(count)]

    async def both():
        with service(config) as runs:
            looks = stream.Looks(config, runs)
            return await asyncio.gather(take(looks, 5), take(looks, 5))

    with ThreadPoolExecutor(1) as threads:  # this thread may have a loop: that of the browser
        one, other = threads.submit(asyncio.run, both()).result()
    assert one == other and len(reads) == 2
    assert one[0] == "retry: 1000\n\n"
    ids, kind, data = one[1].strip().split("\n")
    position = str(live_read(folders[0]).position)
    assert (ids, kind) == (f"id: {position},", "event: records")
    actual = json.loads(data.removeprefix("data: "))
    assert actual["folder"] == "first_run" and len(actual["losses"]) == 60
    assert one[3].startswith(f"id: {position},{live_read(folders[1]).position}\n")
    assert json.loads(one[4].partition("data: ")[2])["label"] == "finished"
