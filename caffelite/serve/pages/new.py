"""The pages of a new run: data and net, then the editor of its solver and net, with checks as one types."""

import dataclasses
import itertools
import os
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ... import inputs, roots
from ...errors import CaffeliteError, reporting
from ...runs.config import RunConfig
from ...runs.folder import free, write_atomically
from ...runs.queue import edit, job
from ...runs.queue.edit import submit_run
from ...runs.queue.job import ANY, FREE, Job
from ...runs.queue.local import Slots
from ...scaffold.presets import PRESETS
from ...training.checkpoint import snapshot
from .. import catalog, drafts, page, projects, work
from ..config import ServeConfig
from ..drafts import Draft
from .queue import row

SETTINGS = ("base_lr", "momentum", "weight_decay", "max_iter", "max_epoch")
SKIP = "-skip"  # in what `caffelite new` prints where it can leave files out
LARGEST = 2 << 20  # bytes of a prototxt that the editor opens
AT_ONCE, MOST_WAITING = 2, 8  # drafts that are inspected at a time, and those with them that wait


def new(request: Request) -> Response:
    """The form: data and net."""
    config = page.config_of(request)
    runs = projects.trained_runs(config)
    values = {
        "databases": projects.databases(config),
        "pictures": [{"path": one.address, "kind": one.kind} for one in catalog.pictures(config)],
        "nets": list(PRESETS),
        "runs": runs,
        "solvers": _solvers(config),
        "roots": config.root_names(),
        "downloads": config.allow_download,
        "taken": projects.taken_names(config),
        "picked": request.query_params.get("data", ""),
    }
    return page.render(request, "new.html", values)


def _solvers(config: ServeConfig) -> list[str]:
    """Solvers of projects at the first level below the roots."""
    solvers = []
    for root in config.roots:
        for path in sorted(root.glob("*/solver.prototxt")):
            if not (path.parent / "run.json").exists() and not catalog.leads_out(config, path):
                solvers.append(config.address(path))
    return solvers


def prepare(request: Request, fields: page.Fields) -> Response:
    """Adds the jobs that make the project of a form."""
    config = page.config_of(request)
    root = config.named_root(page.text_field(fields, "root", config.root_names()[0]))
    values = {each.name: page.text_field(fields, each.name, "") for each in dataclasses.fields(projects.Choice)}
    solver, jobs = projects.prepare(config, root, projects.Choice(**values))
    name = config.address(solver)
    where = f"/new/edit?solver={quote(name)}&job={quote(jobs[-1].id)}"
    return page.done(request, where, {"solver": name, "jobs": [row(config, each) for each in jobs]})


def skip(request: Request, fields: page.Fields) -> Response:
    """Adds the job that makes a project once more, without the files that are no readable pictures. Fields: solver, of
    the project; job. Errors: the job makes no project, or has not failed."""
    config = page.config_of(request)
    solver, root = _solver(config, page.text_field(fields, "solver"))
    failed = _job(config, root, page.text_field(fields, "job"))
    if not failed or failed.command[:1] != ("new",) or failed.state in job.PENDING:
        raise CaffeliteError("this job made no project that failed", remedy="begin again")
    words = [*failed.command, *(["--skip"] if "--skip" not in failed.command else [])]
    added = edit.add(root, words, working_directory=root, priority=1, bounds=config.bounds)
    name = config.address(solver)
    values = {"solver": name, "jobs": [row(config, added)]}
    return page.done(request, f"/new/edit?solver={quote(name)}&job={quote(added.id)}", values)


def edit_page(request: Request) -> Response:
    """The editor of a solver and its net; while a job makes them, its progress."""
    config = page.config_of(request)
    solver, root = _solver(config, request.query_params.get("solver", ""))
    values: dict[str, Any] = {"solver": config.address(solver), "job": None}
    making = _job(config, root, request.query_params.get("job", ""))
    if making and making.state != job.FINISHED:
        before = [each for each in map(lambda id: _job(config, root, id), making.after) if each]
        shown = next((each for each in [*before, making] if each.state != job.FINISHED), making)
        failed = making.state not in job.PENDING
        output = work.tail(shown.log)[-4000:] if failed else ""
        values |= {"job": row(config, shown), "failed": failed, "output": output}
        values["skippable"] = failed and shown.kind == "new" and SKIP in output
        return page.render(request, "making.html", values)
    text = _read(solver)
    net = drafts.net_path(config, solver, text, root)
    values |= {
        "solver_text": text,
        "net_text": _read(net) if net else "",
        "net": config.address(net) if net else None,
        "settings": {name: _value(text, name) for name in SETTINGS},
        "gpus": len(Slots.of(config.gpus, 0).gpus),
    }
    return page.render(request, "edit.html", values)


def _solver(config: ServeConfig, text: str) -> tuple[Path, Path]:
    """(the solver that a text names, the root where relative paths start). Errors: outside; not a prototxt."""
    if not text:
        raise CaffeliteError("no solver is named", expected="?solver=PATH")
    path = config.resolve(text)
    if path.suffix != ".prototxt":
        raise CaffeliteError("this is not a prototxt", found=text[:200])
    return path, config.root_of(path)


def _job(config: ServeConfig, root: Path, id: str) -> Job | None:
    return job.read(root / edit.FOLDER / id) if re.fullmatch(r"[0-9a-f-]{1,40}", id) else None


def _read(path: Path) -> str:
    with reporting(f"read {path.name}"):
        return inputs.read_text(path, LARGEST, "replace")


def _value(text: str, name: str) -> str | None:
    """A top-level field of a solver's text; None where it is not set."""
    match = re.search(rf"^\s*{name}\s*:\s*([^\s#]+)", text, re.MULTILINE)
    return match[1] if match else None


def _draft(request: Request, fields: page.Fields) -> tuple[Draft, Path | None]:
    """(the draft of a request, the path of its net)."""
    config = page.config_of(request)
    solver, root = _solver(config, page.text_field(fields, "solver"))
    texts = {name: page.text_field(fields, name, "").replace("\r\n", "\n") for name in ("solver_text", "net_text")}
    settings = [f"{name}={value}" for name in SETTINGS if (value := page.text_field(fields, name, "").strip())]
    settings += [line.strip() for line in page.text_field(fields, "settings", "").splitlines() if line.strip()]
    net = drafts.net_path(config, solver, texts["solver_text"], root)
    return Draft(solver, root, settings=tuple(settings), **texts), net


_checked, _waiting = threading.BoundedSemaphore(AT_ONCE), threading.BoundedSemaphore(MOST_WAITING)


def _inspect(config: ServeConfig, draft: Draft) -> drafts.Inspection:
    """What is wrong with a draft. Few are inspected at a time, so that the threads of the server are left for other
    pages. Errors: too many wait."""
    if not _waiting.acquire(blocking=False):
        raise HTTPException(503, "other drafts are being checked; try again")
    try:
        with _checked:
            return drafts.inspect(config, draft)
    finally:
        _waiting.release()


def check(request: Request, fields: page.Fields) -> Response:
    """What is wrong with a draft, and what it would do."""
    config = page.config_of(request)
    draft, _ = _draft(request, fields)
    inspection = _inspect(config, draft)
    name = config.address(draft.solver)
    values = dataclasses.asdict(inspection) | {
        "command": projects.shell(_command(name, draft.settings, inspection.jobs))
    }
    return page.done(request, f"/new/edit?solver={quote(name)}", values)


def _command(solver: str, settings: tuple[str, ...], jobs: int) -> list[str]:
    words = ["sweep" if jobs > 1 else "train", f"--solver={solver}", *(f"--set={text}" for text in settings)]
    return [argument for word in words for argument in word.split("=", 1)]


def start(request: Request, fields: page.Fields) -> Response:
    """Writes the texts and adds the run, or the sweep, to the queue. Errors: the draft has mistakes."""
    config = page.config_of(request)
    draft, net = _draft(request, fields)
    inspection = _inspect(config, draft)
    if not inspection.ok:
        mistake = next(each for each in inspection.findings if each["kind"] == "mistake")
        prefix = f"{mistake['file']}:{mistake['line']}:{mistake['column']}: " if mistake["line"] else ""
        raise CaffeliteError(f"{prefix}{mistake['message']}", remedy=mistake.get("remedy"))
    _write(draft.solver, draft.solver_text)
    if net:
        _write(net, draft.net_text)
    priority = page.number(page.text_field(fields, "priority", ""), "priority", 0, 1000, 0)
    on_gpu = page.text_field(fields, "device", "cpu") == "gpu"
    added = _submit(config, draft, inspection.jobs, priority, on_gpu)
    where = f"/run?folder={quote(config.address(added.folder))}" if added.is_run else "/queue"
    return page.done(request, where, {"job": row(config, added), "jobs": inspection.jobs})


def _submit(server: ServeConfig, draft: Draft, jobs: int, priority: int, on_gpu: bool) -> Job:
    solver = os.path.relpath(draft.solver, draft.root)
    options: dict[str, Any] = {"priority": priority, "working_directory": draft.root, "bounds": server.bounds}
    if jobs == 1:
        config = RunConfig(solver, overrides=draft.settings)
        return submit_run(draft.root, config, gpus=ANY if on_gpu else None, **options)
    words = ["sweep", f"--solver={solver}", *(f"--set={text}" for text in draft.settings), "--queue"]
    words.append(f"--folder={_sweep_folder(draft)}")
    return edit.add(draft.root, [*words, "--gpu=0"] if on_gpu else words, gpus=FREE, **options)


def _sweep_folder(draft: Draft) -> str:
    """A free folder for a sweep, relative to the root, in which its command starts."""
    from ... import prototxt

    text = os.path.relpath(draft.solver, draft.root)
    base = f"{snapshot.prefix(prototxt.read_solver(draft.solver).message, text)}_sweep"
    folder = draft.root / base
    return os.path.relpath(free(folder, itertools.count(2)), draft.root) if folder.exists() else base


def _write(path: Path, text: str) -> None:
    """Replaces a prototxt that has changed."""
    with reporting(f"write {path.name}"):
        with roots.folder(path.parent, make=True):
            if not path.exists() or inputs.read(path) != text.encode():
                write_atomically(path, text)


ROUTES = [
    *page.routes("/new", new),
    *page.routes("/new/edit", edit_page),
    page.action("/new/prepare", prepare),
    page.action("/new/skip", skip),
    page.action("/new/check", check),
    page.action("/new/start", start),
]
