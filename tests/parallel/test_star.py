"""Processes that caffelite starts itself, as for several GPUs, here on the CPU."""

import re
import signal
import subprocess
import sys
import time

import jobs
import pytest
from launching import SOLVER, environment

from caffelite import caffelite_pb2 as pb
from caffelite.training.checkpoint import snapshot

LAUNCH = (
    "from caffelite.parallel.transports.star import launch; import sys;"
    " sys.exit(launch(['train', *sys.argv[2:]], int(sys.argv[1])))"
)


def launch(ranks: int, *options: str, **pipes) -> subprocess.Popen:
    words = [sys.executable, "-c", LAUNCH, str(ranks), "--solver=solver.prototxt", *options]
    return subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True, **pipes)


@pytest.mark.slow
def test_three_processes_train_as_one(folder):
    (folder / "solver.prototxt").write_text(SOLVER + 'snapshot_prefix: "run" display: 10')
    process = launch(3, "--scaling=strong")
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0, err
    assert "3 processes (started by caffelite, CPU), strong scaling: 4 samples each" in err
    assert err.count("Optimization Done.") == 1
    jobs.assert_as_one(folder / "run_iter_50.caffemodel", atol=1e-5)
    assert pb.SolverState.FromString((folder / "run_iter_50.solverstate").read_bytes()).resume.source[0].samples == 600


def endless(folder, **more):
    text = SOLVER.replace("max_iter: 50", "max_iter: 1000000") + 'snapshot_prefix: "run" display: 20'
    (folder / "solver.prototxt").write_text(text)
    process = launch(2, **more)
    while "Iteration 20 " not in (line := process.stderr.readline()):
        assert line, process.poll()
    return process


@pytest.mark.slow
def test_a_signal_to_the_one_that_started_them_stops_all(folder, started):
    process = endless(folder)
    started.append(process)
    process.send_signal(signal.SIGTERM)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and "Optimization stopped early." in err
    assert len(list(folder.glob("run_iter_*.solverstate"))) == 1


@pytest.mark.slow
def test_one_that_is_killed_ends_all(folder, started):
    process = endless(folder)
    started.append(process)
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    assert len(children) == 2
    subprocess.run(["kill", "-9", children[1]], check=True)
    begin = time.monotonic()
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 137 and re.search(r"rank 1 died: it was killed", err), err
    assert time.monotonic() - begin < 30


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux to tell children of their parent's end")
def test_the_one_that_started_them_is_killed(folder, started):
    process = endless(folder)
    started.append(process)
    process.kill()
    err = process.communicate(timeout=60)[1]  # to the end: until the last of them has let go of standard error
    assert "Optimization stopped early." in err and "last place" not in err
    (state,) = folder.glob("run_iter_*.solverstate")
    assert snapshot.sound(state)


def test_mistakes_are_reported_once(folder):
    (folder / "solver.prototxt").write_text(SOLVER.replace("mlp.prototxt", "absent.prototxt"))
    process = launch(2)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and err.count("absent.prototxt") == 1, err
