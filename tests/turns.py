"""Cases that take turns, so that CI stays short: CAFFELITE_ALL_CASES=1 runs every combination."""

import os
from collections.abc import Sequence


def in_turns(cases: Sequence[str], kinds: Sequence[str]) -> list[tuple[str, str]]:
    """(case, kind): each case with one of the kinds, in turns."""
    if os.environ.get("CAFFELITE_ALL_CASES"):
        return [(case, kind) for case in cases for kind in kinds]
    return [(case, kinds[i % len(kinds)]) for i, case in enumerate(cases)]
