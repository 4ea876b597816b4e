"""Groups of images that belong together, as those of one patient: a split keeps each on one side."""

import re
from collections import Counter
from collections.abc import Sequence

from ..errors import CaffeliteError
from .draws import key
from .listing import shortened

SHOWN = 5  # names without a group that an error lists


def names_of(files: Sequence[str], pattern: str) -> list[str]:
    """The group of each file: what a regular expression matches in its name, or what its first parentheses match.
    Errors: no regular expression; a name in which it matches nothing; one group alone."""
    try:
        expression = re.compile(pattern)
    except re.error as mistake:
        raise CaffeliteError(
            f"-group {pattern} is no regular expression: {mistake}", expected=r"as in 'p\d+'"
        ) from None
    matches = [expression.search(file) for file in files]
    names = [match and match[min(1, expression.groups)] for match in matches]
    missing = [file for file, name in zip(files, names, strict=True) if not name]
    if missing:
        shown = shortened(", ".join(missing[:SHOWN]), 200)
        what = f"-group {pattern} matches nothing in {len(missing)} of {len(files)} names"
        raise CaffeliteError(what, found=shown, remedy="each image needs a group")
    return [name for name in names if name]


def held_out(groups: Sequence[str], labels: Sequence[int], share: float, seed: int) -> set[str]:
    """The groups to test with, chosen by hashes of their names: of the groups in which a class is the most frequent one
    so many that they have about a share of their images, at least one of two or more. Errors: one group alone."""
    members: dict[str, Counter] = {}
    for group, label in zip(groups, labels, strict=True):
        members.setdefault(group, Counter())[label] += 1
    if len(members) < 2:
        raise CaffeliteError(
            "one group alone cannot be split", expected="two groups or more", found=next(iter(members))
        )
    by_label: dict[int, list[str]] = {}
    for group in sorted(members, key=lambda name: key(seed, "split", name)):
        by_label.setdefault(members[group].most_common(1)[0][0], []).append(group)
    chosen: set[str] = set()
    for names in by_label.values():
        wanted, taken = share * sum(members[name].total() for name in names), 0
        for i, name in enumerate(names[:-1]):
            size = members[name].total()
            if i and abs(taken + size - wanted) >= abs(taken - wanted):
                break
            chosen.add(name)
            taken += size
    if not chosen:  # each class has one group
        chosen.add(min(members, key=lambda name: key(seed, "split", name)))
    return chosen
