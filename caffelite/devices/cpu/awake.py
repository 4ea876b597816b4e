"""Cores that do not sleep between the regions of threads of a net that runs pass after pass.

A core that has nothing to run halts. To wake it takes some microseconds, in virtual machines up to a hundred, and a
small net has a region of threads every hundred. Threads that spin instead for so long would take the core from other
programs. So each core gets a thread of the scheduling class SCHED_IDLE: it spins only while nobody else wants the core,
and whoever does gets it at once.
"""

import functools
import logging
import os
import statistics
import threading
import time

import numpy as np

from ...system import processor_limit, usable_cores
from .kernels import awake

log = logging.getLogger("caffelite")

FIRST, PASSES = 3, 20  # after how many passes their time counts, and after how many it is worth measuring
QUICK = 0.1  # seconds of a pass, above which waking a core costs nothing beside it
ROUNDS, PER_ROUND = 5, 8  # of the measurement
PAUSE = 2e-4  # seconds in which the threads of a region fall asleep
GAIN = 0.75  # of the time of a region of sleeping threads: a keeper that saves less is not worth its spinning


class AwakeCores:
    """Keeps the cores awake if a region of sleeping threads then starts sooner, which is measured once, after some
    passes. threads: those of a region."""

    def __init__(self, threads: int):
        self._threads, self._begin = threads, 0.0
        self._state, self._keepers = np.zeros(3, np.int64), list[threading.Thread]()
        self.decided = threads < 2 or os.environ.get("CAFFELITE_AWAKE") == "0"

    def note_pass(self) -> None:
        """Called for each pass."""
        self._state[awake.PASSES] += 1
        if self.decided:
            return
        passes, now = int(self._state[awake.PASSES]), time.perf_counter()
        if passes <= FIRST:  # what is compiled and measured in the first passes takes its time
            self._begin = now
        elif now - self._begin > QUICK * (passes - FIRST):
            self.decided = True
        elif passes >= PASSES:
            self.decided = True
            self._choose()

    def _choose(self) -> None:
        if not self._may_spin():
            return
        before = self._region()
        if not self._start():
            return
        after = self._region()
        log.debug("a region of sleeping threads takes %.1f µs, with cores kept awake %.1f", before * 1e6, after * 1e6)
        if after > GAIN * before:
            self.stop()

    def _may_spin(self) -> bool:
        """Whether threads that spin take nothing from others, or from this process: there is such a scheduling class,
        regions use all cores, and processor time is not limited."""
        limit = processor_limit()
        cores = len(usable_cores())
        return hasattr(os, "SCHED_IDLE") and self._threads == cores and (limit is None or limit >= cores)

    def _region(self) -> float:
        """The seconds of a region whose threads sleep. Other programs may interrupt: of the rounds' medians the
        least."""
        awake.wake(self._threads)
        return min(statistics.median(self._after_pause() for _ in range(PER_ROUND)) for _ in range(ROUNDS))

    def _after_pause(self) -> float:
        self._state[awake.PASSES] += 1  # so that keepers stay awake
        begin = time.perf_counter()
        while time.perf_counter() - begin < PAUSE:
            pass
        begin = time.perf_counter()
        awake.wake(self._threads)
        return time.perf_counter() - begin

    def _start(self) -> bool:
        """Starts a keeper for each core; False where the system refuses."""
        self._state[awake.STOP] = 1
        awake.keep_awake(self._state)  # compiles it, and returns
        self._state[awake.STARTED : awake.STOP + 1] = 0
        try:
            for count, core in enumerate(usable_cores(), 1):
                self._start_one(core, count)
        except (OSError, RuntimeError) as error:  # forbidden, or no more threads
            log.debug("cores are not kept awake: %s", error)
            self.stop()
            return False
        return True

    def _start_one(self, core: int, count: int) -> None:
        keeper = threading.Thread(target=awake.keep_awake, args=(self._state,), name=f"awake-{core}", daemon=True)
        keeper.start()
        # Once it spins it does not need the interpreter's lock, which it must not hold while others have its core.
        while self._state[awake.STARTED] < count:
            time.sleep(0)
        assert keeper.native_id is not None
        self._keepers.append(keeper)
        os.sched_setscheduler(keeper.native_id, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(keeper.native_id, {core})

    def thread_ids(self) -> set[int | None]:
        """Of the keepers, by the system's numbers."""
        return {keeper.native_id for keeper in self._keepers}

    def stop(self) -> None:
        self._state[awake.STOP] = 1
        self._keepers.clear()


@functools.cache
def cores(threads: int) -> AwakeCores:
    """Those of this process."""
    return AwakeCores(threads)
