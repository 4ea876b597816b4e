"""The page of the queue: jobs in their order, with progress; move, priority, cancel, remove."""

import functools
import math
import threading
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...errors import CaffeliteError
from ...runs import control, folder as files, history, registry
from ...runs.queue import edit, job
from ...runs.queue.job import Job
from .. import page, work
from ..config import ServeConfig

ENDED = 30  # jobs that have ended, of which the page shows the last ones
MOST = 1000  # a priority, also below 0


def queue(request: Request) -> Response:
    """Jobs that run, that wait, and the last ones that have ended."""
    config = page.config_of(request)
    every = [each for root in config.roots for each in jobs(root)]
    every.sort(key=lambda each: each.rank)
    ended = [each for each in every if each.state not in job.PENDING]
    ended.sort(key=lambda each: each.ended or each.started or each.submitted, reverse=True)
    values = {
        "running": [row(config, each) for each in every if each.state == job.RUNNING],
        "queued": [row(config, each) for each in every if each.state == job.QUEUED],
        "ended": [row(config, each) for each in ended[:ENDED]],
        "ended_total": len(ended),
        "schedulers": _schedulers(config),
    }
    html = {"root_option": str(config.roots[0]) if len(config.roots) == 1 else "ROOT"}
    return page.render(request, "queue.html", values, only_html=html)


def jobs(root: Path) -> list[Job]:
    """The jobs of a root; folders that have not changed since the last call are not read again."""
    scanner, lock = _scanner(root)
    with lock:
        return scanner.jobs()


@functools.lru_cache(maxsize=16)
def _scanner(root: Path) -> tuple[job.JobScanner, threading.Lock]:
    return job.JobScanner(root), threading.Lock()


def _schedulers(config: ServeConfig) -> list[dict[str, Any]]:
    names = config.root_names()
    described = zip(names, map(edit.scheduler, config.roots), strict=True)
    return [{"root": name, "process": each.get("process"), "host": each.get("host")} for name, each in described]


def row(config: ServeConfig, each: Job) -> dict[str, Any]:
    """A job for pages: its plain values, with the folder as pages name it, and the fraction that is done."""
    record = each.to_json() | {"folder": config.address(each.folder)}
    progress = record["progress"]
    fraction = progress["done"] / progress["total"] if progress and progress["total"] else None
    scores = last_scores(each.folder) if each.is_run else {}
    record["label"] = registry.label(each.state, each.reason)
    recorded = each.is_run and (each.folder / files.SOLVER).exists()  # not if it was cancelled before it started
    return record | {
        "fraction": None if fraction is None else min(fraction, 1.0),
        "is_run": each.is_run,
        "resumable": recorded and "resume" in control.offered(each.state, each.reason),
        "scores": scores,
    }


def last_scores(folder: Path) -> dict[str, float]:
    """The scores of the last test of a run; none where it has had no test."""
    try:
        return _last_scores(folder, (folder / files.METRICS).stat().st_mtime_ns)
    except OSError:
        return {}


@functools.lru_cache(maxsize=256)
def _last_scores(folder: Path, changed: int) -> dict[str, float]:
    """changed: when the table was written, of which the result is."""
    try:
        tests = history.read(folder, history.LIST_PLACES).tests.get(0, [])
    except CaffeliteError:
        return {}
    return {name: value for name, value in tests[-1].values.items() if math.isfinite(value)} if tests else {}


def move(request: Request, fields: page.Fields) -> Response:
    """Moves a queued job: before another one, or to a position."""
    id = page.text_field(fields, "job")
    root, _ = work.find(page.config_of(request), id)
    before = page.text_field(fields, "before", "") or None
    position = page.number(page.text_field(fields, "position", ""), "position", 1, 10**6, 0) or None
    return _done(request, edit.move(root, id, before=before, position=position))


def priority(request: Request, fields: page.Fields) -> Response:
    """Changes the priority of a queued job."""
    id, text = page.text_field(fields, "job"), page.text_field(fields, "priority")
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    value = sign * page.number(digits, "priority", 0, MOST, 0)
    return _done(request, edit.set_priority(work.find(page.config_of(request), id)[0], id, value))


def cancel(request: Request, fields: page.Fields) -> Response:
    """Ends a job: how = pause (SIGTERM; a run writes a snapshot) or kill."""
    id, method = page.text_field(fields, "job"), page.text_field(fields, "how", edit.PAUSE)
    if method not in (edit.PAUSE, edit.KILL):
        raise CaffeliteError("how a job ends is unknown", expected=f"{edit.PAUSE} or {edit.KILL}")
    return _done(request, edit.cancel(work.find(page.config_of(request), id)[0], id, method))


def remove(request: Request, fields: page.Fields) -> Response:
    """Removes a job that has ended from the list."""
    id = page.text_field(fields, "job")
    edit.remove(work.find(page.config_of(request), id)[0], id)
    return page.done(request, "/queue", {"removed": id})


def _done(request: Request, each: Job) -> Response:
    return page.done(request, "/queue", {"job": row(page.config_of(request), each)})


def one(request: Request) -> Response:
    """A job and the end of its output. Query: result, the file or folder that it writes."""
    config = page.config_of(request)
    _, job = work.find(config, request.path_params["id"])
    result = request.query_params.get("result", "")
    there = bool(result) and config.resolve(result).exists()
    values = {**row(config, job), "output": work.tail(job.log), "result": result, "result_exists": there}
    return page.render(request, "job.html", values, only_html={"left_out": page.left_out(request)})


ROUTES = [
    *page.routes("/queue", queue),
    *reversed(page.routes("/queue/jobs/{id}", one)),  # an id may end in .json
    page.action("/queue/move", move),
    page.action("/queue/priority", priority),
    page.action("/queue/cancel", cancel),
    page.action("/queue/remove", remove),
]
