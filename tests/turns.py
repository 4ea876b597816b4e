"""Cases that take turns, and those of the second tier. CAFFELITE_ALL_CASES=1 runs every combination."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def in_turns(cases: Sequence[str], kinds: Sequence[str]) -> list[tuple[str, str]]:
    """(case, kind): each case with one of the kinds, in turns."""
    if os.environ.get("CAFFELITE_ALL_CASES"):
        return [(case, kind) for case in cases for kind in kinds]
    return [(case, kinds[i % len(kinds)]) for i, case in enumerate(cases)]


def one_first(cases: Iterable[Any]) -> list[Any]:
    """Cases that take the same way: the first one in the first tier, the others slow."""
    first, *others = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*first), *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]
