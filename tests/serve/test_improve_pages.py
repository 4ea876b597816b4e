"""From a finished run to a better one: its test, corrected labels, training on; and the page of a sweep."""

import json
import os
from pathlib import Path

import pytest
from small_reports import make_tested_run
from small_runs import make_root, train

from caffelite import prototxt
from caffelite.errors import CaffeliteError
from caffelite.runs.queue import job
from caffelite.scaffold.project import new_project

AS_JSON = {"Accept": "application/json"}
RUN = "first_run"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the server and its jobs run
    make_tested_run(tmp_path)
    return tmp_path


@pytest.fixture
def client(root, make_client):
    return make_client(cpu_slots=0, gpus="none")


def correct(client, sample, label):
    fields = {"report": "report", "sample": str(sample), "label": label}
    return client.post("/data/correct", data=fields, headers=AS_JSON)


def test_a_label_is_corrected_in_a_list_beside_the_data(client, root):
    before = {path: path.read_bytes() for path in root.glob("pets/*/*")}
    assert correct(client, 0, "1").json() == {
        "list": "pets_corrections.csv",
        "file": "a/0.png",
        "label": "b",
        "count": 1,
    }
    assert correct(client, 1, "leave").json()["count"] == 2
    assert (root / "pets_corrections.csv").read_text() == "file,label\na/0.png,b\nb/1.png,\n"
    shown = client.get("/models/report.json", params={"path": "report"}).json()
    assert shown["corrections"] == {"0": "b"}
    page = client.get("/models/report", params={"path": "report", "run": RUN}).text
    assert '<option value="1" selected>b</option>' in page and "Train on from the best weights" in page
    assert "More images of a: 33%" in page
    assert correct(client, 0, "keep").json()["count"] == 1
    assert {path: path.read_bytes() for path in root.glob("pets/*/*")} == before
    assert "pets_corrections.csv" not in client.get("/data.json").text


@pytest.mark.parametrize(("sample", "label"), [(0, "2"), (0, "x"), (99, "1"), ("x", "1")])
def test_a_bad_correction_is_refused(client, root, sample, label):
    assert correct(client, sample, label).status_code == 400
    assert not (root / "pets_corrections.csv").exists()


def test_a_run_trains_on_with_corrected_labels(client, root):
    correct(client, 0, "1")
    correct(client, 2, "leave")
    added = client.post("/run/retrain", data={"folder": RUN}, headers=AS_JSON).json()["job"]
    [one] = job.jobs(root)
    assert one.is_run and added["id"] == one.id
    solver = prototxt.read_solver(one.folder.parent / "solver.prototxt").message
    assert solver.base_lr == pytest.approx(0.001) and list(solver.weights) == [f"{root}/first_best.caffemodel"]
    net = prototxt.read_net(one.folder.parent / "net.prototxt").message
    lines = Path(net.layer[0].image_data_param.source).read_text().splitlines()
    assert lines[0] == f"{root}/pets/a/0.png 1" and len(lines) == 7
    assert not any("a/2.png" in line for line in lines)


def test_a_run_that_trains_on_has_a_net_for_pictures(client, root):
    deploy = (
        'input: "data" input_shape { dim: [1, 3, 8, 8] } deploy_param { weights: "first_best.caffemodel" label: "a" }'
    )
    (root / "deploy.prototxt").write_text(deploy)
    client.post("/run/retrain", data={"folder": RUN}, headers=AS_JSON)
    [one] = job.jobs(root)
    actual = prototxt.read_net(one.folder.parent / "deploy.prototxt").message.deploy_param
    assert (actual.weights, list(actual.label)) == ("first_copy_best.caffemodel", ["a"])


def test_a_new_project_applies_corrections(client, root):
    correct(client, 0, "1")
    correct(client, 2, "leave")
    project = new_project("model", "pets", net="lenet", test=0.5)
    assert any(text.startswith("Corrections: 1 ") for text in project.decisions)
    lines = [line for name in ("train.txt", "test.txt") for line in (root / "model" / name).read_text().splitlines()]
    assert "pets/a/0.png 1" in lines and len(lines) == 7


def test_a_finished_run_offers_its_weights_and_its_test(client, root):
    page = client.get("/run", params={"folder": RUN}).text
    assert 'action="/models/test"' in page and "first_best.caffemodel" in page
    result = client.get("/run.json", params={"folder": RUN}).json()["result"]
    assert result == {"weights": "first_best.caffemodel", "deploy": "", "onnx": "", "report": "report"}
    os.utime(root / "report/report.json", (1, 1))
    assert client.get("/run.json", params={"folder": RUN}).json()["result"]["report"] == "", "of older weights"
    client.post("/models/test", data={"run": RUN}, headers=AS_JSON)
    [one] = job.jobs(root)
    words = dict(zip(one.command[1::2], one.command[2::2], strict=False))
    assert (
        words["--model"] == f"{root}/first_run/net.prototxt" and words["--weights"] == f"{root}/first_best.caffemodel"
    )


def test_a_sweep_shows_all_trials_with_the_fields_that_differ(make_client, tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    make_root(folder)
    for name, rate in (("0001", 0.01), ("0002", 0.001), ("0003", 0.02)):
        train(folder, name, f"base_lr={rate}", "max_iter=20")
    (folder / "sweep.json").write_text("{}")
    client = make_client(cpu_slots=0, gpus="none")
    actual = client.get("/sweep.json", params={"folder": "sweep"}).json()
    assert actual["fields"] == ["base_lr"] and actual["score"] == "accuracy" and len(actual["trials"]) == 3
    assert {"base_lr=0.01", "base_lr=0.001", "base_lr=0.02"} == set(actual["labels"])
    assert 'data-trial="2"' in client.get("/sweep", params={"folder": "sweep"}).text
    assert 'href="/sweep?folder=sweep"' in client.get("/runs").text
    assert 'href="/sweep?folder=sweep"' in client.get("/run", params={"folder": "sweep/0001_run"}).text
    compared = client.get("/compare", params={"folder": ["sweep/0001_run", "sweep/0002_run"]}).text
    assert '"name": "base_lr=0.01"' in compared and '"name": "base_lr=0.001"' in compared
    assert client.get("/sweep", params={"folder": "."}).status_code == 404


def test_a_failed_trial_stays_visible_with_its_reason(make_client, tmp_path):
    """One whose loss is no number after a test that had a score, one that failed before it began, and one that never
    had a run."""
    folder = tmp_path / "sweep"
    folder.mkdir()
    make_root(folder)
    for name, rate in (("0001", 0.01), ("0002", 0.02)):
        train(folder, name, f"base_lr={rate}", "max_iter=20")
    with pytest.raises(CaffeliteError, match="not finite|NaN|nan|infinite"):
        train(folder, "0003", "base_lr=1e30", "max_iter=20")
    (folder / "sweep.json").write_text("{}")
    outcome = {"rungs": {"end": {"score": None, "iterations": 0, "state": "failed", "reason": "no such <field>"}}}
    (folder / "0004.json").write_text(json.dumps({"setting": {"base_lr": "x"}, "seed": 0} | outcome))
    client = make_client(cpu_slots=0, gpus="none")
    trials = client.get("/sweep.json", params={"folder": "sweep"}).json()["trials"]
    failed = [(one["title"], one["values"], one["score"]) for one in trials if one["state"] == "failed"]
    assert failed == [("0003", ["1e+30"], None), ("0004", ["x"], None)] and trials[-2:] == [
        one for one in trials if one["state"] == "failed"
    ]
    assert trials[-2]["reason"] and trials[-1]["reason"] == "no such <field>"
    page = client.get("/sweep", params={"folder": "sweep"}).text
    assert page.count('data-state="failed"') == 2 and "no such &lt;field&gt;" in page
    assert 'value="sweep/0003_run"' in page and page.count('name="folder"') == 3
