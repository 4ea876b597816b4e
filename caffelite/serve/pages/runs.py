"""The page of all runs: a table to filter, sort and group, and the selection of runs to compare."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...errors import CaffeliteError
from ...runs import listing, registry
from ...runs.listing import RunSummary
from .. import page, runs_of
from ..sparkline import sparkline
from .sweep import sweep_of

COLUMNS = {
    "net": "net",
    "state": "state",
    "iteration": "iteration",
    "scores": "last scores",
    "best": "best scores",
    "loss": "loss",
    "curve": "curve",
    "left": "time left",
    "seconds": "time",
    "device": "device",
    "started": "started",
    "tags": "tags",
    "note": "note",
}
DEFAULT = ("net", "state", "iteration", "scores", "best", "curve", "left", "device", "tags")
GROUPS = ("", "net", "state", "device", "tags")
SORTABLE = ("name", "net", "state", "iteration", "loss", "seconds", "started", "device", "tags")
EXTRA = ("curve", "left", "device")  # columns that a narrow screen leaves out
NUMBERS = ("iteration", "loss", "seconds", "left")
FIRST = 60  # runs in the page as it is loaded; the script requests more of them when the reader scrolls
MOST = 10_000  # runs of one page


def runs(request: Request) -> Response:
    """The runs below the roots.

    ``text``: of name, net, tags or note; ``state``, ``tag``: repeatable; ``where``: a condition as for `caffelite runs
    -where`; ``sort``, ``reverse``: an order; ``columns``: repeatable; ``group``: one of GROUPS. ``first``, ``count``:
    the rows of the page; the JSON has all.
    """
    query, every = request.query_params, runs_of.of(request).index.runs()
    selected = _chosen(request, every)
    sort, group = query.get("sort") or "started", query.get("group", "")
    reverse = query.get("reverse", "1" if sort == "started" else "") == "1"
    if group not in GROUPS:
        raise CaffeliteError("unknown group", expected=f"one of {', '.join(filter(None, GROUPS))}", found=group[:40])
    order = listing.ordered(selected, sort, reverse)
    if page.wants_json(request):
        rows = [runs_of.row(request, run) for run in order]
        return page.as_json({"runs": rows, "total": len(every)})
    first = page.number(query.get("first"), "first", 0, MOST, 0)
    count = page.number(query.get("count"), "count", 1, MOST, FIRST)
    chosen = [name for name in query.getlist("columns") if name in COLUMNS] or list(DEFAULT)
    values = {
        "groups": _groups(request, order, group, first, count),
        "found": len(order),
        "end": min(len(order), first + count),
        "total": len(every),
        "columns": chosen,
        "all_columns": COLUMNS,
        "sortable": SORTABLE,
        "numbers": NUMBERS,
        "extra": EXTRA,
        "states": registry.STATES,
        "tags": sorted({tag for run in every for tag in run.notes.tags}),
        "group": group,
        "group_names": GROUPS,
        "sort": sort,
        "reverse": reverse,
        "query": {
            "text": query.get("text", ""),
            "state": query.getlist("state"),
            "tag": query.getlist("tag"),
            "where": " ".join(query.getlist("where")),
        },
        "sort_url": lambda name: page.with_query(request, sort=name, reverse="0" if sort == name and reverse else "1"),
        "sweeps": sorted({address for run in selected if (address := sweep_of(request, run.status.folder))}),
        "more_url": page.with_query(request, first="0", count=str(min(MOST, first + count + 4 * FIRST))),
    }
    return page.render(request, "runs.html", values)


def _chosen(request: Request, every: Sequence[RunSummary]) -> list[RunSummary]:
    """The runs that the query selects. Errors: an unknown state; a condition that cannot be read."""
    query, names = request.query_params, runs_of.of(request).address
    states = [state for state in query.getlist("state") if state]
    if unknown := next((state for state in states if state not in registry.STATES), None):
        raise CaffeliteError("unknown state", expected=f"one of {', '.join(registry.STATES)}", found=unknown[:40])
    where = [text for text in query.getlist("where") if text.strip()]
    chosen = listing.chosen(every, states, conditions=where, tags=[tag for tag in query.getlist("tag") if tag])
    text = query.get("text", "").strip().lower()
    if not text:
        return chosen
    return [
        run
        for run in chosen
        if text in " ".join([names(run.status.folder), run.net, *run.notes.tags, run.notes.note]).lower()
    ]


def _groups(request: Request, order: Sequence[RunSummary], by: str, first: int, count: int) -> list[dict[str, Any]]:
    """``count`` rows from row ``first`` on, in groups: each has a title, its number of runs, and whether it began
    before row ``first``. One group without a title where there is no grouping."""
    members: dict[str, list[RunSummary]] = {}
    for run in order:
        members.setdefault(str(run.value(by) or "none") if by else "", []).append(run)
    groups, before = [], 0
    for title, each in members.items():
        start, end = max(0, first - before), max(0, first + count - before)
        rows = [{**runs_of.row(request, run), "points": sparkline(run.curve)} for run in each[start:end]]
        if rows:
            groups.append({"title": title, "size": len(each), "continues": start > 0, "rows": rows})
        before += len(each)
    return groups


ROUTES = page.routes("/runs", runs)
