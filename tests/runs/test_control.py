"""Signals reach the process that holds the lock of a run, and no other one; notes."""

import json
import os
import socket

import pytest

from caffelite.errors import CaffeliteError
from caffelite.runs import control, listing, registry
from caffelite.runs.lock import FolderLock
from caffelite.runs.queue import edit


def write_run(folder, process):
    session = {"run": "a", "host": socket.gethostname(), "process": process, "locked": True}
    (folder / "run.json").write_text(json.dumps({"sessions": [session]}))
    (folder / "config.json").write_text('{"solver": "x.prototxt"}')


@pytest.fixture
def claimed(tmp_path):
    """A run folder that this process locks, but that names another process."""
    write_run(tmp_path, os.getppid())
    lock = FolderLock(tmp_path)
    yield tmp_path
    lock.release()


@pytest.mark.parametrize("action", ["pause", "kill", "snapshot"])
def test_a_process_without_the_lock_gets_no_signal(claimed, action, monkeypatch):
    sent = []
    monkeypatch.setattr("signal.pidfd_send_signal", lambda *arguments: sent.append(arguments))
    with pytest.raises(CaffeliteError, match="the process of .* is not known"):
        edit.act(claimed, action)
    assert not sent


def test_the_process_with_the_lock_gets_the_signal(claimed, monkeypatch):
    sent = []
    monkeypatch.setattr("signal.pidfd_send_signal", lambda _, number: sent.append(number))
    content = json.loads((claimed / "run.json").read_text())
    content["sessions"][0]["process"] = os.getpid()
    (claimed / "run.json").write_text(json.dumps(content))
    control.pause(claimed)
    assert "already stopping" in control.pause(claimed), "a second signal would end the run at once"
    control.request_snapshot(claimed)
    monkeypatch.setattr(control, "PATIENCE", 0)  # the lock is held: the process has not ended
    control.kill(claimed)
    assert not (claimed / "outcome.json").exists()
    assert sent == [15, 1, 9]


def test_a_run_of_another_machine_is_refused(claimed):
    content = json.loads((claimed / "run.json").read_text())
    content["sessions"][0]["host"] = "elsewhere"
    (claimed / "run.json").write_text(json.dumps(content))
    with pytest.raises(CaffeliteError, match="runs on another machine"):
        control.pause(claimed)


def test_tags_and_note(tmp_path):
    with pytest.raises(CaffeliteError, match="is not the folder of a run"):
        listing.change_notes(tmp_path, add=["x"])
    (tmp_path / "config.json").write_text("{}")
    assert listing.change_notes(tmp_path, add=["b", " a "], note="one\r\ntwo") == listing.Notes(("a", "b"), "one\ntwo")
    assert (
        listing.change_notes(tmp_path, remove=["a", "c"])
        == listing.read_notes(tmp_path)
        == listing.Notes(("b",), "one\ntwo")
    )
    for tag in ("", "a,b", "x" * 51, "a\nb"):
        with pytest.raises(CaffeliteError, match="a tag cannot be used"):
            listing.change_notes(tmp_path, add=[tag])
    (tmp_path / "notes.json").write_text('{"tags": 5, "note": []}')
    assert listing.read_notes(tmp_path) == listing.Notes()


def test_killed_and_crashed_runs_have_different_words(tmp_path, monkeypatch):
    write_run(tmp_path, os.getpid())
    held = FolderLock(tmp_path)
    monkeypatch.setattr("signal.pidfd_send_signal", lambda *_: held.release())
    control.kill(tmp_path)
    actual = registry.read(tmp_path)
    assert (actual.state, actual.reason) == ("killed", "killed on request")
    assert registry.label(actual.state, actual.reason) == "killed"
    (tmp_path / "outcome.json").unlink()
    actual = registry.read(tmp_path)
    assert (actual.state, registry.label(actual.state, actual.reason)) == ("killed", "crashed")
    assert registry.label("finished") == "finished"


@pytest.mark.parametrize(
    ("run", "taken", "expected"),
    [
        ("pets_run", (), "pets_copy"),
        ("pets_run", ("pets_copy",), "pets_copy_2"),
        ("pets_copy/pets_copy_run", ("pets_copy",), "pets_copy_2"),
        ("pets_copy_2/pets_copy_2_run", ("pets_copy", "pets_copy_2"), "pets_copy_3"),
        ("pets_copy/snapshot_run", ("pets_copy",), "pets_copy_2"),
        ("pets_copy/other_run", ("pets_copy",), "pets_copy/other_copy"),
    ],
)
def test_a_copy_of_a_copy_lies_beside_it(tmp_path, run, taken, expected):
    for name in (*taken, run):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    assert control.free_folder(tmp_path / run) == tmp_path / expected
