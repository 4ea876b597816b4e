"""The page of all runs: a table to filter, sort and group, and the selection of runs to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...errors import CaffeliteError
from ...runs import listing, registry
from ...runs.listing import RunSummary
from .. import page, runs_of

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
SHOWN = 2000  # runs on the page; the JSON has all


def runs(request: Request) -> Response:
    """The runs below the roots.

    ``text``: of name, net, tags or note; ``state``, ``tag``: repeatable; ``where``: a condition as for `caffelite runs
    -where`; ``sort``, ``reverse``: an order; ``columns``: repeatable; ``group``: one of GROUPS.
    """
    config, query = page.config_of(request), request.query_params
    every = runs_of.of(request).index.runs()
    states = [state for state in query.getlist("state") if state]
    if unknown := next((state for state in states if state not in registry.STATES), None):
        raise CaffeliteError("unknown state", expected=f"one of {', '.join(registry.STATES)}", found=unknown[:40])
    where = [text for text in query.getlist("where") if text.strip()]
    tags = [tag for tag in query.getlist("tag") if tag]
    found = listing.chosen(every, states, conditions=where, tags=tags)
    text = query.get("text", "").strip().lower()
    rows = [(run, runs_of.row(config, run)) for run in found]
    rows = [
        pair
        for pair in rows
        if text in " ".join([pair[1]["name"], pair[0].net, *pair[0].notes.tags, pair[0].notes.note]).lower()
    ]
    sort, group = query.get("sort") or "started", query.get("group", "")
    reverse = query.get("reverse", "1" if sort == "started" else "") == "1"
    if group not in GROUPS:
        raise CaffeliteError("unknown group", expected=f"one of {', '.join(filter(None, GROUPS))}", found=group[:40])
    order = listing.ordered([run for run, _ in rows], sort, reverse)
    by_run = {id(run): row for run, row in rows}
    shown = [by_run[id(run)] for run in order]
    values = {"runs": shown, "total": len(every)}
    chosen = [name for name in query.getlist("columns") if name in COLUMNS] or list(DEFAULT)
    only_html = {
        "groups": _groups(order[:SHOWN], shown, group),
        "columns": chosen,
        "all_columns": COLUMNS,
        "states": registry.STATES,
        "tags": sorted({tag for run in every for tag in run.notes.tags}),
        "group": group,
        "group_names": GROUPS,
        "sort": sort,
        "reverse": reverse,
        "query": {"text": query.get("text", ""), "state": states, "tag": tags, "where": " ".join(where)},
        "sort_url": lambda name: page.with_query(request, sort=name, reverse="0" if sort == name and reverse else "1"),
        "hidden": max(0, len(shown) - SHOWN),
    }
    return page.render(request, "runs.html", values, only_html=only_html)


def _searched(run: RunSummary, row: dict[str, Any]) -> str:
    return " ".join([row["name"], run.net, *run.notes.tags, run.notes.note])


def _groups(order: Sequence[RunSummary], rows: Sequence[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """The rows in groups, each with a title; one group without a title where there is no grouping."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run, row in zip(order, rows, strict=False):
        name = str(run.value(by) or "none") if by else ""
        found.setdefault(name, []).append({**row, "points": sparkline(run.curve)})
    return [{"title": name, "rows": each} for name, each in found.items()]


def sparkline(values: Sequence[float], width: float = 100, height: float = 24) -> str:
    """The points of an SVG polyline through values at even intervals."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = (width - 2) / (len(values) - 1)
    return " ".join(f"{1 + i * step:.1f},{1 + (height - 2) * (high - v) / span:.1f}" for i, v in enumerate(values))


ROUTES = page.routes("/runs", runs)
