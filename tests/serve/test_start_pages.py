"""The guided way as a program sees it: names, choices, unreadable pictures, and what starts a run."""

import io
import zipfile

import cv2
import numpy as np
import pytest
import tiny_project
from tiny_project import NET

from caffelite.runs import folder as files, registry
from caffelite.runs.queue import edit, job

AS_JSON = {"Accept": "application/json"}
PNG = cv2.imencode(".png", np.arange(243, dtype=np.uint8).reshape(9, 9, 3))[1].tobytes()
LOG = """Task: 2 classes (Vögel groß, cat), by My Pets: a folder per class.
Net: lenet on 28×28 pixels: as small as these.
Left out: My Pets/cat/b.png: cannot read image
Wrote solver.prototxt in My Pets model.
Time: about 7.7s for 660 iterations of 11.6 ms, and the tests. Ctrl-C ends training earlier.
"""


@pytest.fixture
def client(make_client):
    return make_client(cpu_slots=0, gpus="none")


def pets(client, root, name="My Pets"):
    """Pictures of two classes, one of which cannot be read."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        for file, content in (("Vögel groß/a.png", PNG), ("cat/a.png", PNG), ("cat/b.png", PNG[:20])):
            made.writestr(f"{name}/{file}", content)
    upload = {"data": {"name": name}, "files": [("images", ("pets.zip", archive.getvalue()))]}
    actual = client.post("/data/upload", **upload, headers=AS_JSON)
    assert actual.status_code == 200, actual.text
    return root / name


def end(one, log, state):
    """Makes a queued job one that has ended, and printed a log."""
    (one.folder / files.LOG).write_text(log)
    job.record_end(one.folder, one.id, state, status=int(state != job.FINISHED))


def test_names_of_classes_and_folders_stay_as_they_are(client, tmp_path):
    assert (pets(client, tmp_path) / "Vögel groß/a.png").exists()
    shown = client.get("/data/set.json", params={"path": "My Pets"}).json()
    assert [one["name"] for one in shown["classes"]] == ["Vögel groß", "cat"]
    made = client.post("/start/prepare", data={"source": "My Pets"}, headers=AS_JSON).json()
    assert made["solver"] == "My Pets model/solver.prototxt" and made["data"] == "My Pets"
    [one] = job.jobs(tmp_path)
    assert one.command[:3] == ("new", "My Pets model", "My Pets") and "--skip" in one.command


def test_an_unreadable_picture_does_not_end_a_page(client, tmp_path):
    pets(client, tmp_path)
    shown = client.get("/data/set.json", params={"path": "My Pets"}).json()["samples"]
    assert [bool(one["unreadable"]) for one in shown] == [False, False, True]
    assert "cannot be read" in client.get("/data/set", params={"path": "My Pets"}).text


def test_lists_of_a_project_are_no_uploaded_pictures(client, tmp_path):
    pets(client, tmp_path)
    (tmp_path / "My Pets model").mkdir()
    (tmp_path / "My Pets model/train.txt").write_text("My Pets/cat/a.png 1\n")
    assert client.get("/start.json").json()["pictures"] == ["My Pets"]
    assert len(client.get("/new.json").json()["pictures"]) == 2


def test_a_proposed_name_is_free(client, tmp_path):
    pets(client, tmp_path)
    (tmp_path / "My Pets model").mkdir()
    assert (
        "My Pets" in client.get("/new.json").json()["taken"] and "My Pets" in client.get("/start.json").json()["taken"]
    )
    made = client.post("/start/prepare", data={"source": "My Pets"}, headers=AS_JSON).json()
    assert made["solver"] == "My Pets model 2/solver.prototxt"


@pytest.mark.parametrize("name", ["", " a", "-a", ".a", "a/b", 'a"b', "a'b", "a,b", "x" * 65, "a\nb"])
def test_a_refused_name_states_the_allowed_form(client, tmp_path, name):
    for address, fields in (("/data/upload", {}), ("/new/prepare", {"data": "digits"})):
        actual = client.post(address, data={"name": name, **fields}, headers=AS_JSON)
        assert actual.status_code == 400 and "at most 64 characters without" in actual.json()["error"]
    assert {each.name for each in tmp_path.iterdir() if each.name[0] != "."} <= {"jobs"} and not job.jobs(tmp_path)


def test_a_project_goes_on_without_a_picture(client, tmp_path):
    pets(client, tmp_path)
    choice = {"name": "mine", "data": "images", "source": "My Pets"}
    skipping = client.post("/new/prepare", data={**choice, "skip": "on"}, headers=AS_JSON).json()
    assert "--skip" in skipping["jobs"][0]["command"]
    made = client.post("/new/prepare", data=choice, headers=AS_JSON).json()
    one = edit.find(tmp_path, made["jobs"][0]["id"])
    again = {"solver": made["solver"], "job": one.id}
    assert client.post("/new/skip", data=again, headers=AS_JSON).status_code == 400, "it has not failed yet"
    end(one, "cat/b.png: not an image\n1 of 3 images cannot be read; leave them out with -skip\n", registry.FAILED)
    shown = client.get("/new/edit", params=again).text
    assert "cat/b.png: not an image" in shown and "Leave these files out" in shown and "Not prepared" in shown
    added = client.post("/new/skip", data=again, headers=AS_JSON).json()["jobs"][0]
    assert added["command"] == [*one.command, "--skip"] and added["state"] == job.QUEUED


def test_a_ready_project_has_time_and_choices(client, tmp_path):
    pets(client, tmp_path)
    made = client.post("/start/prepare", data={"source": "My Pets"}, headers=AS_JSON).json()
    query = {"solver": made["solver"], "data": "My Pets", "job": made["jobs"][0]["id"]}
    waiting = client.get("/start.json", params=query).json()
    assert not waiting["ready"] and not waiting["failed"] and [one["count"] for one in waiting["classes"]] == [1, 2]
    end(edit.find(tmp_path, query["job"]), LOG, job.FINISHED)
    (tmp_path / "My Pets model").mkdir()
    (tmp_path / made["solver"]).write_text(tiny_project.SOLVER)
    actual = client.get("/start.json", params=query).json()
    assert actual["ready"] and actual["time"] == "about 7.7s for 660 iterations of 11.6 ms, and the tests"
    assert [one["name"] for one in actual["choices"]] == ["Task", "Net"] and actual["left_out"] == {
        "count": 1,
        "names": ["My Pets/cat/b.png"],
    }
    uploaded = {**query, "left_out": "11", "file": ["<b>notes.txt", "mk.py"]}
    shown = client.get("/start", params=uploaded).text
    assert (
        "12 files are no readable pictures and are left out: &lt;b&gt;notes.txt, mk.py, My Pets/cat/b.png, …" in shown
    )
    assert "Training takes about 7.7s" in client.get("/start", params=query).text


def test_train_queues_the_run_of_a_project(client, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/net.prototxt").write_text(NET)
    solver = tiny_project.SOLVER.replace('"net.', '"tiny/net.').replace('"tiny"', '"tiny/tiny"')
    (tmp_path / "tiny/solver.prototxt").write_text(solver)
    actual = client.post("/start/train", data={"solver": "tiny/solver.prototxt"}, headers=AS_JSON).json()["job"]
    assert actual["folder"] == "tiny/tiny_run" and actual["is_run"]
    layer = 'layer { name: "p" type: "Python" top: "p" python_param { module: "os" layer: "L" } }'
    (tmp_path / "tiny/net.prototxt").write_text(NET + layer)
    for solver in ("tiny/solver.prototxt", "nosuch/solver.prototxt", "../solver.prototxt"):
        refused = client.post("/start/train", data={"solver": solver}, headers=AS_JSON)
        assert refused.status_code in (400, 403), refused.text
    assert len(job.jobs(tmp_path)) == 1
