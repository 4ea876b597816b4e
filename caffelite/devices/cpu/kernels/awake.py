"""A loop that keeps a core from sleeping, and an empty region of threads."""

import numpy as np
from numba import types

from .parallel import loop
from .settings import kernel
from .team import pause, value_at

PASSES, STARTED, STOP = range(3)  # what a keeper's state has: how many passes ran, keepers that run, whether to stop
LOOK = 500  # pauses between two looks at the passes, some ten microseconds
LOOKS = 2000  # without a new pass, after which a keeper sleeps
SHORTEST, LONGEST = 1000, 512_000  # microseconds of a sleep
_sleep = types.ExternalFunction("usleep", types.int32(types.uint32))


@kernel
def keep_awake(state):
    """Keeps a core awake while passes run, until ``state[STOP]``. state: int64, of the numbers above."""
    passes, looks, sleep = 0, 0, SHORTEST
    address = state.ctypes.data
    state[STARTED] += 1
    while value_at(address + 8 * STOP) == 0:
        for _ in range(LOOK):
            pause()
        looks += 1
        latest = value_at(address + 8 * PASSES)
        if latest != passes:
            passes, looks, sleep = latest, 0, SHORTEST
        elif looks >= LOOKS:
            _sleep(np.uint32(sleep))
            sleep = min(2 * sleep, LONGEST)


@loop("threads")
def wake(first, last, threads):
    """A region of so many threads that does nothing."""
