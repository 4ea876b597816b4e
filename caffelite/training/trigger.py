"""When something periodic is due: tests, displays and snapshots have an interval of iterations each."""

import math


def due(interval: int, iteration: int) -> bool:
    """Whether what happens every ``interval`` iterations (0: never) happens at this one."""
    return bool(interval) and iteration % interval == 0


def next_after(interval: int, iteration: int) -> float:
    """The first iteration after this one at which it is due; infinite where it never is."""
    return iteration + interval - iteration % interval if interval else math.inf
