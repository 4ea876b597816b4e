"""Which jobs a scheduler starts: those that this user added, as they were added, within their bounds, once."""

import dataclasses
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest
from tiny_project import NET, SOLVER
from turns import one_first

from caffelite.errors import CaffeliteError
from caffelite.prototxt.overrides import Overrides
from caffelite.runs import folder as files, limits, lock, state
from caffelite.runs.config import RunConfig
from caffelite.runs.limits import Bounds, of_solver
from caffelite.runs.queue import edit, job
from caffelite.runs.queue.edit import submit_run
from caffelite.runs.queue.local import Local, Slots
from caffelite.runs.queue.scheduler import Scheduler

PYTHON = 'layer { name: "p" type: "Python" top: "p" python_param { module: "evil" layer: "L" } }\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with a net, and a module that leaves a trace where it is imported."""
    folder = tmp_path / "root"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    (folder / "evil.py").write_text(f'open("{tmp_path}/trace", "w")\n')
    return folder


@pytest.fixture
def scheduler(root):
    actual = Scheduler(root, Local(Slots(cpu=2)))
    yield actual
    actual.close()


def run(scheduler, root, id, seconds=60):
    """Schedules until a job has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        scheduler.step()
        actual = edit.find(root, id)
        if actual.state not in job.PENDING:
            return actual
        time.sleep(0.05)
    raise AssertionError(f"the job does not end: {actual}")


def plant(root, folder="jobs/a", **fields):
    """A job.json that nobody added."""
    content = {"id": "1122-000000-aaaa", "kind": "summary", "command": ["summary", "--model=e.prototxt", "--python=."]}
    content |= {"working_directory": str(root), "gpus": "", "priority": 9, "order": 0.0, "after": [], "submitted": ""}
    (root / folder).mkdir(parents=True)
    (root / "e.prototxt").write_text(PYTHON)
    (root / folder / files.JOB).write_text(json.dumps(content | fields))


def test_a_planted_job_does_not_start_but_is_shown(root, scheduler, tmp_path):
    plant(root)
    plant(root, "run/b/c", id="1122-000000-bbbb", kind="train", command=["train", "--solver=solver.prototxt"])
    assert not scheduler.step() and scheduler.idle()
    for each in job.jobs(root):
        assert not each.accepted and f"caffelite queue accept {each.id}" in each.reason
    words = [sys.executable, "-m", "caffelite", "queue", "list"]
    assert "queue accept 1122-000000-aaaa" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("id", ["../x", "x; rm -rf", "-x", "", "a" * 99, "x\n"])
def test_an_id_that_no_queue_makes_is_no_job(root, id):
    plant(root, id=id)
    assert not job.jobs(root)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", ["summary", "--model=e.prototxt", "--python=."]),
        ("kind", "train"),
        ("working_directory", "/"),
        ("gpus", "none"),
        ("after", ["1122-000000-aaaa"]),
    ],
)
def test_a_job_that_was_changed_later_does_not_start(root, scheduler, field, value):
    added = edit.add(root, ["models"])
    path = added.folder / files.JOB
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    assert not scheduler.step()
    assert not edit.find(root, added.id).accepted


def test_changes_of_the_order_keep_a_job_accepted(root):
    one, two = edit.add(root, ["models"]), edit.add(root, ["models"])
    plant(root)
    edit.set_priority(root, one.id, 3)
    edit.move(root, two.id, position=1)
    edit.move(root, "1122-000000-aaaa", position=1)
    assert [each.id for each in job.jobs(root) if each.accepted] == [two.id, one.id]


def test_a_copied_job_does_not_start(root, scheduler):
    added = edit.add(root, ["models"])
    shutil.copytree(added.folder, root / "jobs" / "copy")
    assert [each.accepted for each in job.jobs(root)].count(True) == 1
    assert edit.find(root, added.id).folder == added.folder


def test_a_job_starts_once(root, scheduler):
    added = edit.add(root, ["models"])
    assert run(scheduler, root, added.id).state == job.FINISHED
    (added.folder / files.PROCESS).unlink()
    assert not scheduler.step()
    assert not edit.find(root, added.id).accepted
    assert not list((state.folder() / "jobs").glob(f"{added.id}*"))


@pytest.mark.parametrize("moment", one_first(["with the process", "before the process"]))
def test_a_job_whose_start_was_killed_has_crashed(root, tmp_path, moment):
    """Its scheduler, and its process if there was one, are killed between the record of the start and the first that
    the process writes; the job is the user's own, it is not started twice, and may be added again."""
    added = edit.add(root, ["models"])
    kill = f"""
import os, signal, sys
from contextlib import closing
from caffelite.runs.queue import local, process
from caffelite.runs.queue.scheduler import Scheduler
popen = process.subprocess.Popen
def start(*words, **options):
    if {moment == "with the process"}:
        child = popen([sys.executable, "-c", "import time; time.sleep(99)"], **options)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    os.kill(os.getpid(), signal.SIGKILL)
process.subprocess.Popen = start
with closing(Scheduler(".", local.Local(local.Slots(cpu=1)))) as scheduler:
    scheduler.step()
"""
    assert subprocess.run([sys.executable, "-c", kill], cwd=root).returncode == -9
    seen = edit.find(root, added.id)
    assert (seen.state, seen.accepted) == (job.KILLED, True) and "killed while it started" in seen.reason
    with closing(Scheduler(root, Local(Slots(cpu=1)))) as second:
        assert not second.step() and second.idle()
        assert edit.find(root, added.id) == dataclasses.replace(seen, ended=edit.find(root, added.id).ended)
        assert not list((state.folder() / "jobs").glob(f"{added.id}*"))
        again = edit.add(root, ["models"])
        assert run(second, root, again.id).state == job.FINISHED


def test_an_accepted_job_starts(root, scheduler):
    plant(root, command=["models"], kind="models")
    words = [sys.executable, "-m", "caffelite", "queue", "accept", "1122-000000-aaaa"]
    actual = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "accepted caffelite models" in actual.stderr
    assert run(scheduler, root, "1122-000000-aaaa").state == job.FINISHED


def test_the_folder_of_records_must_be_the_users_own(root, tmp_path, monkeypatch):
    (tmp_path / "open" / "jobs").mkdir(parents=True)
    (tmp_path / "open" / "jobs").chmod(0o777)
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "open"))
    with pytest.raises(CaffeliteError, match="other users can write"):
        edit.add(root, ["models"])
    assert not job.jobs(root)


def test_a_new_folder_of_records_is_the_users_alone(root, tmp_path, monkeypatch):
    """Also where new folders are writable for a group, as on systems whose users have groups of their own."""
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "home/state"))
    before = os.umask(0o002)
    try:
        assert state.made("jobs") == tmp_path / "home/state/jobs"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home/state").stat().st_mode) == 0o700


def test_links_in_a_job_folder_lead_nowhere(root, scheduler, tmp_path):
    """Neither what a job prints, nor records and locks, are written through a link."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    added = edit.add(root, ["models"])
    for name in (files.LOG, f".{files.PROCESS}.draft", f".{files.PROGRESS}.draft"):
        (added.folder / name).symlink_to(outside)
    run(scheduler, root, added.id)
    assert outside.read_text() == "mine"
    (root / "link").symlink_to(outside)
    with pytest.raises(OSError):
        lock.FileLock(root / "link")
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("how", [edit.PAUSE, edit.KILL])
def test_a_process_that_a_folder_names_is_not_ended(root, how):
    """The lock is held by a process, and names another one."""
    added = edit.add(root, ["models"])
    held = lock.FileLock(added.folder / files.JOB_LOCK)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        held.describe({"process": other.pid, "id": added.id, "slot": "cpu"})
        with pytest.raises(CaffeliteError, match="is not known"):
            edit.cancel(root, added.id, how)
        assert other.poll() is None
        other.kill()
    held.release()


# bounds, when a job starts


def test_python_layers_are_refused_when_a_job_starts(root, tmp_path):
    """The net got its Python layer after the job was added; the server has no -allow_python."""
    one = edit.add(root, ["summary", "--model=net.prototxt"], bounds=Bounds((root,), False))
    two = edit.add(root, ["test", "--model=net.prototxt", "--iterations=1"])
    three = edit.add(root, ["summary", "--model=net.prototxt", "--python=."])
    (root / "net.prototxt").write_text(PYTHON + NET)
    with closing(Scheduler(root, Local(Slots(cpu=3)), python=False)) as server:
        for each, text in ((one, "no Python layers"), (two, "no Python layers"), (three, "imports no modules")):
            actual = run(server, root, each.id)
            assert actual.state == job.FAILED and text in actual.reason
    assert not (tmp_path / "trace").exists()


BAD = 'layer { name: "o" type: "HDF5Output" bottom: "ip" bottom: "label" hdf5_output_param { file_name: "%s" } }'


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["train", "--solver=solver.prototxt", "--set=snapshot_prefix=OUT/x"], ""),
        (["train", "--solver=solver.prototxt", "--weights=a.caffemodel,OUT/b"], ""),
        (["train", "--solver=solver.prototxt"], BAD % "OUT/x.h5"),
        (["train", "--solver=solver.prototxt", '--set=o.hdf5_output_param.file_name="\\056\\056\\057x"'], BAD % "x"),
        (["train", "--solver=solver.prototxt"], PYTHON),
        (["train", "--solver=solver.prototxt", "--python=."], ""),
        (["train", "--solver=OUT/solver.prototxt"], ""),
        (["sweep", "--solver", "solver.prototxt", "--set", "base_lr=1,2"], BAD % "OUT/x.h5"),
        (["test", "--model=net.prototxt"], BAD % "../x.h5"),
        (["test", "--model", "net.prototxt", "--report", "link/report"], ""),
        (["dataset", "info", "list.txt"], ""),
        (["classify", "list.txt", "--model=net.prototxt"], ""),
        (["export", "--model=net.prototxt", "--out=../net.onnx"], ""),
    ],
)
def test_a_command_stays_in_its_bounds(root, tmp_path, words, text):
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "list.txt").write_text(f"{outside}/a.png 0\n")
    (root / "net.prototxt").write_text(NET + text.replace("OUT", str(outside)))
    with pytest.raises(CaffeliteError):
        limits.refuse_command(Bounds((root,), False), [word.replace("OUT", str(outside)) for word in words], root)


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--solver=solver.prototxt", "--set=base_lr=0.1", "--record=tiny_run", "--sigint_effect=stop"],
        ["sweep", "--solver=solver.prototxt", "--set=base_lr=0.1,0.2", "--queue", "--folder=tiny_sweep"],
        ["dataset", "digits"],
        ["new", "mine", "digits_train_lmdb", "--net=lenet", "--batch=32"],
    ],
)
def test_a_command_within_its_bounds_is_accepted(root, words):
    limits.refuse_command(Bounds((root,), False), words, root)


def test_the_users_state_is_below_no_root(tmp_path):
    with pytest.raises(CaffeliteError, match="not below a root"):
        Bounds((state.folder().parent,)).resolve("jobs", state.folder())


# the texts of a run


@pytest.mark.parametrize("setting", [(), ("ip.inner_product_param.num_output=3",)])
def test_a_queued_run_trains_with_the_texts_that_were_added(root, scheduler, setting):
    added = submit_run(root, RunConfig("solver.prototxt", overrides=setting))
    (root / "net.prototxt").write_text(NET.replace("num_output: 2", "num_output: 7"))
    (root / "solver.prototxt").write_text(SOLVER.replace("max_iter: 3", "max_iter: 5"))
    actual = run(scheduler, root, added.id)
    assert actual.state == job.FINISHED, actual.reason
    trained = (added.folder / files.SOLVER).read_text()
    assert "max_iter: 3" in trained and f"num_output: {3 if setting else 2}" in trained
    printed = (added.folder / files.OUTPUT).read_text()
    for name in ("net.prototxt", "solver.prototxt"):
        assert f"{root}/{name} has changed since this job was added; the job uses it as it was on" in printed


def test_a_queued_run_outlives_its_net(root, scheduler):
    added = submit_run(root, RunConfig("solver.prototxt"))
    (root / "net.prototxt").unlink()
    actual = run(scheduler, root, added.id)
    assert actual.state == job.FINISHED, actual.reason


def test_a_list_that_changed_is_named(root):
    """Lists are not copied: their digest shows the change."""
    (root / "list.txt").write_text("a.png 0\n")
    layer = 'layer { name: "i" type: "ImageData" top: "x" top: "y" image_data_param { source: "list.txt" } }'
    (root / "net.prototxt").write_text(layer + NET)
    texts = of_solver(root / "solver.prototxt", Overrides(), root)
    assert {path.rpartition("/")[2] for path in texts.copies} == {"solver.prototxt", "net.prototxt"}
    assert not list(texts.changed())
    (root / "list.txt").write_text("b.png 0\n")
    assert list(texts.changed()) == [str(root / "list.txt")]
