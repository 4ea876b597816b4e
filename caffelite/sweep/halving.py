"""Successive halving: the rungs at which settings are compared, and the settings that continue."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import CaffeliteError
from .results import END, SettingResult, ranked


def rungs(settings: int, factor: int, first: int, max_iterations: int, step: int) -> list[int]:
    """The iterations at which settings are compared, in ascending order; the last one is END.

    Each rung has ``factor`` times the iterations of the one before. first: iterations of the first rung; 0: so many
    that one setting remains at the end. step: rungs are multiples of it, where they are not smaller, so that a test has
    just run. factor 0: the end is the only rung. Errors: ``first`` is not below the end.
    """
    if not factor:
        return [END]
    if first >= max_iterations:
        remedy = "choose a smaller -first"
        raise CaffeliteError(
            "the first rung is not before the end", expected=f"below {max_iterations}", found=first, remedy=remedy
        )
    if first:
        found = [first * factor**i for i in range(max_iterations.bit_length()) if first * factor**i < max_iterations]
    else:
        levels = math.ceil(math.log(settings, factor) - 1e-9)
        found = [max_iterations // factor ** (levels - i) for i in range(levels)]
    found = [rung - rung % step if rung > step else step for rung in found]
    return sorted({*(rung for rung in found if rung < max_iterations), END})


def promoted(results: Sequence[SettingResult], factor: int, lowest: bool) -> list[int]:
    """The numbers of the settings that continue: the best 1/factor of them, at least one, without failed ones."""
    keep = max(1, math.ceil(len(results) / factor))
    good = [result for result in ranked(results, lowest) if result.mean is not None]
    return sorted(result.number for result in good[:keep])
