"""The pages of models: the list, one deploy net with its files, and test reports."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ... import roots, stored
from ...data import corrections
from ...errors import CaffeliteError
from ...file_names import DEPLOY_NET
from ...report.advice import advice
from ...runs import folder as files, history, listing, registry
from ...runs.limits import Outside
from ...runs.queue.job import new_id
from ...weights import newest_weights
from ...zoo import trained
from .. import catalog, nets, page, projects, runs_of, work
from ..config import ServeConfig
from ..sparkline import sparkline
from . import try_model
from .data import correction_of

REPORT = "report.json"
# The fields of a report: of all, of a classifier, and of the rows in them.
ABOUT = {
    **dict.fromkeys(("name", "model", "weights", "made"), str | None),
    **{"accuracy": float | None, "tested": int | None},
}
SCORE = {"name": str, "value": float | None}
BY_TEST = {"iterations": [int], "scores": [[float | None]]}
CELL = {"label": int, "answer": int, "samples": [int]}
CLASSIFIER = {
    **{"confusion": [[int]], "labels": [str], "top": {str: float | None}, "right": int, "nan": int},
    **{"balanced_accuracy": float, "calibration_error": float, "log_loss": float | None},
    "classes": [{"label": str, "samples": int} | dict.fromkeys(("precision", "recall", "f1"), float | None)],
    "calibration": [{"samples": int, "confidence": float, "accuracy": float}],
    "confused": [{"label": str, "answer": str, "times": int}],
    "worst": [{"sample": int | None, "label": str, "answer": str, "score": float}],
}
OFFERED = (".caffemodel", ".h5", ".solverstate", ".prototxt", ".onnx", ".csv", ".txt", ".json", ".binaryproto", ".png")
REPORTS = "reports"
CELL_SAMPLES = 200  # of a cell that a page shows
MANY = 0.05  # share of a label's samples from which a mistake is shown strongly


def result_of(config: ServeConfig, run: Path) -> dict[str, str]:
    """What a run has for use: the addresses of its best weights, their deploy net, its ONNX file and their newest test
    report; empty for what does not exist."""
    weights = projects.best_model(config, registry.read(run))
    deploy = try_model.deployed(config, run)
    onnx = config.resolve(deploy).with_suffix(".onnx") if deploy else None
    tested = (path for path in _reports_of(config, run) if weights and _tests(path, weights))
    return {
        "weights": config.address(weights) if weights else "",
        "deploy": deploy,
        "onnx": config.address(onnx) if onnx and onnx.is_file() else "",
        "report": next(map(config.address, tested), ""),
    }


def labels_of(config: ServeConfig, run: Path) -> list[str]:
    """The names of a run's classes, as its deploy net has them; none where there is no such net."""
    deploy = try_model.deployed(config, run)
    with suppress(CaffeliteError):
        return list(nets.read(config, config.resolve(deploy))[0].message.deploy_param.label) if deploy else []
    return []


def _reports_of(config: ServeConfig, run: Path) -> Iterator[Path]:
    """The folders with test reports of a run, the newest first: those that pages made, and the one that its project's
    README names."""
    root, names = config.root_of(run), list[str]()
    with suppress(OSError, Outside), roots.folder(root / REPORTS) as opened:
        names = sorted((each.name for each in opened.iterdir() if each.name.startswith(f"{run.name}-")), reverse=True)
    for path in (*(root / REPORTS / name for name in names), run.parent / "report"):
        if (path / REPORT).is_file() and not catalog.leads_out(config, path / REPORT):
            yield path


def _tests(report: Path, weights: Path) -> bool:
    """Whether a report is of these weights as they are now."""
    path = stored.read(report / REPORT, {"weights": str}).get("weights", "")
    made = (report / REPORT).stat().st_mtime
    return os.path.realpath(path) == str(weights) and made >= weights.stat().st_mtime


def models(request: Request) -> Response:
    """Deploy nets, runs, and test reports below the roots."""
    config = page.config_of(request)
    deploy = [
        {"path": one.address, "changed": one.changed, "shipped": trained.is_copy(one.path.parent)}
        for one in catalog.deploy_nets(config)
    ]
    reports = [_report_row(one) for one in catalog.reports(config)]
    train_nets = [{"path": one.address, "changed": one.changed} for one in catalog.train_nets(config)]
    return page.render(request, "models.html", {"models": deploy, "train_nets": train_nets, "reports": reports})


def _report_row(entry: catalog.Entry) -> dict[str, Any]:
    report = stored.read(entry.path / REPORT, ABOUT)
    return {"path": entry.address, **{name: report.get(name) for name in ABOUT}}


def net(request: Request) -> Response:
    """One deploy net. Query: path."""
    config = page.config_of(request)
    text = request.query_params.get("path", "")
    path = config.resolve(text)
    document, named = nets.read(config, path)
    message = document.message
    deploy = message.deploy_param
    weights = [file for file in named if file.name.endswith((".caffemodel", ".h5", ".binaryproto"))]
    folder = path.parent
    nearby = (folder / name for name in (files.NET, catalog.TRAIN_NET))
    train = next((path for path in nearby if path.is_file()), None)
    offered = dict.fromkeys([path, *weights, path.with_suffix(".onnx")])
    tests = [_report_row(one) for one in catalog.reports(config)]
    values = {
        "net": text,
        "name": message.name,
        "layers": len(message.layer),
        "labels": list(deploy.label),
        "files": [{"path": config.address(f), "bytes": f.stat().st_size} for f in offered if f.is_file()],
        "train_net": config.address(train) if train else "",
        "run": config.address(folder) if _is_run(folder) else "",
        "reports": [row for row in tests if Path(str(row["weights"])).name in {file.name for file in weights}],
    }
    return page.render(request, "model.html", values)


def _is_run(folder: Path) -> bool:
    try:
        registry.read(folder)
    except CaffeliteError:
        return False
    return True


def test(request: Request, fields: page.Fields) -> Response:
    """Queues `caffelite test -report` of a net's weights on the test data of its training net; with run, of the best
    weights of a run."""
    config = page.config_of(request)
    run = page.text_field(fields, "run", "")
    if run:
        path = runs_of.run_folder(request, run) / files.NET
        train, weights = path, projects.best_model(config, registry.read(path.parent))
        if weights is None:
            raise CaffeliteError("the run has no weights yet", remedy="wait for its first test or snapshot")
        deploy = try_model.deployed(config, path.parent)
        document, _ = nets.read(config, config.resolve(deploy) if deploy else path)
    else:
        path = config.resolve(page.text_field(fields, "path"))
        document, _ = nets.read(config, path)
        train = config.resolve(page.text_field(fields, "train_net"))
        weights = nets.weights(config, document)
    nets.read(config, train)
    root = config.root_of(path)
    folder = root / REPORTS / f"{path.parent.name}-{new_id()}"
    command = ["test", "--model", str(train), "--weights", str(weights), "--report", str(folder)]
    labels = list(document.message.deploy_param.label)
    if labels:
        with roots.folder(folder, make=True):
            files.write_atomically(folder / "labels.txt", "".join(f"{label}\n" for label in labels))
        command += ["--labels", str(folder / "labels.txt")]
    job, values = work.queued(config, path, command, folder)
    query = {"path": values["result"], "job": job.id} | ({"run": run} if run else {})
    return page.done(request, page.address("/models/report", **query), values)


def deploy(request: Request, fields: page.Fields) -> Response:
    """Queues the conversion of a train net beside weights to a deploy net there, with the newest of them."""
    config = page.config_of(request)
    path = config.resolve(page.text_field(fields, "path"))
    nets.read(config, path)
    weights, out = newest_weights(path.parent), path.with_name(DEPLOY_NET)
    if weights is None or out.exists():
        raise CaffeliteError("there are no weights beside this net, or there is a deploy net already")
    command = ["deploy", "--model", str(path), "--weights", str(weights), "--out", str(out)]
    return _queued(request, path, command, out)


def export(request: Request, fields: page.Fields) -> Response:
    """Queues the export of a deploy net to ONNX."""
    config = page.config_of(request)
    path = config.resolve(page.text_field(fields, "path"))
    document, _ = nets.read(config, path)
    weights = nets.weights(config, document)
    out = path.with_suffix(".onnx")
    command = ["export", "--model", str(path), "--weights", str(weights), "--out", str(out), "--force"]
    return _queued(request, path, command, out)


def _queued(request: Request, net: Path, command: list[str], out: Path) -> Response:
    """Queues a quick command that writes ``out``."""
    job, values = work.queued(page.config_of(request), net, command, out, quick=True)
    return page.done(request, page.address(f"/queue/jobs/{job.id}", result=values["result"]), values)


def report(request: Request) -> Response:
    """A test report. Query: path, the folder; label and answer, a cell of the confusion matrix; job, which writes it;
    run, whose weights it tests."""
    config, query = page.config_of(request), request.query_params
    text = query.get("path", "")
    folder = config.resolve(text)
    job, values = query.get("job", ""), dict[str, Any]()
    if not (folder / "report.json").exists() and job:
        pending = work.find(config, job)[1]
        values = {"job": {**work.summary(config, pending), "output": work.tail(pending.log)}, "report": text}
        return page.render(request, "report_pending.html", values, only_html={"left_out": page.left_out(request)})
    content = _report(folder / REPORT)
    shown = {name: content.get(name) for name in ("name", "model", "weights", "made", "scores", "samples")}
    values = {"report": text, **shown, "classifies": "confusion" in content, "corrections": None}
    if "confusion" in content:
        names = ("accuracy", "balanced_accuracy", "top", "tested", "right", "nan", "log_loss", "calibration_error")
        fields = ("labels", "classes", "confusion", "calibration", "confused")
        values |= {name: content.get(name) for name in (*names, *fields)}
        values["worst"] = [_with_image(text, row) for row in content.get("worst", [])]
        values["cell"] = _cell(text, content, query.get("label", ""), query.get("answer", ""))
        values["corrections"] = _corrections(request, text, values)
        values["by_test"] = content.get("by_test")
    html = {"rows": _matrix(values), "has_images": bool(content.get("data_layer"))} if "confusion" in content else {}
    html |= {"sparklines": _sparklines(content), "left_out": page.left_out(request)}
    run = query.get("run", "")
    html |= {"url": f"/models/report?{urlencode({'path': text} | ({'run': run} if run else {}))}", "run": run}
    html["advice"] = advice(content, _best_at(request, run)) if "confusion" in content else []
    return page.render(request, "report.html", values, only_html=html)


def _report(path: Path) -> dict[str, Any]:
    """The values of a test report. Errors: it cannot be read; it lacks a field, or has a value of another kind."""
    about = {**ABOUT, "scores": [SCORE], "samples": int | None, "data_layer": str | None, "by_test": BY_TEST}
    if "confusion" not in stored.read(path, {"confusion": Any}):
        return _intervals(stored.load(path, {}, about), "scores")
    content = stored.load(path, {**CLASSIFIER, "accuracy": float, "tested": int}, {**about, "cells": [CELL]})
    size = len(content["labels"])
    if [len(row) for row in content["confusion"]] != [size] * size or content["tested"] < 1:
        raise CaffeliteError(f"{path.name}: the confusion matrix does not fit the labels", expected=f"{size} × {size}")
    return _intervals(content, "scores", "classes")


def _intervals(content: dict[str, Any], *tables: str) -> dict[str, Any]:
    """Rows with both ends of an interval, or with none."""
    for row in (row for name in tables for row in content.get(name) or []):
        if not all(stored.fits(row.get(end), float) for end in ("low", "high")):
            row |= dict.fromkeys(("low", "high"))
    return content


def _sparklines(content: dict[str, Any]) -> list[str]:
    """The points of a curve for each class: its score in the tests of the run; none where these are not known."""
    rows = content.get("by_test", {}).get("scores", [])
    if len(rows) != len(content.get("classes", [])):
        return []
    return [sparkline([value for value in row if value is not None], ends=(0.0, 1.0)) for row in rows]


def _with_image(text: str, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "image": f"/data/image?{urlencode({'report': text, 'number': row['sample']})}"}


def _corrections(request: Request, text: str, values: dict[str, Any]) -> dict[str, str] | None:
    """The corrected labels of the shown samples by number, empty for what is left out; None where labels cannot be
    corrected here."""
    rows = [*values["worst"], *(values["cell"]["samples"] if values["cell"] else [])]
    corrected, lists = dict[str, str](), dict[Path, dict[str, str]]()
    try:
        for sample in {row["sample"] for row in rows if row["sample"] is not None}:
            path, file = correction_of(request, text, sample)
            if path not in lists:
                lists[path] = corrections.read(path)
            if file in lists[path]:
                corrected[str(sample)] = lists[path][file]
    except CaffeliteError:
        return None
    return corrected


def _best_at(request: Request, run: str) -> float | None:
    """The share of a run at which its best test was; None where it is unknown."""
    if not run:
        return None
    folder = runs_of.run_folder(request, run)
    summary = listing.summary(registry.read(folder))
    tests = history.read(folder, history.LIST_PLACES).tests.get(0, [])
    score = next((name for name in summary.best if not history.is_loss(name)), "")
    rows = [row for row in tests if score in row.values]
    if not rows or not summary.max_iterations:
        return None
    return max(rows, key=lambda row: row.values[score]).iteration / summary.max_iterations


def _cell(text: str, content: dict[str, Any], label: str, answer: str) -> dict[str, Any] | None:
    """The samples of a cell of the confusion matrix, by class numbers."""
    if not label or not answer:
        return None
    most = len(content["labels"]) - 1
    key = page.number(label, "label", 0, most, 0), page.number(answer, "answer", 0, most, 0)
    cells = {(row["label"], row["answer"]): row["samples"] for row in content.get("cells", [])}
    listed = cells.get(key, [])
    return {
        "label": key[0],
        "answer": key[1],
        "count": content["confusion"][key[0]][key[1]],
        "samples": [_with_image(text, {"sample": number}) for number in listed[:CELL_SAMPLES]],
    }


def _matrix(values: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The cells of the confusion matrix with their class names for the style sheet."""
    rows = []
    for label, counts in enumerate(values["confusion"]):
        total = max(1, sum(counts))
        row = []
        for answer, count in enumerate(counts):
            style = "" if not count else "right" if label == answer else "wrong"
            style += " many" if style == "wrong" and count / total >= MANY else ""
            row.append({"count": count, "style": style, "label": label, "answer": answer})
        rows.append(row)
    return rows


def download(request: Request) -> Response:
    """A file below the roots. Query: path. Errors: 400 for another kind of file."""
    config = page.config_of(request)
    path = config.resolve(request.query_params.get("path", ""))
    if not path.name.endswith(OFFERED) or path.name.startswith(".") or not path.is_file():
        raise CaffeliteError("this file is not offered", expected=f"a file that ends in {', '.join(OFFERED)}")
    return page.file(path)


ROUTES = [
    *page.routes("/models", models),
    *page.routes("/models/net", net),
    *page.routes("/models/report", report),
    page.action("/models/test", test),
    page.action("/models/deploy", deploy),
    page.action("/models/export", export),
    page.Route("/download", download, methods=["GET"]),
]
