"""Signals to a real process of `caffelite train`, and standard streams that are closed."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-c", "from caffelite.cli import main; main()", "train", "-solver", "solver.prototxt"]


@pytest.fixture
def endless(folder):
    """Starts a run of a billion iterations; ends it at the latest with the test."""
    text = (folder / "solver.prototxt").read_text()
    text = text.replace("max_iter: 20", "max_iter: 1000000000").replace("snapshot: 10", "snapshot: 0")
    text = text.replace("display: 5", "display: 100").replace("test_interval: 10", "test_interval: 500")
    (folder / "solver.prototxt").write_text(text)
    started = []

    def start(*options, wait_for="Iteration 100,", solver=None, **pipes):
        pipes = {"stderr": subprocess.PIPE, **pipes}
        process = subprocess.Popen([*COMMAND, *options], text=True, **pipes)
        started.append(process)
        while wait_for and wait_for not in process.stderr.readline():
            assert process.poll() is None
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def states(folder):
    return sorted(int(re.search(r"_(\d+)\.", path.name)[1]) for path in folder.glob("run_iter_*.solverstate"))


def test_hup_snapshots_and_goes_on_until_term(folder, endless):
    process = endless("-sigint_effect", "none")
    process.send_signal(signal.SIGHUP)
    while "Snapshotting solver state" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)  # does nothing
    while "Iteration " not in process.stderr.readline():
        assert process.poll() is None
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143 and len(states(folder)) == 2


@pytest.mark.slow
def test_effects_of_the_options(folder, endless):
    process = endless("-sigint_effect", "snapshot", "-sighup_effect", "stop")
    process.send_signal(signal.SIGINT)
    while "Snapshotting solver state" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0 and len(states(folder)) in (1, 2), (
        "the second may come within the iteration of the first"
    )


@pytest.mark.slow
def test_a_signal_amid_a_test(folder, endless):
    """A test of a billion batches is broken off."""
    text = (folder / "solver.prototxt").read_text()
    (folder / "solver.prototxt").write_text(text.replace("test_iter: 2", "test_iter: 1000000000"))
    process = endless(wait_for="Testing net")
    process.terminate()
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and "Test interrupted." in err and states(folder) == [0]


def test_a_signal_while_starting_up(folder, endless):
    """It is kept until the loop begins, which ends after an iteration with a snapshot."""
    process = endless(wait_for="Use CPU.")
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "Traceback" not in err and len(states(folder)) == 1


@pytest.mark.slow
def test_sigusr1_ends_with_a_snapshot_and_a_status_of_its_own(folder, endless):
    process = endless()
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert process.returncode == 138 and len(states(folder)) == 1


def test_a_second_signal_ends_at_once():
    """Where the iteration does not finish."""
    code = """
import os, signal
from caffelite.runs.launch import Signals
with Signals() as signals:
    os.kill(os.getpid(), signal.SIGINT)
    while not signals.requests.stop: pass
    os.kill(os.getpid(), signal.SIGTERM)
    while True: pass
"""
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 143 and done.stderr.count(b"\n") == 1


def test_standard_error_that_is_closed_does_not_end_the_run(folder, endless):
    """As when the terminal or `| head` is gone: it trains on, snapshots, and its status is what it would have been."""
    process = endless()
    process.stderr.close()
    time.sleep(0.3)
    assert process.poll() is None
    for snapshots in 1, 2:  # the second, of a later iteration, shows that it trains on
        process.send_signal(signal.SIGHUP)
        while len(states(folder)) < snapshots:
            assert process.poll() is None
            time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=60) == 143
    assert len(states(folder)) in (2, 3), "the end may come within the iteration of the second"


@pytest.mark.slow
def test_streams_closed_from_the_start(folder):
    command = " ".join(f"'{part}'" for part in COMMAND) + " -iterations 3"
    assert os.system(f"{command} 0<&- 1>&- 2>&-") == 0
    assert states(folder) == [3]
