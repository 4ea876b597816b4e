"""What a run folder says of its run: state, reason, heartbeat, log, and the records after a resume."""

import csv
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from caffelite.errors import CaffeliteError
from caffelite.runs import control, fields, folder as files, launch, lock, recorder, registry, snapshots
from caffelite.runs.config import RunConfig
from caffelite.runs.log import LogFile
from caffelite.training import Trainer

COMMAND = [sys.executable, "-c", "from caffelite.cli import main; main()", "train", "-solver", "solver.prototxt"]
ENDLESS = ("-set", "max_iter=1000000000", "-set", "snapshot=0", "-set", "display=100")


@pytest.fixture
def started(folder):
    """Starts `caffelite train` and waits for a line of its log; ends it at the latest with the test."""
    processes = []

    def start(*options, wait_for="Iteration 100,"):
        process = subprocess.Popen([*COMMAND, *ENDLESS, *options], text=True, stderr=subprocess.PIPE)
        processes.append(process)
        while wait_for not in process.stderr.readline():
            assert process.poll() is None
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def outcome(folder):
    return json.loads((folder / "run_run/run.json").read_text())["sessions"][-1]["outcome"]


# The state of a run


def test_a_finished_run(folder, call):
    result = call("train", "-solver", "solver.prototxt")
    run = registry.read("run_run")
    assert (run.state, run.reason, run.iteration, run.sessions) == ("finished", "", 20, 1)
    assert run.command[:3] == ("caffelite", "train", "--solver=solver.prototxt")
    assert run.working_directory == str(folder) and run.process == os.getpid() and run.ended >= run.started
    assert re.fullmatch("[0-9a-f]{16}", run.id) and outcome(folder)["kind"] == "finished"
    assert (folder / "run_run/log.txt").read_text() == result.err and "Use CPU." in result.lines[0]


def test_requested_iterations_finish(folder, call):
    call("train", "-solver", "solver.prototxt", "-iterations", 3)
    run = registry.read("run_run")
    assert (run.state, run.iteration) == ("finished", 3) and "3 iterations" in run.reason


def test_early_stop(folder, call):
    changes = ("best_score=loss", "best_lowest=false", "early_stop=1", "test_interval=2", "max_iter=100")
    call("train", "-solver", "solver.prototxt", *(word for change in changes for word in ("-set", change)))
    run = registry.read("run_run")
    assert run.state == "stopped" and run.reason.startswith("stopped early: loss has not been better than")
    assert run.iteration < 100 and outcome(folder)["kind"] == "stopped early"
    assert run.label == "finished" and control.offered(run.state, run.reason) == ()


@pytest.mark.parametrize(
    "number, status", [pytest.param(signal.SIGINT, 0, marks=pytest.mark.slow), (signal.SIGTERM, 143)]
)
def test_signals(folder, started, number, status):
    process = started()
    process.send_signal(number)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == status and "Traceback" not in err and "Optimization stopped early." in err
    assert "Stopping after this iteration, with a snapshot; a second signal stops at once." in err
    assert len(list(folder.glob("run_iter_*.solverstate"))) == 1 and not list(folder.glob(".*.draft"))
    run = registry.read("run_run")
    assert run.state == "stopped" and run.reason == f"stopped by a signal: {number.name}"
    log = (folder / "run_run/log.txt").read_text()
    assert set(err[err.index("Stopping after") :].splitlines()) < set(log.splitlines())
    assert "Optimization stopped early." in log


def test_a_failed_run(folder, call):
    result = call("train", "-solver", "solver.prototxt", "-set", "base_lr=1e30", "-set", "snapshot=0")
    run = registry.read("run_run")
    assert result.status == 2 and run.state == "failed"
    assert f"caffelite: {run.reason}" == result.err.splitlines()[-1]
    assert (folder / "run_run/log.txt").read_text() == result.err


def test_an_internal_error(folder, call, monkeypatch):
    def fail(*_):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Trainer, "solve", fail)
    assert call("train", "-solver", "solver.prototxt").status == 70
    assert registry.read("run_run").reason == "RuntimeError: a mistake of ours"


def test_a_run_that_runs_and_is_killed(folder, started):
    process = started()
    first = registry.read("run_run")
    assert first.state == "running" and first.process == process.pid
    end = time.monotonic() + 60
    while (now := registry.read("run_run")).heartbeat <= first.heartbeat:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert now.iteration > first.iteration and abs(now.heartbeat - time.time()) < 60
    process.kill()
    process.wait()
    run = registry.read("run_run")
    assert run.state == "killed" and run.reason.startswith("it ended without recording an outcome")
    assert "outcome" not in json.loads((folder / "run_run/run.json").read_text())["sessions"][-1]


def test_a_queued_run_starts_in_its_folder(folder, call):
    (folder / "later").mkdir()
    config = RunConfig("solver.prototxt", record="later", iterations=2)
    (folder / "later/config.json").write_text(json.dumps(config.to_json()))
    assert registry.state("later") == "queued"
    call(*["train", *config.arguments()])
    assert registry.state("later") == "finished" and not (folder / "later_1").exists()
    assert RunConfig.from_json(json.loads((folder / "later/run.json").read_text())["config"]) == config


def test_a_run_has_eight_files_and_earlier_ones_are_read(folder, call):
    call("train", "-solver", "solver.prototxt", "-iterations", 2, "-precision", "tf32")
    assert len([*(folder / "run_run").iterdir()]) == 8
    content = json.loads((folder / "run_run/run.json").read_text())
    (folder / "run_run/config.json").write_text(json.dumps(content.pop("config")))
    (folder / "run_run/run.json").write_text(json.dumps(content))
    assert snapshots.config(folder / "run_run").precision == "tf32"
    assert fields.read(folder / "run_run").get("-precision") == "tf32"


@pytest.mark.parametrize(
    "solver, reason", [("gone.prototxt", "cannot read gone.prototxt"), ("net.prototxt", "this is a net, not a solver")]
)
def test_a_queued_run_that_cannot_start_failed(folder, call, solver, reason):
    (folder / "later").mkdir()
    config = RunConfig(solver, record="later", iterations=2)
    (folder / "later/config.json").write_text(json.dumps(config.to_json()))
    assert call("train", *config.arguments()).status == 2
    run = registry.read("later")
    assert run.state == "failed" and reason in run.reason and run.ended
    call("train", "-solver", "solver.prototxt", "-record", "later", "-iterations", 2)
    assert registry.state("later") == "finished" and not (folder / "later_1").exists()


def test_a_folder_whose_name_is_not_utf8_is_refused(folder, call, monkeypatch):
    other = folder / os.fsdecode(b"p\xff")
    shutil.copytree(folder, other, ignore=lambda path, names: [other.name])
    monkeypatch.chdir(other)
    result = call("train", "-solver", "solver.prototxt", "-iterations", 1)
    assert result.status == 2 and "the path of a data set is not UTF-8" in result.err


def test_a_program_launches_a_run(folder):
    config = RunConfig("solver.prototxt", overrides=("max_iter=4",), record="mine")
    assert launch.train(config) == 0
    run = registry.read("mine")
    assert (run.state, run.iteration) == ("finished", 4)
    assert run.command == ("caffelite", "train", "--solver=solver.prototxt", "--set=max_iter=4", "--record=mine")
    assert "Optimization Done." in (folder / "mine/log.txt").read_text()


def test_the_registry_finds_runs(folder, call):
    for name in ("b", "a"):
        (folder / "runs").mkdir(exist_ok=True)
        call("train", "-solver", "solver.prototxt", "-iterations", 1, "-record", f"runs/{name}")
    (folder / "runs/damaged").mkdir()
    (folder / "runs/damaged/run.json").write_text('{"sessions": []}')
    assert [(run.folder.name, run.state) for run in registry.find(folder)] == [("a", "finished"), ("b", "finished")]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sessions": []}', '{"sessions": [1]}'])
def test_a_folder_that_is_no_run(folder, text):
    (folder / "run.json").write_text(text)
    with pytest.raises(CaffeliteError, match=r"lists no session|is not the folder of a run"):
        registry.state(folder)


# The lock


def test_a_second_run_in_the_folder_is_refused(folder, started, call):
    process = started("-record", "mine")
    options = ("-record", "mine", "-set", "snapshot_prefix=other", "-iterations", 1)
    assert f"another run (process {process.pid} on" in call("train", "-solver", "solver.prototxt", *options).refused.err
    assert registry.state("mine") == "running" and not (folder / "mine_1").exists()


def test_a_child_does_not_keep_the_lock(folder):
    """Of a process that dies while two of its children live: one forked, one started."""
    code = """
import os, subprocess, time
from pathlib import Path
from caffelite.runs.lock import FolderLock
lock = FolderLock(Path("."))
started = subprocess.Popen(["sleep", "60"], close_fds=False)
ready, report = os.pipe()
forked = os.fork()
if not forked:
    os.write(report, b"!")
else:
    os.read(ready, 1)
    print(started.pid, forked, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        children = [int(word) for word in process.stdout.readline().split()]
        try:
            held = lock.is_held(folder)
            process.kill()
            process.wait()
            assert held and all(os.path.exists(f"/proc/{child}") for child in children) and not lock.is_held(folder)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)


def test_a_reader_does_not_refuse_a_run_its_lock(folder, monkeypatch):
    """A reader holds the lock for an instant while it looks."""
    reader = lock.FolderLock(folder)
    monkeypatch.setattr(lock.time, "sleep", lambda _: reader.release())
    lock.FolderLock(folder).release()


def test_without_locks_the_heartbeat_decides(folder, call, monkeypatch):
    def unsupported(*_):
        raise OSError(38, "no locks")

    monkeypatch.setattr(lock.fcntl, "flock", unsupported)
    call("train", "-solver", "solver.prototxt", "-iterations", 1, "-record", "mine")
    run = files.load(folder / "mine")
    run["sessions"][-1].pop("outcome")
    files.write_json(folder / "mine/run.json", run)
    assert registry.state("mine") == "running"
    monkeypatch.setattr(registry.time, "time", lambda: 4e9)
    assert registry.state("mine") == "killed"


# Log and heartbeat


def test_a_run_without_records_leaves_no_folder(folder, call):
    call("train", "-solver", "solver.prototxt", "-record", "none")
    assert not list(folder.glob("run_run*")) and not list(folder.rglob("log.txt"))


def test_a_log_file_keeps_lines_until_it_opens(tmp_path):
    log = LogFile()
    log.write(b"early\n")
    log.open(tmp_path / "log.txt")
    log.write(b"late\n")
    log.close()
    log.write(b"too late\n")
    assert (tmp_path / "log.txt").read_bytes() == b"early\nlate\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_lost_lines_and_heartbeats_bring_one_warning(tmp_path, caplog):
    log, lines = LogFile(), logging.getLogger("caffelite")
    lines.addHandler(log)
    try:
        log.open(Path("/dev/full"))
        for _ in range(3):
            lines.warning("a line")
    finally:
        lines.removeHandler(log)
        log.close()
    warned = [text for text in caplog.messages if text != "a line"]
    assert warned == ["/dev/full: no space left on device; lines of the log are missing there"]
    caplog.clear()
    heart = recorder.Heartbeat(tmp_path / "none", lambda: 1, period=0.001)
    heart.stop()
    (warned,) = caplog.messages
    assert "heartbeat.json: no such file or directory; other programs may take the run for dead" in warned


def test_the_heartbeat_ends_with_the_run(tmp_path):
    beats = iter(range(10**6))
    heart = recorder.Heartbeat(tmp_path, lambda: next(beats), period=0.01)
    path = tmp_path / files.HEARTBEAT
    while json.loads(path.read_text())["iteration"] < 3:
        time.sleep(0.01)
    heart.stop()
    last = path.read_text()
    time.sleep(0.05)
    assert path.read_text() == last


# Records after a resume


def iterations(path):
    """(phase, iteration) of each row of a table."""
    with open(path) as file:
        return [(row["phase"], int(row["iteration"])) for row in csv.DictReader(file)]


def test_a_resume_removes_later_records(folder, started, call):
    call("train", "-solver", "solver.prototxt", "-set", "max_iter=10")
    process = started("-snapshot", "run_iter_10.solverstate", wait_for="Iteration 510,")
    process.kill()
    process.wait()
    assert len(np.fromfile(folder / "run_run/losses.f32", "<f4")) > 100
    log = (folder / "run_run/log.txt").read_text()
    resumed = call("train", "-solver", "solver.prototxt", "-snapshot", "run_iter_10.solverstate").ok
    rows = iterations(folder / "run_run/metrics.csv")
    assert len(rows) == len(set(rows)) and max(i for _, i in rows) == 20
    assert len(np.fromfile(folder / "run_run/losses.f32", "<f4")) == 20
    now = (folder / "run_run/log.txt").read_text()
    assert "Iteration 500," in log and "Iteration 500," not in now and now.endswith(resumed.err)
    shown = re.findall(r"Iteration (\d+) \(", now)
    assert shown == ["0", "5", "10", "15"], "each iteration once"
    assert now.count("Train net output") == 4 and now.count("Test net output") == now.count("Testing net") == 3
    assert now.count("Solving small") == 3, "lines that report no iteration stay"
    states = [session.get("outcome", {}).get("kind") for session in files.load(folder / "run_run")["sessions"]]
    assert states == ["finished", None, "finished"] and registry.state("run_run") == "finished"


def test_a_log_keeps_what_ended_the_earlier_session(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        "I1 a.py:1] Iteration 5, Testing net (#0)\nI1 a.py:1]     Test net output #0: loss = 1\n"
        "I1 a.py:1] Iteration 10 (1 iter/s), loss = 2\nI1 a.py:1]     Train net output #0: loss = 2\n"
        "I1 a.py:1] Iteration 10, lr = 0.1\nE1 a.py:1] the disk is full\ncaffelite: no more room\n"
    )
    recorder.truncate_log(path, 10)
    assert path.read_text().splitlines()[2:] == ["E1 a.py:1] the disk is full", "caffelite: no more room"]
    recorder.truncate_log(path, 0)
    assert len(path.read_text().splitlines()) == 2
    recorder.truncate_log(tmp_path / "none", 0)


def test_events_have_each_iteration_once(folder, call):
    from tensorboardX.proto.event_pb2 import Event

    call("train", "-solver", "solver.prototxt", "-tensorboard")
    call("train", "-solver", "solver.prototxt", "-tensorboard", "-snapshot", "run_iter_10.solverstate")
    values = []
    for file in (folder / "run_run/events").iterdir():
        data, at = file.read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + length])
            values += [((value.tag, event.step), value.simple_value) for value in event.summary.value]
            at += length + 16
    written, losses = dict(values), np.fromfile(folder / "run_run/losses.f32", "<f4")
    assert len(values) == len(written)
    assert {at: value for (tag, at), value in values if tag == "train/total_loss"} == dict(enumerate(losses.tolist()))
    assert written["train/loss", 5] == losses[5] and ("test/loss", 10) in written
    assert written["rate", 0] == np.float32(0.05)


def test_a_damaged_event_file_is_cut(folder, call):
    call("train", "-solver", "solver.prototxt", "-tensorboard")
    (file,) = (folder / "run_run/events").iterdir()
    body = file.read_bytes()
    file.write_bytes(body + b"\xff" * 30)
    result = call("train", "-solver", "solver.prototxt", "-tensorboard", "-snapshot", "run_iter_20.solverstate")
    kept = file.read_bytes()
    assert result.status == 0 and 1000 < len(kept) < len(body) and body.startswith(kept)
