"""Records that somebody else wrote, damaged in every field: no page fails."""

import json

import cv2
import numpy as np
import pytest
from foreign import texts
from starlette.testclient import TestClient

from caffelite.runs import folder as files
from caffelite.runs.listing import INDEX
from caffelite.runs.queue import edit
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig
from caffelite.serve.runs_of import Runs
from caffelite.serve.samples import OpenSets

AS_JSON = {"Accept": "application/json"}
CLASS = {"label": "a", "samples": 1, "precision": 1.0, "recall": 1.0, "low": 0.0, "high": 1.0, "f1": 1.0}
REPORT = {
    **{"name": "n", "model": "m", "weights": "w", "made": "today", "accuracy": 1.0, "tested": 1, "right": 1, "nan": 0},
    **{"balanced_accuracy": 1.0, "log_loss": 0.1, "calibration_error": 0.1, "top": {"5": 1.0}, "labels": ["a"]},
    **{"confusion": [[1]], "cells": [{"label": 0, "answer": 0, "samples": [0]}], "classes": [CLASS], "confused": []},
    "calibration": [{"samples": 1, "confidence": 1.0, "accuracy": 1.0}],
    "scores": [{"name": "loss", "value": 1.0, "low": 0.5, "high": 1.5}],
    "worst": [{"sample": 0, "label": "a", "answer": "a", "score": 1.0}],
    "data_layer": 'type: "Data"',
}
SESSION = {
    **{"run": "x", "command": ["train"], "folder": "/", "host": "h", "process": 1, "started": "today", "net": "n"},
    **{"max_iterations": 3, "device": "CPU", "locked": True, "iteration": 0, "versions": {"caffelite": "1"}},
    "outcome": {"kind": "finished", "reason": "", "iteration": 3, "seconds": 1.0, "rate": 0.1, "ended": "today"},
}
RECORDS = {
    files.RUN: {"sessions": [SESSION], "epoch": {"samples": 1, "batch": 1}},
    files.HEARTBEAT: {"iteration": 1, "time": 1.0},
    files.NOTES: {"tags": ["a"], "note": "b"},
    files.CONFIG: {"solver": "solver.prototxt"},
    files.PROCESS: {"id": "x", "state": "finished", "ended": "today", "started": "today", "status": 0, "slot": "cpu"},
    files.PROGRESS: {"done": 1, "total": 2, "text": "x"},
    files.OUTCOME: {"kind": "failed", "reason": "x", "ended": "today", "iteration": 1},
}


@pytest.fixture
def client(tmp_path):
    config = ServeConfig(roots=(tmp_path,))
    app = create_app(config)
    app.state.data_sets, app.state.runs = OpenSets(), Runs(config)
    return TestClient(app, base_url=f"http://127.0.0.1:{config.port}", raise_server_exceptions=False)


def answers(client, *addresses):
    """No address fails, as a page or as JSON."""
    client.app.state.runs.index.forget()
    for address in addresses:
        for headers in ({"Accept": "text/html"}, AS_JSON):
            actual = client.get(address, headers=headers)
            assert actual.status_code < 500, address


def test_a_foreign_report_is_shown_or_refused(client, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "report.html").write_text("")
    path = tmp_path / "r" / "report.json"
    for text in [json.dumps(REPORT), *texts(REPORT)]:
        path.write_text(text)
        actual = client.get("/models/report?path=r&label=0&answer=0", headers={"Accept": "text/html"})
        assert actual.status_code in (200, 400), text
    answers(client, "/models")
    path.write_text(json.dumps(REPORT))
    assert client.get("/models/report.json?path=r").json()["accuracy"] == 1.0


@pytest.mark.parametrize("name", RECORDS)
def test_foreign_records_of_a_run_do_not_fail_a_page(client, tmp_path, name):
    folder = tmp_path / "run"
    folder.mkdir()
    for each, content in RECORDS.items():
        if each != files.OUTCOME or name == files.OUTCOME:
            (folder / each).write_text(json.dumps(content))
    for text in texts(RECORDS[name]):
        (folder / name).write_text(text)
        client.app.state.runs.changed(folder)
        client.app.state.runs.index.forget()
        for address in ("/runs", "/run?folder=run"):
            assert client.get(address, headers=AS_JSON).status_code < 500, text


def test_foreign_records_of_jobs_do_not_fail_a_page(client, tmp_path):
    job = edit.add(tmp_path, ["models"])
    content = json.loads((job.folder / files.JOB).read_text())
    records = {files.JOB: content, files.PROCESS: RECORDS[files.PROCESS] | {"id": job.id}}
    records |= {files.PROGRESS: RECORDS[files.PROGRESS]}
    for name, content in records.items():
        for text in texts(content):
            (job.folder / name).write_text(text)
            assert client.get("/queue", headers=AS_JSON).status_code == 200, text
        (job.folder / name).write_text(json.dumps(content))


def test_a_foreign_index_is_left_aside(client, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / files.RUN).write_text(json.dumps(RECORDS[files.RUN]))
    answers(client, "/runs")
    client.app.state.runs.index.save()
    content = json.loads((tmp_path / INDEX).read_text())
    assert content["entries"]
    for text in texts(content):
        (tmp_path / INDEX).write_text(text)
        client.app.state.runs = Runs(client.app.state.config)
        assert client.get("/runs", headers=AS_JSON).status_code == 200, text


def test_a_foreign_audit_is_shown_or_refused(client, tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((4, 4), np.uint8))
    (tmp_path / "list.txt").write_text(f"{tmp_path}/a.png 0\n")
    (tmp_path / "audits").mkdir()
    records = [[{"key": "a", "label": "0"}, {"key": "b", "label": "1"}]]
    one = {"path": str(tmp_path / "list.txt"), "shapes": [{"shape": [1], "count": 1}], "unreadable": {"a": "b"}}
    one |= {"odd": {"c": "d"}, "duplicates": records, "near_duplicates": records}
    content = {"sets": [one], "in_both": [[["a"], ["b", "c"]]], "near_in_both": [["a", "b"]]}
    (tmp_path / "audits" / "x.json").write_text(json.dumps(content))
    shown = client.get("/data/set.json?path=list.txt").json()["audit"]
    assert shown["counts"] == dict.fromkeys((*one.keys() - {"path", "shapes"}, *content.keys() - {"sets"}), 1)
    for text in texts(content):
        (tmp_path / "audits" / "x.json").write_text(text)
        answers(client, "/data/set?path=list.txt&audit=audits/x.json", "/data/set?path=list.txt")
