"""Cases that take turns or are left out, so that CI stays short: CAFFELITE_ALL_CASES=1 runs all of them."""

import os
from collections.abc import Sequence

import pytest

ALL_CASES = bool(os.environ.get("CAFFELITE_ALL_CASES"))
only_of_all_cases = pytest.mark.skipif(not ALL_CASES, reason="one of all cases: CAFFELITE_ALL_CASES=1")


def in_turns(cases: Sequence[str], kinds: Sequence[str]) -> list[tuple[str, str]]:
    """(case, kind): each case with one of the kinds, in turns."""
    if ALL_CASES:
        return [(case, kind) for case in cases for kind in kinds]
    return [(case, kinds[i % len(kinds)]) for i, case in enumerate(cases)]
