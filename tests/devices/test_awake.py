"""Cores that are kept awake between regions of threads."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from caffelite import system
from caffelite.devices.cpu import awake
from caffelite.devices.cpu.kernels import awake as kernels

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="of Linux alone")
CORES = len(system.usable_cores())


@pytest.fixture
def cores(monkeypatch):
    """Regions use all cores, and take so many seconds as ``lapses`` says, one after the other."""
    monkeypatch.setattr(awake.AwakeCores, "_region", lambda self: self.lapses.pop(0))
    monkeypatch.setattr(awake, "processor_limit", lambda: None)
    monkeypatch.setattr(awake, "usable_cores", system.usable_cores)
    made = awake.AwakeCores(CORES)
    made.decided, made.lapses = False, []
    yield made
    made.stop()


def run(cores, passes=awake.PASSES):
    for _ in range(passes):
        cores.note_pass()


def keepers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("awake-")]


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_keepers_spin_only_where_nobody_wants_the_core(cores):
    cores.lapses = [50e-6, 10e-6]
    run(cores)
    assert len(keepers()) == CORES
    for thread, core in zip(keepers(), system.usable_cores(), strict=True):
        assert os.sched_getscheduler(thread.native_id) == os.SCHED_IDLE
        assert os.sched_getaffinity(thread.native_id) == {core}
    cores.stop()
    wait_until(lambda: not keepers())


def test_keepers_that_save_little_are_stopped(cores):
    cores.lapses = [20e-6, 18e-6]
    run(cores)
    assert cores.decided and not cores.lapses
    wait_until(lambda: not keepers())


def test_passes_that_take_long_start_nothing(cores):
    for _ in range(awake.FIRST + 1):
        cores.note_pass()
    time.sleep(3 * awake.QUICK)
    cores.note_pass()
    assert cores.decided and not keepers()


@pytest.mark.parametrize("obstacle", ["limit", "threads", "refusal", "setting"])
def test_no_keepers_where_spinning_would_cost(cores, obstacle, monkeypatch):
    cores.lapses = [50e-6, 10e-6]
    if obstacle == "limit":
        monkeypatch.setattr(awake, "processor_limit", lambda: CORES - 0.5)
    if obstacle == "threads":
        monkeypatch.setattr(awake, "usable_cores", lambda: range(CORES + 1))
    if obstacle == "refusal":
        monkeypatch.setattr(os, "sched_setscheduler", lambda *_: (_ for _ in ()).throw(PermissionError("no")))
    if obstacle == "setting":
        monkeypatch.setenv("CAFFELITE_AWAKE", "0")
        cores = awake.AwakeCores(CORES)
    run(cores)
    assert cores.decided
    wait_until(lambda: not keepers())


def test_one_thread_has_nothing_to_wait_for():
    assert awake.AwakeCores(1).decided


def test_a_keeper_sleeps_while_nothing_runs():
    state = np.zeros(3, np.int64)
    thread = threading.Thread(target=kernels.keep_awake, args=(state,), daemon=True)
    thread.start()

    def system_state():
        return Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()[0]

    try:
        wait_until(lambda: state[kernels.STARTED])
        wait_until(lambda: system_state() == "S")
        state[kernels.PASSES] += 1
        wait_until(lambda: system_state() == "R")
    finally:
        state[kernels.STOP] = 1
        thread.join(5)
    assert not thread.is_alive()


def test_a_process_with_keepers_ends():
    code = (
        "from caffelite.devices.cpu import awake; cores = awake.AwakeCores(2); cores.decided = True; cores._start();"
        "print('started')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.returncode) == (["started"], 0), done.stderr


def test_the_limit_of_a_container(tmp_path, monkeypatch):
    class Files(type(tmp_path)):
        def __new__(cls, path):
            return super().__new__(cls, str(path).replace("/sys/fs/cgroup", str(tmp_path)))

    monkeypatch.setattr(system, "Path", Files)
    assert system.processor_limit() is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert system.processor_limit() is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert system.processor_limit() == 1.5
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert system.processor_limit() == 1.5
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("50000\n")
    assert system.processor_limit() == 0.5
