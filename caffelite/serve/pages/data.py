"""The pages of data sets: the list, one set with its classes and a gallery, augmentation, audits."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ... import inputs
from ...data import augmentation_preview
from ...errors import CaffeliteError
from .. import catalog, nets, page, paths, work
from ..samples import OpenSet, OpenSets, layer_source, parsed_layer, png_of, sample_label
from .try_model import data_url

MOST_SHOWN = 200  # samples of one answer
PAGE = 48  # samples of a gallery page
AUDITS = "audits"
FINDINGS = 50  # of each kind that a page shows


def data_sets(request: Request) -> Response:
    """The data sets below the roots."""
    config = page.config_of(request)
    rows = [{"path": one.address, "kind": one.kind, "changed": one.changed} for one in catalog.data_sets(config)]
    return page.render(request, "data.html", {"sets": rows})


def data_set(request: Request) -> Response:
    """One set. Query: path; label, start: of the gallery; audit: the file of an audit; net, number: of the preview."""
    config, query = page.config_of(request), request.query_params
    text = query.get("path", "")
    found = _open(request, text)
    labels = found.labels()
    values: dict[str, Any] = {
        "set": text,
        "total": found.samples.length,
        "first_shape": list(found.samples.first.shape),
        "classes": _classes(found, labels),
        **_samples(request, found, labels),
        "audit": _audit(config, text, query.get("audit", "")),
    }
    others = [one.address for one in catalog.data_sets(config) if one.address != text]
    queries = {"previous": values["start"] - PAGE, "next": values["start"] + PAGE}
    links = {name: urlencode({"path": text, "label": values["label"], "start": at}) for name, at in queries.items()}
    return page.render(
        request, "data_set.html", values, only_html={"others": others, "links": links, "page_size": PAGE}
    )


def samples(request: Request) -> Response:
    """Samples of a set: number, label, address of the image. Query: path, start, count, label."""
    found = _open(request, request.query_params.get("path", ""))
    return page.render(request, "data_set.html", _samples(request, found, None))


def image(request: Request) -> Response:
    """A stored image as PNG. Query: path, or report (a folder of a test report), and number."""
    query = request.query_params
    number = page.number(query.get("number"), "number", 0, 1 << 60, 0)
    found = of_report(request, query["report"]) if "report" in query else _open(request, query.get("path", ""))
    [(pixels, _)] = found.read([number])
    return Response(png_of(pixels), media_type="image/png", headers={"Cache-Control": "private, max-age=300"})


def preview(request: Request) -> Response:
    """A sample of a net's training data and what its augmentation makes of it. Query: net, number, count."""
    config, query = page.config_of(request), request.query_params
    path = paths.resolve(config, query.get("net", ""))
    nets.read(config, path)
    number = page.number(query.get("number"), "number", 0, 1 << 60, 0)
    count = page.number(query.get("count"), "count", 1, 32, 12)
    stored, draws = augmentation_preview.of_net(path, number, count)
    pictures = [data_url(png_of(one)) for one in (stored, *draws)]
    values = {"net": query.get("net", ""), "number": number, "stored": pictures[0], "draws": pictures[1:]}
    return page.render(request, "preview.html", values)


def audit(request: Request, fields: page.Fields) -> Response:
    """Queues `caffelite dataset info` of a set, or of two, whose report the page of the first shows."""
    config = page.config_of(request)
    text = page.text_field(fields, "path")
    path = paths.resolve(config, text)
    other = page.text_field(fields, "other", "")
    root = next(root for root in config.roots if path.is_relative_to(root))
    report = root / AUDITS / f"{time.strftime('%m%d-%H%M%S-')}{secrets.token_hex(2)}.json"
    report.parent.mkdir(exist_ok=True)
    sets = [text, *([other] if other else [])]
    files = [str(paths.resolve(config, each)) for each in sets]
    for each in sets:
        _open(request, each).hold()
    command = ["dataset", "info", *files, "--near", "--out", str(report)]
    job = work.submit(config, path, command, directory=Path.cwd())
    address = paths.address(config, report)
    where = page.address("/data/set", path=text, audit=address)
    return page.done(request, where, {**work.summary(config, job), "result": address})


def of_report(request: Request, text: str) -> OpenSet:
    """The samples that a test report was made of. text: the address of its folder. Errors: it names no images."""
    config = page.config_of(request)
    folder = paths.resolve(config, text)
    layer = read_object(folder / "report.json").get("data_layer")
    if not isinstance(layer, str):
        raise CaffeliteError("the report names no images", remedy="test again: caffelite test -report DIR")
    spec = parsed_layer(layer)
    source = Path(layer_source(spec))
    sets: OpenSets = request.app.state.data_sets
    return sets.of_layer(config, spec, source)


def read_object(path: Path) -> dict[str, Any]:
    """The object of a JSON file. Errors: it cannot be read."""
    try:
        found = json.loads(inputs.read_text(path))
    except (OSError, ValueError):
        raise CaffeliteError(f"{path.name} cannot be read", expected="a JSON file that caffelite wrote") from None
    if not isinstance(found, dict):
        raise CaffeliteError(f"{path.name} is no JSON object")
    return found


def _open(request: Request, text: str) -> OpenSet:
    if not text:
        raise CaffeliteError("no data set is named", expected="path in the query")
    config = page.config_of(request)
    sets: OpenSets = request.app.state.data_sets
    return sets.get(config, paths.resolve(config, text))


def _classes(found: OpenSet, labels: np.ndarray | None) -> list[dict[str, Any]]:
    """The number of samples of each class."""
    if labels is None:
        return []
    numbers, counts = np.unique(labels, return_counts=True)
    pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
    return [{"class": number, "name": found.name(number), "count": count} for number, count in pairs]


def _samples(request: Request, found: OpenSet, labels: np.ndarray | None) -> dict[str, Any]:
    """The samples that the query asks for."""
    query = request.query_params
    start = page.number(query.get("start"), "start", 0, 1 << 60, 0)
    count = page.number(query.get("count"), "count", 1, MOST_SHOWN, PAGE)
    label = query.get("label", "")
    total = found.samples.length
    if label:
        labels = found.labels() if labels is None else labels
        if labels is None:
            raise CaffeliteError("this set has too many samples to choose a class")
        chosen = np.flatnonzero(labels == page.number(label, "label", 0, 1 << 31, 0))
        total = len(chosen)
        numbers = chosen[start : start + count].tolist()
    else:
        numbers = list(range(start, min(start + count, total)))
    rows = []
    for number, (_, value) in zip(numbers, found.read(numbers), strict=True):
        name = sample_label(found, value)
        address = f"/data/image?{urlencode({'path': query.get('path', ''), 'number': number})}"
        rows.append({"number": number, "label": name, "image": address})
    return {"label": label, "start": start, "shown_total": total, "samples": rows, "total": found.samples.length}


def _audit(config: Any, text: str, chosen: str) -> dict[str, Any] | None:
    """The audit that the query names, else the newest one of the set; {"pending": ...} where it is not written yet."""
    if not chosen:
        chosen = next((paths.address(config, one) for one in _audits(config, text)), "")
    if not chosen:
        return None
    path = paths.resolve(config, chosen)
    if not path.exists():
        return {"pending": True, "file": chosen}
    found = read_object(path)
    mine = paths.resolve(config, text)
    which = next((one for one in found["sets"] if paths.resolve(config, one["path"]) == mine), found["sets"][0])
    kinds = ("unreadable", "odd", "duplicates", "near_duplicates")
    counts = {kind: len(which.get(kind, ())) for kind in kinds}
    both: dict[str, Any] = {kind: found[kind][:FINDINGS] for kind in ("in_both", "near_in_both") if kind in found}
    counts |= {kind: len(found[kind]) for kind in both}
    first = {kind: _first(which.get(kind, [])) for kind in kinds}
    other = [one["path"] for one in found["sets"] if one is not which]
    shapes = which["shapes"][:FINDINGS]
    return {"file": chosen, "counts": counts, "shapes": shapes, "other": other, **first, **both}


def _first(found: dict[str, str] | list[Any]) -> list[Any]:
    return list(found.items() if isinstance(found, dict) else found)[:FINDINGS]


def _audits(config: Any, text: str) -> list[Path]:
    """The audits of a set, the newest first."""
    path = paths.resolve(config, text)
    root = next(root for root in config.roots if path.is_relative_to(root))
    found = []
    for file in sorted((root / AUDITS).glob("*.json"), reverse=True)[:100]:
        with_sets = read_object(file).get("sets", [])
        if any(one.get("path") == str(path) for one in with_sets):
            found.append(file)
    return found


ROUTES = [
    *page.routes("/data", data_sets),
    *page.routes("/data/set", data_set),
    *page.routes("/data/samples", samples),
    *page.routes("/data/preview", preview),
    page.action("/data/audit", audit),
    page.Route("/data/image", image, methods=["GET"]),
]
