"""A rank that fails ends the job: soon, with a status, saying where every rank was; and what was snapshotted stands."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import lmdb
import pytest
from launching import COMMAND, MLP, SOLVER, environment, finish, mpirun, needs_mpi

from caffelite.runs import registry
from caffelite.training.checkpoint import atomic_files, snapshot

pytestmark = [needs_mpi, pytest.mark.mpi]
LAYER = """
layer { name: "fault" type: "Python" bottom: "data" top: "data"
  python_param { module: "faults" layer: "Fault" param_str: "%s" } }
"""
# What a rank does to itself at an iteration, here in the midst of its net.
FAULTS = """
import os, resource, signal, time

class Fault:
    def setup(self, bottom, top):
        self.what, self.rank, at = self.param_str.split()
        self.left = int(at) if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == self.rank else -1
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)
    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data
        self.left -= 1
        if self.left == 0:
            if self.what == "kill":
                # rank 0 may still be writing it
                while self.rank != "0" and not os.path.exists("run_iter_6.solverstate"):
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            if self.what == "sleep":
                time.sleep(1000)
            if self.what == "raise":
                raise ValueError("a bug in a layer")
            if self.what == "full":
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    def backward(self, top, propagate_down, bottom):
        pass
"""


def job(folder, fault: str, *options: str, solver: str = "", ranks: int = 2):
    """A run that snapshots every third iteration, with a layer that does this."""
    (folder / "faults.py").write_text(FAULTS)
    net = MLP.replace('layer { name: "relu1"', LAYER % fault + 'layer { name: "relu1"') if fault else MLP
    (folder / "mlp.prototxt").write_text(net)
    text = SOLVER.replace("max_iter: 50", "max_iter: 1000000") + f'snapshot: 3 snapshot_prefix: "run" {solver}'
    (folder / "solver.prototxt").write_text(text)
    return mpirun(ranks, *COMMAND, "-python", ".", *options, cwd=folder)


def end(process, within: float = 60) -> str:
    err = process.communicate(timeout=within)[1]
    assert process.returncode != 0, err
    return err


def the_last_snapshot_stands(folder, least: int = 3):
    states = snapshot.states(folder / "run")
    atomic_files.remove_stale(folder / "run")  # as the next run does, of one that was killed amid a snapshot
    assert states and not list(folder.glob("*.draft"))
    assert all(snapshot.sound(path) for _, path in states) and states[0][0] >= least


def places(err: str) -> dict[int, str]:
    """What is reported of each rank."""
    return {int(m[1]): m[2] for m in re.finditer(r"^  rank (\d+) \(.+?, process \d+\): (.*)$", err, re.MULTILINE)}


def assert_reported(folder, err: str, fault: str, reported: str, how: str) -> None:
    failing = int(fault.split()[1])
    assert re.search(reported, err), err
    actual = places(err)
    assert actual[failing].startswith(f'iteration 6, forward, in layer "fault"  <- {how}'), err
    elsewhere = "waiting in the all-reduce of gradients|backward|forward|update|snapshot"
    assert re.match(f"iteration [5-7], ({elsewhere})", actual[1 - failing]), err
    assert "<- died" not in actual[1 - failing], "one rank was killed"
    assert "continue with -resume auto" in err
    the_last_snapshot_stands(folder, 6 if failing else 3)
    run = registry.read(folder / "run_run")
    recorded = ("failed", True) if failing else ("killed", False)
    assert (run.state, bool(re.search(reported, run.reason))) == recorded, run


@pytest.mark.parametrize(
    "fault, reported, how",
    [
        ("stop 1 7", "rank 1 is stopped by a signal and has made no progress for", "is stopped"),
        ("sleep 1 7", "rank 1 hangs: it has made no progress for", "hangs"),
        ("raise 1 7", 'rank 1 ended: .*layer "fault".*a bug in a layer', "ended"),
        ("kill 0 7", "rank 0 died: it was killed", "died"),
    ],
    ids=["SIGSTOP", "hang", "exception", "kill -9 of rank 0"],
)
def test_a_rank_that_fails(folder, started, fault, reported, how):
    process = job(folder, fault, "-hang_seconds", "2")
    started.append(process)
    assert_reported(folder, end(process), fault, reported, how)


def test_a_killed_job_starts_again_by_itself(folder, started):
    """What SLURM or Kubernetes do: the same command again."""
    process = job(folder, "kill 1 7")
    started.append(process)
    assert_reported(folder, end(process), "kill 1 7", "rank 1 died: it was killed", "died")
    err = finish(job(folder, "kill 1 100000", "-resume", "auto", "-iterations", "4"))
    assert registry.state(folder / "run_run") == "finished" and not (folder / "run_run/outcome.json").exists()
    assert re.search(r"Resuming from run_iter_(3|6)\.solverstate", err) and "Optimization Done." in err


def test_data_that_one_rank_cannot_read(folder, started):
    """Record 90 is in the share of rank 1: the second half of the fourth batch of 24."""
    with lmdb.open(str(folder / "images")) as env, env.begin(write=True) as transaction:
        keys = [key for key, _ in transaction.cursor()]
        transaction.put(keys[90], b"no record")
    process = job(folder, "")
    started.append(process)
    err = end(process)
    assert "not a Datum record" in err and 'record "' in err


def test_a_full_disk_at_a_snapshot(folder, started):
    """It fills up after the first snapshot: rank 0 may write files of 4 KB from its fifth iteration on."""
    process = job(folder, "full 0 5")
    started.append(process)
    err = end(process)
    assert "cannot write run_iter_6.caffemodel" in err and "file too large" in err
    assert "rank 0 ended: cannot write" in err and places(err)[0].startswith("iteration 6, snapshot")
    the_last_snapshot_stands(folder)


def ranks_in(folder) -> list[int]:
    """The processes of a job: those that train there."""
    actual = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if (process / "cwd").resolve() == folder and b"train" in words and words[0].endswith(COMMAND[0].encode()):
                actual.append(int(process.name))
    return sorted(actual)


def wait_for(folder, name: str, process) -> None:
    until = time.monotonic() + 60
    while not (folder / name).exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)


def assert_a_signal_to_one_rank_stops_all(folder, process, number: signal.Signals, status: int) -> None:
    ranks = ranks_in(folder)
    assert len(ranks) == 2 and registry.state(folder / "run_run") == "running"
    os.kill(ranks[-1], number)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == status, err
    assert err.count("Optimization stopped early.") == 1 and "last place" not in err
    assert registry.read(folder / "run_run").reason == f"stopped by a signal: {number.name}"
    the_last_snapshot_stands(folder)


def test_ctrl_c_to_one_rank_stops_all(folder, started):
    process = job(folder, "", solver="display: 1")
    started.append(process)
    wait_for(folder, "run_iter_3.solverstate", process)
    assert_a_signal_to_one_rank_stops_all(folder, process, signal.SIGINT, 0)


def test_a_second_job_is_refused_and_the_first_ended(folder, started):
    """The second has the prefix of the first."""
    process = job(folder, "", solver="display: 1")
    started.append(process)
    wait_for(folder, "run_iter_3.solverstate", process)
    second = mpirun(2, *COMMAND, cwd=folder)
    started.append(second)
    err = second.communicate(timeout=60)[1]
    refusal = "writes snapshots under run; let it end, or give this run a prefix"
    assert second.returncode == 2 and err.count(refusal) == 1, err
    assert_a_signal_to_one_rank_stops_all(folder, process, signal.SIGTERM, 143)


def test_ctrl_c_behind_a_pipe_that_it_closes(folder, started):
    """As in `mpirun ... 2>&1 | tee log`: the terminal sends the signal to tee too, which ends at once."""
    process = job(folder, "", solver="display: 1")
    started.append(process)
    wait_for(folder, "run_iter_3.solverstate", process)
    process.stderr.close()
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    process.stderr = process.stdout = None
    before, end = snapshot.states(folder / "run"), time.monotonic() + 60
    while ranks_in(folder):  # a rank may be writing its last snapshot
        assert time.monotonic() < end, "nobody trains on"
        time.sleep(0.05)
    states = snapshot.states(folder / "run")
    assert snapshot.sound(states[0][1]) and states in (before, [states[0], *before])
    time.sleep(0.5)
    assert not ranks_in(folder)
    assert states == snapshot.states(folder / "run"), "nobody trains on"


def guards_in(folder) -> dict[int, int]:
    """The guard process of each rank of a job."""
    actual = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if b"watchdog_process.py" in (process / "cmdline").read_bytes() and parent in ranks_in(folder):
                words = Path(f"/proc/{parent}/environ").read_bytes().split(b"\0")
                (rank,) = (word for word in words if word.startswith((b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK=")))
                actual[int(rank.split(b"=")[1])] = int(process.name)
    return actual


@pytest.mark.parametrize("rank", [0, 1])
def test_a_guard_that_dies_is_named(folder, started, rank):
    """Not the rank that it watched, which runs."""
    process = job(folder, "")
    started.append(process)
    wait_for(folder, "run_iter_3.solverstate", process)
    os.kill(guards_in(folder)[rank], signal.SIGKILL)
    err = end(process)
    reported = {
        0: "caffelite: rank 1 ends: the watchdog of rank 0 died",
        1: "rank 1 lost its watchdog: that process died, the rank itself runs",
    }
    assert reported[rank] in err and not re.search("rank 0 or its machine|(?<!watchdog of )rank 0 died", err), err


def test_an_mpirun_without_its_mpi(folder):
    """As where the mpirun of another MPI started the processes: each sees itself alone."""
    (folder / "solver.prototxt").write_text(SOLVER)
    alone = {**environment(), "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
    done = subprocess.run(COMMAND, env=alone, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the MPI of mpi4py sees other processes than were started; expected 4, found 1" in done.stderr
    assert "Traceback" not in done.stderr
