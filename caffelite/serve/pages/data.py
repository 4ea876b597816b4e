"""The pages of data sets: the list, one set with its classes and a gallery, augmentation, audits."""

import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ... import roots, stored
from ...data import augmentation_preview, corrections
from ...data.files import Files
from ...errors import CaffeliteError, reporting
from ...roots import Outside
from ...runs.folder import write_atomically
from ...runs.queue.job import new_id
from .. import catalog, nets, page, uploads, work
from ..projects import check_name, taken_names
from ..samples import OpenSet, OpenSets, layer_source, parsed_layer, png_of, sample_label
from .try_model import data_url

MOST_SHOWN = 200  # samples of one answer
PAGE = 48  # samples of a gallery page
AUDITS = "audits"
FINDINGS = 50  # of each kind that a page shows
SET = {"path": str, "shapes": [{"shape": [int], "count": int}]}  # of an audit
RECORDS = [[{"key": str, "label": Any}]]
KINDS = {"unreadable": {str: str}, "odd": {str: str}, "duplicates": RECORDS, "near_duplicates": RECORDS}
PAIRS = {"in_both": [[[str]]], "near_in_both": [[str]]}


def data_sets(request: Request) -> Response:
    """The data sets below the roots."""
    config = page.config_of(request)
    rows = [{"path": one.address, "kind": one.kind, "changed": one.changed} for one in catalog.data_sets(config)]
    html = {"roots": config.root_names(), "taken": taken_names(config)}
    return page.render(request, "data.html", {"sets": rows}, only_html=html)


def data_set(request: Request) -> Response:
    """One set. Query: path; label, start: of the gallery; audit: the file of an audit; net, number: of the preview;
    left_out, file: of the upload before."""
    config, query = page.config_of(request), request.query_params
    text = query.get("path", "")
    opened = open_set(request, text)
    labels = opened.labels()
    values: dict[str, Any] = {
        "set": text,
        "total": opened.samples.length,
        "first_shape": list(opened.samples.first.shape),
        "classes": _classes(opened, labels),
        **_samples(request, opened, labels),
        "audit": _audit(config, text, query.get("audit", "")),
    }
    others = [one.address for one in catalog.data_sets(config) if one.address != text]
    queries = {"previous": values["start"] - PAGE, "next": values["start"] + PAGE}
    links = {name: urlencode({"path": text, "label": values["label"], "start": at}) for name, at in queries.items()}
    html = {"others": others, "links": links, "left_out": page.left_out(request)}
    return page.render(request, "data_set.html", values, only_html=html)


def samples(request: Request) -> Response:
    """Samples of a set: number, label, address of the image. Query: path, start, count, label."""
    opened = open_set(request, request.query_params.get("path", ""))
    return page.render(request, "data_set.html", _samples(request, opened, None))


def image(request: Request) -> Response:
    """A stored image as PNG. Query: path, or report (a folder of a test report), and number."""
    query = request.query_params
    number = page.number(query.get("number"), "number", 0, 1 << 60, 0)
    opened = of_report(request, query["report"]) if "report" in query else open_set(request, query.get("path", ""))
    [(pixels, _)] = opened.read([number])
    return Response(png_of(pixels), media_type="image/png", headers={"Cache-Control": "private, max-age=300"})


def preview(request: Request) -> Response:
    """A sample of a net's training data and what its augmentation makes of it. Query: net, number, count."""
    config, query = page.config_of(request), request.query_params
    path = config.resolve(query.get("net", ""))
    nets.read(config, path)
    number = page.number(query.get("number"), "number", 0, 1 << 60, 0)
    count = page.number(query.get("count"), "count", 1, 32, 12)
    stored, draws = augmentation_preview.of_net(path, number, count)
    pictures = [data_url(png_of(one)) for one in (stored, *draws)]
    values = {"net": query.get("net", ""), "number": number, "stored": pictures[0], "draws": pictures[1:]}
    return page.render(request, "preview.html", values)


def upload(request: Request, fields: page.Fields) -> Response:
    """Stores pictures as a folder of class folders. Fields: name of the folder, images, label, root."""
    config = page.config_of(request)
    name = page.text_field(fields, "name")
    check_name(name, "folder")
    folder = config.named_root(page.text_field(fields, "root", config.root_names()[0])) / name
    label = page.text_field(fields, "label", "")
    written = uploads.store(folder, page.uploads(fields, "images"), label, config.limits)
    address = config.address(folder)
    where = page.address("/data/set", path=address, left_out=str(written.others))
    return page.done(request, where, {"path": address, **asdict(written)})


def correct(request: Request, fields: page.Fields) -> Response:
    """Corrects the label of a sample of a test report in the list beside its class folders. Fields: report, sample (its
    number), label: the number of a class, "leave" to leave the image out, "keep" for the label of its folder."""
    config = page.config_of(request)
    text = page.text_field(fields, "report")
    labels = stored.read(config.resolve(text) / "report.json", {"labels": [str]}).get("labels", [])
    chosen = page.text_field(fields, "label")
    path, file = correction_of(request, text, page.number(page.text_field(fields, "sample"), "sample", 0, 1 << 60, 0))
    if chosen == "keep":
        label = None
    elif chosen == "leave":
        label = ""
    else:
        label = labels[page.number(chosen, "label", 0, len(labels) - 1, 0)]
    with _correcting, reporting(f"write {path.name}"):
        corrected = corrections.read(path)
        corrected.pop(file, None)
        if label is not None:
            corrected[file] = label
        write_atomically(path, corrections.text(corrected))
    values = {"list": config.address(path), "file": file, "label": label, "count": len(corrected)}
    return page.done(request, page.address("/models/report", path=text), values)


_correcting = threading.Lock()  # a list is read, and written with one more line


def correction_of(request: Request, report: str, sample: int) -> tuple[Path, str]:
    """(the list that may correct a sample of a report, the name of its image there). Errors: the samples are no files;
    the list is outside the roots."""
    config, samples = page.config_of(request), of_report(request, report).samples
    if not isinstance(samples, Files):
        what = "labels of a database are not corrected here"
        raise CaffeliteError(what, expected="image files in class folders")
    if not 0 <= sample < samples.length:
        raise CaffeliteError("no such sample", expected=f"0 to {samples.length - 1}", found=sample)
    image = config.resolve(samples.place(sample)[0], base=Path.cwd())
    path, file = corrections.path_of(image)
    return config.resolve(str(path)), file


def audit(request: Request, fields: page.Fields) -> Response:
    """Queues `caffelite dataset info` of a set, or of two, whose report the page of the first shows."""
    config = page.config_of(request)
    text = page.text_field(fields, "path")
    path = config.resolve(text)
    other = page.text_field(fields, "other", "")
    root = config.root_of(path)
    report = root / AUDITS / f"{new_id()}.json"
    with roots.folder(report.parent, make=True):
        pass
    sets = [text, *([other] if other else [])]
    files = [str(config.resolve(each)) for each in sets]
    for each in sets:
        open_set(request, each).hold()
    command = ["dataset", "info", *files, "--near", "--out", str(report)]
    here = Path.cwd() if any(Path.cwd().is_relative_to(each) for each in config.roots) else root
    _, values = work.queued(config, path, command, report, directory=here)
    return page.done(request, page.address("/data/set", path=text, audit=values["result"]), values)


def of_report(request: Request, text: str) -> OpenSet:
    """The samples that a test report was made of. text: the address of its folder. Errors: it names no images."""
    config = page.config_of(request)
    folder = config.resolve(text)
    layer = stored.read(folder / "report.json", {"data_layer": str}).get("data_layer")
    if layer is None:
        raise CaffeliteError("the report names no images", remedy="test again: caffelite test -report DIR")
    spec = parsed_layer(layer)
    source = Path(layer_source(spec))
    sets: OpenSets = request.app.state.data_sets
    return sets.of_layer(config, spec, source)


def open_set(request: Request, text: str) -> OpenSet:
    if not text:
        raise CaffeliteError("no data set is named", expected="path in the query")
    config = page.config_of(request)
    sets: OpenSets = request.app.state.data_sets
    return sets.get(config, config.resolve(text))


def _classes(opened: OpenSet, labels: np.ndarray | None) -> list[dict[str, Any]]:
    if labels is None:
        return []
    classes, counts = np.unique(labels, return_counts=True)
    pairs = zip(classes.tolist(), counts.tolist(), strict=True)
    return [{"class": number, "name": opened.name(number), "count": count} for number, count in pairs]


def _samples(request: Request, opened: OpenSet, labels: np.ndarray | None) -> dict[str, Any]:
    query = request.query_params
    start = page.number(query.get("start"), "start", 0, 1 << 60, 0)
    count = page.number(query.get("count"), "count", 1, MOST_SHOWN, PAGE)
    label = query.get("label", "")
    total = opened.samples.length
    if label:
        labels = opened.labels() if labels is None else labels
        if labels is None:
            raise CaffeliteError("this set has too many samples to choose a class")
        chosen = np.flatnonzero(labels == page.number(label, "label", 0, 1 << 31, 0))
        total = len(chosen)
        indices = chosen[start : start + count].tolist()
    else:
        indices = list(range(start, min(start + count, total)))
    path = query.get("path", "")
    rows = [
        {"number": index, **shown, "image": page.address("/data/image", path=path, number=str(index))}
        for index, shown in zip(indices, _labels(opened, indices), strict=True)
    ]
    return {"label": label, "start": start, "shown_total": total, "samples": rows, "total": opened.samples.length}


def _labels(opened: OpenSet, indices: list[int]) -> list[dict[str, str]]:
    """The class of each sample, and why it cannot be read, empty where it can be."""
    try:
        return [{"label": sample_label(opened, value), "unreadable": ""} for _, value in opened.read(indices)]
    except Outside:
        raise
    except CaffeliteError as error:
        if len(indices) < 2:
            return [{"label": "", "unreadable": str(error)}]
        half = len(indices) // 2
        return [*_labels(opened, indices[:half]), *_labels(opened, indices[half:])]


def _audit(config: Any, text: str, chosen: str) -> dict[str, Any] | None:
    """The audit that the query names, else the newest one of the set; {"pending": ...} where it is not written yet."""
    if not chosen:
        chosen = next((config.address(one) for one in _audits(config, text)), "")
    if not chosen:
        return None
    path = config.resolve(chosen)
    if not path.exists():
        return {"pending": True, "file": chosen}
    audit = stored.load(path, {"sets": [SET]}, PAIRS)
    if not audit["sets"]:
        raise CaffeliteError(f"{path.name} audits no data set")
    mine = config.resolve(text)
    entry = next((one for one in audit["sets"] if Path(one["path"]) == mine), audit["sets"][0])
    entry = dict.fromkeys(KINDS, []) | stored.chosen(entry, {"shapes": SET["shapes"], **KINDS})
    counts = {kind: len(entry[kind]) for kind in KINDS}
    both: dict[str, Any] = {kind: audit[kind][:FINDINGS] for kind in PAIRS if kind in audit}
    counts |= {kind: len(audit[kind]) for kind in both}
    first = {kind: _first(entry.get(kind, [])) for kind in KINDS}
    other = [one["path"] for one in audit["sets"] if one is not entry]
    shapes = entry["shapes"][:FINDINGS]
    return {"file": chosen, "counts": counts, "shapes": shapes, "other": other, **first, **both}


def _first(entries: dict[str, str] | list[Any]) -> list[Any]:
    return list(entries.items() if isinstance(entries, dict) else entries)[:FINDINGS]


def _audits(config: Any, text: str) -> list[Path]:
    """The audits of a set, the newest first."""
    path = config.resolve(text)
    root = config.root_of(path)
    audits = []
    with suppress(OSError, Outside), roots.folder(root / AUDITS) as opened:
        names = (each.name for each in opened.iterdir() if each.suffix == ".json" and not each.is_symlink())
        for name in sorted(names, reverse=True)[:100]:
            sets = stored.read(root / AUDITS / name, {"sets": [{"path": str}]}).get("sets", [])
            if any(one["path"] == str(path) for one in sets):
                audits.append(root / AUDITS / name)
    return audits


ROUTES = [
    *page.routes("/data", data_sets),
    *page.routes("/data/set", data_set),
    *page.routes("/data/samples", samples),
    *page.routes("/data/preview", preview),
    page.action("/data/upload", upload),
    page.action("/data/audit", audit),
    page.action("/data/correct", correct),
    page.Route("/data/image", image, methods=["GET"]),
]
