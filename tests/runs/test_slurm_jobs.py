"""Tests of what a queue makes of SLURM's words, with programs that say them."""

import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from caffelite.cli import caffelite
from caffelite.errors import CaffeliteError
from caffelite.runs import folder as files, state
from caffelite.runs.queue import edit, job, slurm_jobs
from caffelite.runs.queue.scheduler import Scheduler
from caffelite.runs.queue.slurm import Slurm, SlurmOptions, Task


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder of programs, the only one that is searched, and a new table."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(slurm_jobs, "_table", slurm_jobs._Table())
    monkeypatch.setattr(slurm_jobs, "LIFE", -1.0)
    return folder


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "queue"
    folder.mkdir()
    return folder


def write(folder: Path, name: str, lines: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
    (folder / name).chmod(0o755)


def submitted(root: Path, **process) -> job.Job:
    """A job that SLURM has. process: what its process recorded."""
    added = edit.add(root, ["models"])
    slurm_jobs.record(added.folder, added.id)
    job.begin_accepted(added.id)
    if process:
        files.write_json(
            added.folder / files.PROCESS, {"id": added.id, "started": "2026-01-01T00:00:00+0000", **process}
        )
    return added


def says(programs: Path, added: job.Job, state: str, reason: str = "None", nodes: str = "") -> None:
    write(
        programs,
        "squeue",
        f'echo "7|{slurm_jobs.PREFIX}{added.id}|{state}|{reason}|{nodes}"; echo "9|other|RUNNING||n9"',
    )


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "Resources", (job.QUEUED, "waits in SLURM: Resources", "")),
        ("REQUEUED", "None", (job.QUEUED, "waits in SLURM: REQUEUED", "")),
        ("RUNNING", "None", (job.RUNNING, "", "node n[1-2]")),
        ("COMPLETING", "None", (job.RUNNING, "in SLURM: completing", "node n[1-2]")),
        ("COMPLETED", "None", (job.FINISHED, "", "")),
        ("FAILED", "NonZeroExitCode", (job.FAILED, "it failed in SLURM", "")),
        ("CANCELLED", "None", (job.STOPPED, "cancelled in SLURM", "")),
        ("TIMEOUT", "TimeLimit", ("out of time", "its time in SLURM is over: TimeLimit", "")),
        ("NODE_FAIL", "None", (job.KILLED, "its node failed", "")),
    ],
)
def test_a_state_of_slurm_is_one_of_the_queue(programs, root, state, reason, expected):
    added = submitted(root)
    says(programs, added, state, reason, "n[1-2]")
    seen = edit.find(root, added.id)
    assert (seen.state, seen.reason, seen.slot, seen.slurm) == (*expected, "7")


def test_a_requeued_job_waits_though_its_process_recorded_an_end(programs, root):
    added = submitted(root, ended="2026-01-01T00:01:00+0000", state=job.STOPPED, reason="SIGTERM", status=143)
    says(programs, added, "PENDING", "BeginTime")
    assert (edit.find(root, added.id).state, edit.find(root, added.id).reason) == (
        job.QUEUED,
        "requeued, waits in SLURM: BeginTime",
    )
    says(programs, added, "FAILED")
    assert edit.find(root, added.id).reason == "SIGTERM"


def test_a_forgotten_job_is_what_its_process_recorded(programs, root):
    write(programs, "squeue", "true")
    assert edit.find(root, submitted(root).id).state == job.KILLED
    ended = submitted(root, ended="2026-01-01T00:01:00+0000", state=job.FAILED, reason="no disk", status=2)
    assert (edit.find(root, ended.id).state, edit.find(root, ended.id).reason) == (job.FAILED, "no disk")


@pytest.mark.parametrize("lines", ["", "echo slurm_load_jobs error >&2; exit 1"])
def test_a_job_goes_on_where_slurm_does_not_answer(programs, root, lines):
    if lines:
        write(programs, "squeue", lines)
    seen = edit.find(root, submitted(root).id)
    assert seen.state == job.QUEUED
    assert "squeue" in seen.reason
    assert edit.find(root, submitted(root, state="").id).state == job.RUNNING


def test_an_answer_is_younger_than_the_submission(programs, root, monkeypatch):
    monkeypatch.setattr(slurm_jobs, "LIFE", 1e9)
    write(programs, "squeue", "true")
    first = submitted(root)
    assert edit.find(root, first.id).state == job.KILLED
    second = submitted(root)
    says(programs, second, "RUNNING", nodes="n1")
    assert edit.find(root, second.id).state == job.RUNNING


def test_the_order_of_submitted_jobs_is_that_of_slurm(programs, root):
    added = submitted(root)
    says(programs, added, "PENDING", "Priority")
    with pytest.raises(CaffeliteError, match="SLURM decides when job"):
        edit.move(root, added.id, position=1)
    write(programs, "scontrol", f'echo "$@" > {programs}/asked')
    assert edit.set_priority(root, added.id, 5).priority == 5
    assert (programs / "asked").read_text() == "update JobId=7 Nice=-5\n"
    write(programs, "scontrol", "echo Access denied >&2; exit 1")
    with pytest.raises(CaffeliteError, match="scontrol update failed.*Access denied"):
        edit.set_priority(root, added.id, 6)


def test_cancel_of_a_waiting_job_reaches_slurm(programs, root):
    added = submitted(root)
    says(programs, added, "PENDING", "Priority")
    write(programs, "scancel", f'echo "$@" > {programs}/asked')
    assert edit.cancel(root, added.id).state == job.STOPPED
    assert (programs / "asked").read_text() == "7\n"


@pytest.fixture
def engine(programs, root):
    write(programs, "srun", "true")
    write(programs, "sbatch", f'echo sbatch >> {programs}/asked; echo "Submitted batch job 7"')
    return Slurm(SlurmOptions(more=("account=vision",)))


def test_a_job_is_submitted_once_with_its_options(programs, root, engine):
    added = edit.add(root, ["models"], priority=3)
    (programs / "asked").unlink()
    with closing(Scheduler(root, engine)) as scheduler:
        assert [each.id for each in scheduler.step()] == [added.id]
        says(programs, added, "PENDING")
        assert not scheduler.step()
    assert (programs / "asked").read_text() == "sbatch\n"
    script = next((state.folder() / "slurm").glob("7_*.sh")).read_text()
    for option in (f"job-name=caffelite-{added.id}", "account=vision", "nice=-3", "requeue", "time=1440"):
        assert f"#SBATCH --{option}" in script


def test_what_a_killed_scheduler_submitted_is_submitted_anew(programs, root, engine):
    added = edit.add(root, ["models"])
    slurm_jobs.record(added.folder, added.id)  # and the scheduler died behind sbatch
    says(programs, added, "PENDING")
    write(programs, "scancel", f'echo scancel "$@" >> {programs}/asked')
    (programs / "asked").unlink()
    with closing(Scheduler(root, engine)) as scheduler:
        assert len(scheduler.step()) == 1
    assert (programs / "asked").read_text() == "scancel 7\nsbatch\n"


def test_an_end_is_recorded_before_slurm_forgets_it(programs, root, engine):
    added = submitted(root)
    says(programs, added, "TIMEOUT")
    with closing(Scheduler(root, engine)) as scheduler:
        scheduler.step()
    write(programs, "squeue", "true")
    assert edit.find(root, added.id).state == "out of time"


def test_a_refused_job_fails_and_one_without_a_controller_waits(programs, root, engine):
    refused = edit.add(root, ["models"])
    write(programs, "sbatch", "echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1")
    with closing(Scheduler(root, engine)) as scheduler:
        assert not scheduler.step()
        assert "invalid partition" in edit.find(root, refused.id).reason
        write(programs, "sbatch", "echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1")
        waiting = edit.add(root, ["models"])
        assert not scheduler.step()
    assert edit.find(root, waiting.id).state == job.QUEUED


def test_options_that_cannot_be_read_are_refused():
    for text in ("Account=x", "=x", "comment=a\nb"):
        with pytest.raises(CaffeliteError, match="an option for SLURM cannot be read"):
            SlurmOptions(more=(text,))


def test_missing_programs_and_packages_are_named(programs, root, monkeypatch):
    done = CliRunner().invoke(caffelite, ["queue", "run", "--root", str(root), "--partition", "gpu"])
    assert (done.exit_code, "-partition belongs to -engine slurm" in done.output) == (2, True)
    with pytest.raises(CaffeliteError, match="SLURM is not installed here: no sbatch"):
        Slurm(SlurmOptions())
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(CaffeliteError, match=r"-engine slurm needs submitit.*\n?.*caffelite\[slurm\]"):
        Slurm(SlurmOptions())


@pytest.mark.parametrize(
    ("restarts", "began", "expected"),
    [
        ("0", "2026-01-01T10:00:05+0000", ["--snapshot=a_iter_5.solverstate"]),
        ("1", "2026-01-01T09:00:05+0000", ["--snapshot=a_iter_5.solverstate"]),
        ("1", "2026-01-01T12:00:00+0200", ["--resume=auto"]),
    ],
)
def test_a_requeued_training_continues_its_own_session_only(tmp_path, monkeypatch, restarts, began, expected):
    files.write_json(tmp_path / files.RUN, {"sessions": [{"run": "a", "started": began}]})
    words = ["train", "--solver=solver.prototxt", "--snapshot=a_iter_5.solverstate"]
    task = Task(str(tmp_path), "1", words, True, str(tmp_path), "log.txt", "2026-01-01T10:00:00+0000", {})
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    assert task._continued() == ["train", "--solver=solver.prototxt", *expected]


def test_a_command_that_cannot_continue_is_not_requeued(tmp_path):
    assert Task(str(tmp_path), "1", ["models"], False, str(tmp_path), "log.txt", "", {}).checkpoint() is None
