"""Contents of JSON files that somebody else wrote: everything in them wrong, one value at a time."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

WRONG = [None, True, -1, 10**400, 1e308, "x", [], [[]], {}, {"a": {}}, [{"a": 1}], [None]]


def damaged(content: Any) -> Iterator[Any]:
    """The content without each field, and with each value of WRONG in place of every field, inside too."""
    if isinstance(content, dict):
        for name in content:
            yield {key: value for key, value in content.items() if key != name}
            yield from ({**content, name: wrong} for wrong in [*WRONG, *damaged(content[name])])
    elif isinstance(content, list) and content:
        yield from ([wrong, *content[1:]] for wrong in [*WRONG, *damaged(content[0])])


def texts(content: Any, every: int = 5) -> list[str]:
    """Each ``every``-th of those contents as JSON, so that each field has some wrong values, and files that are no
    object."""
    return ["", "[]", "null", "[" * 10**5, "{}", *map(json.dumps, itertools.islice(damaged(content), 0, None, every))]
