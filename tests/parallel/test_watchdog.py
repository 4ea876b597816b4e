"""The rank's side of the watchdog, and its guard without a job."""

import os
import time

import pytest

from caffelite.parallel import watchdog_process as watchdog
from caffelite.parallel.watchdog import COLLECTIVES, Watchdog


def test_unknown_collective_names_rank_and_choices():
    own = object.__new__(Watchdog)  # without its process
    own._rank = 3
    with pytest.raises(ValueError, match='^rank 3: unknown collective "a party"; expected one of ') as error:
        with own.waiting("a party"):
            pass
    assert all(name in str(error.value) for name in COLLECTIVES)


def report(**more) -> dict:
    """What a rank tells its guard."""
    told = {"rank": 0, "host": "h", "pid": 1, "ticks": 1, "iteration": 5, "since": 5}
    told |= {"what": watchdog.FORWARD, "where": 0}
    told |= {"peer": watchdog.NOBODY, "names": ["a"], "collectives": ["gradients"], "error": "", "done": False}
    return told | {"lost": None, "stopped": False} | more


def test_who_waits_is_not_to_blame():
    judge = watchdog.WatchdogProcess(0, {"rank": 0, "size": 3, "pid": os.getpid(), "limit": 10})
    states = (watchdog.WAITING, watchdog.NOBODY), (watchdog.BACKWARD, watchdog.NOBODY), (watchdog.FORWARD, 1)
    for rank, (what, peer) in enumerate(states):
        judge.record(report(rank=rank, what=what, peer=peer))
    now = time.monotonic()
    judge.look_for_hangs(now + 5)
    assert not judge.reason
    for told in judge.reports.values():
        told["heard"] = now + 11
    judge.look_for_hangs(now + 11)
    assert list(judge.reason) == [1] and judge.reason[1].startswith("hangs")
    assert watchdog.place(judge.reports[2]) == "iteration 5, forward, waiting for rank 1"


@pytest.mark.parametrize("what, since, seconds", [(watchdog.SNAPSHOT, 5, 50), (watchdog.FORWARD, 0, 50)])
def test_slow_starts_and_snapshots_have_more_time(what, since, seconds):
    judge = watchdog.WatchdogProcess(0, {"rank": 0, "size": 1, "pid": os.getpid(), "limit": 10})
    told = report(since=since, what=what)
    judge.record(told)
    now = time.monotonic()
    for later, guilty in ((seconds, []), (101, [0])):
        told["heard"] = now + later
        judge.look_for_hangs(now + later)
        assert list(judge.reason) == guilty


def test_a_job_that_is_suspended_as_a_whole_is_left_alone():
    judge = watchdog.WatchdogProcess(0, {"rank": 0, "size": 1, "pid": os.getpid(), "limit": 1})
    told = report(stopped=True)
    judge.record(told)
    told["heard"] = time.monotonic() + 100
    judge.look_for_hangs(told["heard"])
    assert not judge.reason
