"""Tests of the queue: places of jobs, slots, locks, and processes that end in every way."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from tiny_project import NET, SOLVER

from caffelite.cli.queue import submit
from caffelite.errors import CaffeliteError
from caffelite.runs import folder as files, lock, registry
from caffelite.runs.config import RunConfig
from caffelite.runs.queue import edit, job, local, process
from caffelite.runs.queue.local import Free, Local, Slots
from caffelite.runs.queue.scheduler import Scheduler
from caffelite.sweep import jobs as trials_as_jobs
from caffelite.sweep.config import SweepConfig
from caffelite.sweep.sweep import Sweep


@pytest.fixture
def root(tmp_path, in_tmp_path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    return tmp_path


@pytest.fixture
def scheduler(root):
    """A scheduler whose jobs are ended after the test."""
    actual = Scheduler(root, Local(Slots(cpu=1)))
    yield actual
    actual.close()
    for each in job.jobs(root):
        if each.state == job.RUNNING:
            edit.cancel(root, each.id, edit.KILL)


def add(root: Path, **more) -> job.Job:
    return edit.add(root, ["models"], **more)


def ids(root: Path) -> list[str]:
    return [each.id for each in job.jobs(root) if each.state == job.QUEUED]


def wait(root: Path, id: str, *states: str, seconds: float = 60) -> job.Job:
    until = time.monotonic() + seconds
    while (actual := edit.find(root, id)).state not in states and time.monotonic() < until:
        time.sleep(0.02)
    assert actual.state in states, actual
    return actual


def occupy(root: Path, each: job.Job, slot: str = "cpu") -> lock.FileLock:
    """Holds the lock of a job as its process does."""
    held = lock.FileLock(each.folder / files.JOB_LOCK)
    held.describe({"id": each.id, "slot": slot})
    return held


def test_jobs_start_in_order_of_priority_then_submission(root):
    one, two, three = add(root), add(root), add(root, priority=1)
    assert ids(root) == [three.id, one.id, two.id]
    edit.set_priority(root, two.id, 2)
    assert ids(root) == [two.id, three.id, one.id]


@pytest.mark.parametrize(
    ("name", "place", "expected"),
    [
        (2, {"before": 0}, [2, 0, 1, 3]),
        (0, {"position": 3}, [1, 2, 0, 3]),
        (0, {}, [1, 2, 3, 0]),
        (3, {"position": 1}, [3, 0, 1, 2]),
        (1, {"before": 1}, [0, 1, 2, 3]),
        (1, {"position": 99}, [0, 2, 3, 1]),
    ],
)
def test_a_moved_job_takes_the_named_place(root, name, place, expected):
    every = [add(root).id for _ in range(4)]
    if "before" in place:
        place = {"before": every[place["before"]]}
    edit.move(root, every[name], **place)
    assert ids(root) == [every[i] for i in expected]


def test_a_job_moved_past_another_priority_takes_it(root):
    low, high = add(root), add(root, priority=5)
    assert edit.move(root, low.id, position=1).priority == 5
    assert ids(root) == [low.id, high.id]
    assert edit.move(root, low.id).priority == 5


def test_a_job_starts_after_those_that_it_names(root, scheduler):
    first = add(root)
    second = add(root, after=[first.id], priority=9)
    held = occupy(root, first, "none")
    assert not scheduler.step()
    held.release()
    job.record_end(first.folder, first.id, job.FINISHED)
    assert [each.id for each in scheduler.step()] == [second.id]


def test_a_job_fails_with_the_one_before_it(root, scheduler):
    first = add(root)
    second = add(root, after=[first.id])
    edit.cancel(root, first.id)
    assert not scheduler.step()
    actual = edit.find(root, second.id)
    assert actual.state == job.FAILED
    assert first.id in actual.reason


@pytest.mark.parametrize(
    ("slots", "used", "wanted", "expected"),
    [
        (Slots((0, 1), 1), [], ["any", "any", "any", ""], ["gpu 0", "gpu 1", "", "cpu"]),
        (Slots((0, 1), 1), ["gpu 0"], ["any", "any"], ["gpu 1", ""]),
        (Slots((0, 1, 2), 1), ["gpu 0"], ["0,1", "any", "any"], ["", "gpu 2", ""]),
        (Slots((0, 1), 1), [], ["all", "any"], ["gpu 0,1", ""]),
        (Slots((0, 1, 0), 1), [], ["any", "any", "any", "any"], ["gpu 0", "gpu 1", "gpu 0", ""]),
        (Slots((0, 1, 0), 1), ["gpu 1"], ["any", "any", "any"], ["gpu 0", "gpu 0", ""]),
        (Slots((0, 1, 0, 1), 1), ["gpu 0"], ["any", "all", "any"], ["gpu 1", "gpu 0,1", ""]),
        (Slots((), 1), [], ["any", "", "none"], ["cpu", "", "none"]),
        (Slots((), 2), ["cpu"], ["", ""], ["cpu", ""]),
    ],
)
def test_jobs_get_free_slots(slots, used, wanted, expected):
    free = Free(slots, used)
    assert [free.take(gpus) for gpus in wanted] == expected


def test_one_scheduler_works_in_a_root(root, scheduler):
    assert edit.serving(root / "deeper" / "folder") == root
    with pytest.raises(CaffeliteError, match="another scheduler"):
        Scheduler(root, Local(Slots()))
    scheduler.close()
    assert edit.serving(root) is None
    Scheduler(root, Local(Slots())).close()


def test_a_job_belongs_to_the_nearest_scheduler_above_it(root, scheduler):
    """As a trial of a sweep that runs its trials itself below a folder whose jobs another process starts."""
    (root / "below").mkdir()
    one, two = add(root / "below"), add(root / "below")
    with closing(Scheduler(root / "below", Local(Slots(cpu=1)))) as nearest:
        assert not scheduler.step() and scheduler.idle()
        assert [each.id for each in nearest.step()] == [one.id]
        other = add(root)
        assert [each.id for each in scheduler.step()] == [other.id], "its slot is free"
        wait(root, one.id, job.FINISHED)
        wait(root, other.id, job.FINISHED)
    assert [each.id for each in scheduler.step()] == [two.id]


def test_a_running_job_is_not_started_again(root, scheduler):
    each = add(root)
    held = occupy(root, each)
    assert not scheduler.step()
    assert edit.find(root, each.id).state == job.RUNNING
    held.release()
    assert [one.id for one in scheduler.step()] == [each.id]


def test_a_training_job_runs_in_its_folder(root, scheduler):
    each = submit(root, ["train", "-solver", "solver.prototxt", "-set", "max_iter=4"])
    assert registry.state(each.folder) == registry.QUEUED
    assert each.shell_command == "caffelite train -solver solver.prototxt -set max_iter=4 -record tiny_run"
    again = submit(root, ["train", "-solver", "solver.prototxt"])
    assert again.folder.name == "tiny_run_2"
    edit.cancel(root, again.id)
    assert registry.read(again.folder).reason == "cancelled: before it started"
    scheduler.step()
    actual = wait(root, each.id, job.FINISHED, job.FAILED, job.KILLED)
    assert (actual.state, actual.status, actual.slot) == (job.FINISHED, 0, "cpu"), actual.log.read_text()
    assert registry.read(each.folder).iteration == 4
    assert (actual.progress().done, actual.progress().total) == (4, 4)
    assert not (root / "tiny_run_1").exists()


def test_a_killed_job_is_seen_at_once(root, scheduler):
    each = submit(root, ["train", "-solver=solver.prototxt", "-set", "max_iter=100000000"])
    scheduler.step()
    wait(root, each.id, job.RUNNING)
    while not (each.folder / files.PROCESS).exists():
        time.sleep(0.02)
    other = edit.find(root, each.id)
    assert os.getsid(other.process) == other.process
    os.kill(other.process, signal.SIGKILL)
    actual = wait(root, each.id, job.KILLED, seconds=20)
    assert actual.reason
    scheduler.step()
    scheduler.step()
    assert registry.state(each.folder) != registry.QUEUED


def test_who_started_a_job_ends_it_on_every_system(root, scheduler, monkeypatch):
    """Others find its process by the files that it has open, which not every system shows."""
    monkeypatch.setattr(lock, "holds", lambda process, file: False)
    each = submit(root, ["train", "-solver=solver.prototxt", "-set", "max_iter=100000000"])
    scheduler.step()
    wait(root, each.id, job.RUNNING)
    with pytest.raises(CaffeliteError, match="is not known"):
        edit.cancel(root, each.id, edit.KILL)
    edit.cancel(root, each.id, edit.KILL, scheduler.children.values())
    assert wait(root, each.id, job.KILLED).reason == registry.ON_REQUEST


def test_the_error_of_a_command_is_the_reason(root, scheduler):
    each = submit(root, ["dataset", "info", "nosuch_lmdb"])
    scheduler.step()
    actual = wait(root, each.id, job.FAILED)
    assert actual.status == 2
    assert "nosuch_lmdb" in actual.reason
    edit.remove(root, each.id)
    assert not each.folder.exists()


def test_a_killed_scheduler_disturbs_no_job(root):
    each = submit(root, ["train", "-solver=solver.prototxt", "-set=max_iter=100000000", "-set=display=0"])
    waiting = add(root)
    process = subprocess.Popen([sys.executable, "-m", "caffelite", "queue", "run", "-gpu", "none"], cwd=root)
    try:
        wait(root, each.id, job.RUNNING)
        while not ((started := edit.find(root, each.id)).progress() and started.progress().done):
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    before = edit.find(root, each.id)
    assert (before.state, before.process) == (job.RUNNING, started.process)
    with closing(Scheduler(root, Local(Slots(cpu=1)))) as second:
        assert not second.step(), "the slot is in use"
        edit.cancel(root, each.id)
        assert wait(root, each.id, job.STOPPED).reason == "paused"
        status = registry.read(each.folder)
        assert (status.state, registry.label(status.state, status.reason)) == (job.STOPPED, "paused")
        assert list(root.glob("tiny_iter_*.solverstate")), "pausing writes a snapshot"
        assert [one.id for one in second.step()] == [waiting.id]
        wait(root, waiting.id, job.FINISHED)
        message = edit.act(each.folder, "resume")  # the scheduler that serves the folder has the queue
        assert "is queued: it continues from tiny_iter_" in message
        assert registry.state(each.folder) == job.QUEUED
        with pytest.raises(CaffeliteError, match="cannot be resumed"):
            edit.act(each.folder, "resume")
        [again] = second.step()
        assert (again.folder, again.slot or edit.find(root, again.id).slot) == (each.folder, "cpu")
        assert add(root) and not second.step(), "the resumed run holds the slot"
        while registry.state(each.folder) != job.RUNNING:
            time.sleep(0.02)
        assert len(registry.files.load(each.folder)["sessions"]) == 2
        edit.cancel(root, again.id)
        assert wait(root, again.id, job.STOPPED).reason == "paused"
    resumed = submit(root, ["train", "-solver=solver.prototxt", "-resume=auto", "-set=max_iter=9"])
    assert resumed.folder == each.folder
    assert edit.find(root, resumed.id).state == job.QUEUED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no command"),
        (["trian"], "train"),
        (["queue", "run"], "no job command"),
        (["train"], "Missing option"),
        (["train", "-solver", "solver.prototxt", "-st", "a=1"], "No such option"),
        (["train", "-solver", "solver.prototxt", "-overfit", "1"], "run folder"),
        (["train", "-solver", "solver.prototxt", "-record", "../elsewhere"], "not in the queue's folder"),
        (["train", "-solver", "solver.prototxt", "-max_time", "soon"], "expected 90s"),
        (["train", "-solver", "nosuch.prototxt"], "nosuch.prototxt"),
        (["dataset", "nosuch"], "digits"),
        (["dataset", "digits", "a"], "argument a"),
    ],
)
def test_words_that_the_command_refuses_are_no_job(root, words, message):
    with pytest.raises(CaffeliteError, match=message):
        submit(root, words)
    assert not job.jobs(root)


def test_a_damaged_job_file_is_no_job(root):
    each = add(root)
    text = json.loads((each.folder / files.JOB).read_text())
    (each.folder / files.JOB).write_text(json.dumps(text | {"command": "models"}))
    assert not job.jobs(root)
    (each.folder / files.JOB).write_text("{")
    assert not job.jobs(root)


def test_a_scanner_sees_changes(root):
    scanner = job.JobScanner(root)
    each = add(root)
    assert [one.id for one in scanner.jobs()] == [each.id]
    job.record_end(each.folder, each.id, job.FINISHED)
    time.sleep(2e-9 * registry.SETTLED)
    assert [one.state for one in scanner.jobs()] == [job.FINISHED]
    deeper = root / "a" / "b"
    deeper.mkdir(parents=True)
    edit.add(root, ["models"])
    assert [one.state for one in scanner.jobs()] == [job.FINISHED, job.QUEUED]
    edit.remove(root, each.id)
    assert [one.state for one in scanner.jobs()] == [job.QUEUED]


@pytest.mark.slow
def test_a_sweep_joins_the_queue(root, scheduler):
    (root / "net.prototxt").write_text(
        NET + 'layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" '
        "include { phase: TEST } }"
    )
    (root / "solver.prototxt").write_text(SOLVER + "test_iter: 1 test_interval: 2 random_seed: 1")
    config = SweepConfig(RunConfig("solver.prototxt"), ("base_lr=0.01,0.02",), first_seed=3)
    over = threading.Event()
    thread = threading.Thread(target=scheduler.run, args=(over.is_set,))
    thread.start()
    try:
        actual = Sweep(config, root / "trials", queue=edit.serving(root / "trials")).run()
    finally:
        over.set()
        thread.join()
    assert actual.complete
    assert len(actual.rows) == 2
    every = job.jobs(root)
    assert [each.folder.name for each in every] == ["trial_1_run", "trial_2_run"]
    assert {each.state for each in every} == {job.FINISHED}


@pytest.fixture
def sweep(root) -> Sweep:
    """Two trials of two iterations, which the sweep runs itself."""
    test = "test_iter: 1 test_interval: 2 test_initialization: false"
    (root / "solver.prototxt").write_text(f"{SOLVER} {test}")
    definition = SweepConfig(RunConfig("solver.prototxt", overrides=("max_iter=2",)), ("base_lr=0.01,0.02",))
    return Sweep(definition, root / "trials")


def without_locks(*_):
    raise OSError(38, "no locks")


@pytest.mark.slow
def test_a_sweep_where_the_file_system_has_no_locks(root, sweep, monkeypatch):
    start = "import fcntl\ndef without(*_): raise OSError(38, '')\nfcntl.flock = without\n"
    command = local.command
    begun = lambda words, folder: [start + w if "main()" in w else w for w in command(words, folder)]  # noqa: E731
    monkeypatch.setattr(local, "command", begun)
    monkeypatch.setattr(lock.fcntl, "flock", without_locks)
    assert [row.mean is not None for row in sweep.run().rows] == [True, True]
    assert {each.state for each in job.jobs(root)} == {job.FINISHED}


def test_a_released_lock_is_free_without_locks(root, monkeypatch):
    monkeypatch.setattr(lock.fcntl, "flock", without_locks)
    held = lock.FileLock(root / files.LOCK)
    assert lock.is_held(root)
    held.release()
    assert not lock.is_held(root)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    lock.FileLock(root / files.LOCK).describe({"process": child.pid})
    assert not lock.is_held(root), "its process has ended"


def test_a_trial_that_renames_an_earlier_folder_goes_on(root, monkeypatch):
    """Its job is not in the folder for an instant; only one that stays away was removed."""
    each, read, answers = add(root), job.read, [None]
    monkeypatch.setattr(job, "read", lambda folder: answers.pop() if answers else read(folder))
    assert trials_as_jobs._result(each) is None
    job.record_end(each.folder, each.id, job.STOPPED, "cancelled")
    edit.remove(root, each.id)
    assert trials_as_jobs._result(each) == (2, "its job was removed")


@pytest.mark.slow
def test_a_trial_whose_process_never_began_starts_anew(root, sweep):
    """Its scheduler took the record of the job, and both were killed then."""
    (root / "trials").mkdir()
    edit.submit_run(root / "trials", RunConfig("solver.prototxt", record="trials/trial_1_run"))
    [lost] = job.jobs(root)
    job.begin_accepted(lost.id)
    assert sweep.run().complete
    assert lost.id not in [each.id for each in job.jobs(root)]


def test_a_process_that_is_about_to_end_is_no_foreign_job(root, scheduler, monkeypatch, caplog):
    """It was killed before it began: its lock is free, and its end is still to be collected."""
    seen = root / "seen"
    script = f"""import os, time
os.close(int(os.environ["LOCK"]))
while not os.path.exists({str(seen)!r}):
    time.sleep(0.01)
os.abort()
"""
    start = process.start

    def started(job, held, words, slot, environment, bounds):
        command = [sys.executable, "-c", script]
        return start(job, held, command, slot, {**environment, "LOCK": str(held.fileno())}, bounds)

    monkeypatch.setattr(process, "start", started)
    each = add(root)
    assert scheduler.step()
    while edit.find(root, each.id).state == job.RUNNING:
        time.sleep(0.02)
    assert not scheduler.step() and not caplog.text
    seen.touch()
    while scheduler.children:
        scheduler.step()
        time.sleep(0.02)
    assert edit.find(root, each.id).reason == "its process ended with status -6"


def test_the_end_of_the_last_job_is_reported(root, scheduler, caplog):
    """A scheduler that stops when idle waits until it has collected the job's process."""
    caplog.set_level("INFO")
    each = add(root)
    scheduler.run(scheduler.idle)
    assert f"Job {each.id}: finished" in caplog.text
