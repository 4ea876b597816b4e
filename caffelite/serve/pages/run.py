"""The page of one run: its state, live curves, log, files, and the actions on it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ... import inputs, stored
from ...errors import CaffeliteError
from ...runs import control, folder as files, history, listing, live, registry, snapshots
from ...runs.queue import edit
from .. import assets, nets, page, runs_of, stream, work
from ..page import Fields
from ..retraining import retraining
from .model import labels_of, result_of
from .start import submit
from .sweep import sweep_of
from .try_model import deployed


def run(request: Request) -> Response:
    """A run: summary, state, actions with their commands, notes, files, the end of the log."""
    folder = runs_of.run_folder(request)
    status = registry.read(folder)
    state = runs_of.of(request).state(folder)
    text, end = live.log_tail(folder)
    printed = "" if status.state == registry.RUNNING else _printed(folder)
    summary = runs_of.row(request, listing.summary(status))
    result = result_of(page.config_of(request), folder)
    labels = labels_of(page.config_of(request), folder)
    values = {
        "run": summary,
        "state": state,
        "commands": {action: control.command(folder, action) for action in control.ACTIONS},
        "clone": control.command(folder, "clone"),
        "command": list(status.command),
        "working_directory": status.working_directory,
        "process": status.process,
        "host": status.host,
        "ended": status.ended,
        "heartbeat": status.heartbeat,
        "snapshots": _snapshots(folder),
        "files": [{"name": name, "size": size} for name, size in state["sizes"].items()],
        "log": text,
        "printed": printed,
        "sweep": sweep_of(request, folder),
        "result": result,
        "classes": _classes(summary["scores"], summary["best"], labels),
    }
    script = {name: summary[name] for name in ("folder", "name")}
    script |= {"log_end": end, "net": (folder / files.SOLVER).is_file()}
    script |= {"labels": labels, "best": bool(result["deploy"])}
    return page.render(request, "run.html", values, only_html={"script": script, "plotly": assets.plotly_url()})


def _classes(scores: dict[str, float], best: dict[str, float], labels: list[str]) -> list[dict[str, Any]]:
    """The last and the best score of each class, the lowest last one first. scores, best: of the run, by name."""
    rows = []
    for name, value in scores.items():
        output, index = history.output_of(name)
        if index is not None:
            label = labels[index] if index < len(labels) else name
            rows.append({"label": label, "output": output, "last": value, "best": best.get(name)})
    return sorted(rows, key=lambda row: (row["output"], row["last"] is None, row["last"] or 0.0))


def _printed(folder: Path) -> str:
    """What a process that tried to resume the run printed, where that is newer than the run's last record."""
    output, record = folder / files.RESUMED, folder / files.RUN
    with suppress(OSError):
        if output.stat().st_mtime > record.stat().st_mtime:
            return work.tail(output)[-4000:]
    return ""


def _snapshots(folder: Path) -> list[dict[str, Any]]:
    try:
        states = snapshots.find(folder)
    except CaffeliteError:
        return []
    names = ((each, each.state.name, each.model and each.model.name) for each in states)
    return [{"iteration": e.iteration, "state": state, "model": model, "size": e.size} for e, state, model in names]


def data(request: Request) -> Response:
    """The records for charts: rows of metrics.csv, the number of losses, the epoch, and the position after them."""
    folder = runs_of.run_folder(request)
    rows, position = live.everything(folder)
    values = {
        "rows": rows,
        "losses": position.losses,
        "epoch": stored.read(folder / files.RUN, {"epoch": Any}).get("epoch"),
        "position": str(position),
        "state": runs_of.of(request).state(folder),
    }
    return page.as_json(values)


def losses(request: Request) -> Response:
    """The losses of iterations ``first`` to ``first + count - 1`` as float32, little-endian."""
    folder = runs_of.run_folder(request)
    first = page.number(request.query_params.get("first"), "first", 0, 1 << 40, 0)
    count = page.number(request.query_params.get("count"), "count", 0, 1 << 26, 1 << 26)
    try:
        with inputs.open_file(folder / files.LOSSES) as file:
            file.seek(4 * first)
            body = file.read(4 * count)
    except OSError:
        body = b""
    return Response(body[: len(body) // 4 * 4], media_type="application/octet-stream")


def download(request: Request) -> Response:
    """A file of the run: one of its records, or of its snapshots."""
    config, folder = page.config_of(request), runs_of.run_folder(request)
    name = request.query_params.get("name", "")
    path = folder / name if name in runs_of.RECORDS else _snapshot_file(folder, name)
    file = config.resolve(str(path)) if path else None
    if not file or not file.is_file():
        raise page.missing("the run has no such file")
    return page.file(file, os.path.basename(name))


def _snapshot_file(folder: Path, name: str) -> Path | None:
    paths = (path for each in snapshots.find(folder) for path in (each.state, each.model) if path)
    return next((path for path in paths if path.name == name), None)


def act(request: Request, fields: Fields) -> Response:
    """Pauses, resumes or ends the run, or requests a snapshot."""
    text, action = page.text_field(fields, "folder"), page.text_field(fields, "action")
    folder = runs_of.run_folder(request, text)
    config = page.config_of(request)
    if action == "resume":
        nets.refuse_resume(config, folder)
    root = config.root_of(folder)
    message = edit.act(folder, action, root, config.bounds)
    runs_of.of(request).changed(folder)
    return page.done(request, page.address("/run", folder=text), {"message": message})


def copy(request: Request, fields: Fields) -> Response:
    """Copies solver and nets to a new folder next to the run, and opens them in the editor."""
    config, folder = page.config_of(request), runs_of.run_folder(request, page.text_field(fields, "folder"))
    to = config.resolve(str(control.free_folder(folder)))
    root = config.root_of(to)
    solver = config.address(control.clone(folder, to, root))
    return page.done(request, page.address("/new/edit", solver=solver), {"solver": solver})


def retrain(request: Request, fields: Fields) -> Response:
    """Queues a copy of the run that starts from its best weights, with the labels that were corrected meanwhile."""
    config, folder = page.config_of(request), runs_of.run_folder(request, page.text_field(fields, "folder"))
    deploy = deployed(config, folder)
    added = submit(config, retraining(config, folder, config.resolve(deploy) if deploy else None))
    where = page.address("/run", folder=config.address(added.folder))
    return page.done(request, where, {"job": work.summary(config, added)})


def note(request: Request, fields: Fields) -> Response:
    """Replaces the tags and the note of the run."""
    text = page.text_field(fields, "folder")
    folder = runs_of.run_folder(request, text)
    before = listing.read_notes(folder)
    tags = [tag.strip() for tag in page.text_field(fields, "tags", ",".join(before.tags)).split(",") if tag.strip()]
    words = page.text_field(fields, "note", before.note)
    changed = listing.change_notes(folder, add=tags, remove=set(before.tags) - set(tags), note=words)
    runs_of.of(request).changed(folder)
    return page.done(request, page.address("/run", folder=text), {"tags": list(changed.tags), "note": changed.note})


ROUTES = [
    *page.routes("/run", run),
    Route("/run/data.json", data, methods=["GET"]),
    Route("/run/losses", losses, methods=["GET"]),
    Route("/run/file", download, methods=["GET"]),
    page.action("/run/control", act),
    page.action("/run/notes", note),
    page.action("/run/clone", copy),
    page.action("/run/retrain", retrain),
    *stream.ROUTES,
]
