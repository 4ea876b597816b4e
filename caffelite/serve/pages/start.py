"""The first page: from pictures to a training run. Upload, look at what was chosen, and train."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ... import roots
from ...errors import CaffeliteError
from ...file_names import SOLVER, TRAIN_NET
from ...prototxt.overrides import Overrides
from ...runs import limits
from ...runs.config import RunConfig
from ...runs.limits import Outside
from ...runs.queue import job
from ...runs.queue.edit import submit_run
from ...runs.queue.job import ANY, Job
from ...runs.queue.local import Slots
from .. import catalog, page, projects, work
from ..config import ServeConfig
from .data import open_set
from .queue import row

THUMBS = 8  # pictures of a class
MOST_CLASSES = 60  # that show pictures
TIME = re.compile(r"^Time: (.+?)\. ", re.MULTILINE)  # a line that `caffelite new` prints
LEFT_OUT = "Left out: "  # before a path and a reason, there too
CHOICE = re.compile(r"([A-Z][a-z]+): (.+)")


def start(request: Request) -> Response:
    """The form for pictures; with a solver in the query the project that is made of them. Query: solver, data (the
    path of its pictures), job (which makes it), left_out, file: of the upload before."""
    config, query = page.config_of(request), request.query_params
    if query.get("solver"):
        return _project(request)
    values = {
        "pictures": [one.address for one in catalog.data_sets(config) if one.kind == catalog.FOLDER],
        "taken": projects.taken_names(config),
    }
    return page.render(request, "start.html", values, only_html={"roots": config.root_names()})


def _project(request: Request) -> Response:
    """A project that is being made, or is ready to train."""
    config, query = page.config_of(request), request.query_params
    solver = config.resolve(query["solver"])
    data = query.get("data", "")
    making = work.find(config, query["job"])[1] if query.get("job") else None
    before = [work.find(config, id)[1] for id in making.after] if making else []
    shown = next((one for one in [*before, making] if one and one.state != job.FINISHED), making)
    failed = making is not None and making.state not in (job.FINISHED, *job.PENDING)
    ready = solver.is_file() and (making is None or making.state == job.FINISHED)
    printed = work.tail(shown.log) if shown else ""
    values: dict[str, Any] = {
        "solver": config.address(solver),
        "name": config.address(solver.parent),
        "data": data,
        "job": row(config, shown) if shown else None,
        "ready": ready,
        "failed": failed,
        "output": printed[-4000:] if failed else "",
        "choices": _choices(printed) if ready else [],
        "left_out": _left_out(page.left_out(request), printed),
        "time": match[1] if ready and (match := TIME.search(printed)) else "",
        "net": config.address(net) if ready and (net := solver.parent / TRAIN_NET).is_file() else "",
        "classes": _classes(request, data),
    }
    return page.render(request, "project.html", values)


def _left_out(uploaded: dict[str, Any], printed: str) -> dict[str, Any]:
    """What an upload left out, and what `caffelite new` could not read: count, names."""
    lines = [line.removeprefix(LEFT_OUT) for line in printed.splitlines() if line.startswith(LEFT_OUT)]
    names = [*uploaded["names"], *(line.rpartition(": ")[0] for line in lines)][: page.MOST_NAMES]
    return {"count": uploaded["count"] + len(lines), "names": names}


def _choices(printed: str) -> list[dict[str, str]]:
    """The choices with their reasons in what `caffelite new` printed."""
    lines = printed.partition("\nWrote ")[0].splitlines()
    return [{"name": match[1], "text": match[2]} for line in lines if (match := CHOICE.fullmatch(line))]


def _classes(request: Request, data: str) -> list[dict[str, Any]]:
    """The classes of a set with their first samples: name, count, images. None where they cannot be read. Errors:
    Outside."""
    try:
        opened = open_set(request, data)
        labels = opened.labels()
    except Outside:
        raise
    except (CaffeliteError, OSError):
        return []
    rows: list[dict[str, Any]] = []
    for number in np.unique(labels).tolist() if labels is not None else []:
        samples = np.flatnonzero(labels == number)
        shown = samples[: THUMBS if len(rows) < MOST_CLASSES else 0].tolist()
        images = [page.address("/data/image", path=data, number=str(index)) for index in shown]
        rows.append({"name": opened.name(number), "count": len(samples), "images": images})
    return rows


def prepare(request: Request, fields: page.Fields) -> Response:
    """Adds the jobs that make a project, with sensible choices and a name that is free. Fields: data ("digits" or
    "images"), source (the path of pictures), root."""
    config = page.config_of(request)
    root = config.named_root(page.text_field(fields, "root", config.root_names()[0]))
    data, source = page.text_field(fields, "data", projects.IMAGES), page.text_field(fields, "source", "")
    if data == projects.IMAGES:
        path = config.resolve(source)
        root, base = config.root_of(path), f"{path.stem or 'pictures'} model"
    else:
        base = f"{data} model"
    solver, jobs = projects.prepare(config, root, projects.Choice(_free(root, base), data, source, skip="on"))
    name = config.address(solver)
    shown = source or config.address(root / f"{data}_train_lmdb")
    where = page.address("/start", solver=name, data=shown, job=jobs[-1].id)
    return page.done(request, where, {"solver": name, "data": shown, "jobs": [row(config, each) for each in jobs]})


def _free(root: Path, base: str) -> str:
    """The name, or the name with the first number from 2 on that the root does not have."""
    with roots.folder(root) as opened:
        names = {each.name for each in opened.iterdir()}
    base = base[: projects.LONGEST - 8].replace("'", "_").replace('"', "_").replace(",", "_")
    return next(name for name in (base, *(f"{base} {i}" for i in range(2, len(names) + 3))) if name not in names)


def train(request: Request, fields: page.Fields) -> Response:
    """Adds the run of a project to the queue, on a GPU where the server has one. Fields: solver."""
    config = page.config_of(request)
    added = submit(config, config.resolve(page.text_field(fields, "solver")))
    where = page.address("/run", folder=config.address(added.folder))
    return page.done(request, where, {"job": row(config, added)})


def submit(config: ServeConfig, solver: Path) -> Job:
    """The job that trains a solver below the roots. Errors: it does not exist; what the bounds refuse."""
    root = config.root_of(solver)
    if solver.name != SOLVER or not solver.is_file():
        raise CaffeliteError("there is no such project", remedy="make it first")
    for error in limits.refused_run(config.bounds, solver, Overrides(), root):
        raise error
    run = RunConfig(str(solver.relative_to(root)))
    gpus = ANY if Slots.of(config.gpus, 0).gpus else None
    return submit_run(root, run, gpus=gpus, working_directory=root, bounds=config.bounds)


ROUTES = [
    *page.routes("/start", start),
    page.action("/start/prepare", prepare),
    page.action("/start/train", train),
]
