"""`caffelite classify` with nets that detect objects: lists, draws and writes their boxes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..errors import CaffeliteError
from . import annotated, options, picture_net
from .deploy import class_names

HEAD = ("file", "seconds", "error", "label", "class", "score", "xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True)
class Wanted:
    """What the options request: at most ``count`` boxes of an image with scores from ``least`` on; a folder for
    pictures, a file for a table."""

    count: int | None
    least: float
    folder: Path | None
    table: Path | None
    as_json: bool


def open_detector(document: Any, weights: tuple[str, ...], gpu: str | None, count: int, labels: Path | None) -> Any:
    """The detector of a net, with its weights."""
    from ..deploy.detect import Detector
    from ..runs.device_choice import open_device
    from ..runs.open_net import load_weights

    weights = picture_net.weights(document, weights)
    detector = Detector(document, open_device(gpu), count, class_names(labels) if labels else None)
    load_weights(detector.net, weights)
    return detector


def run(detector: Any, files: list[Path], wanted: Wanted, started: float) -> int:
    """Detects in all images; returns how many could not be read."""
    failed: dict[Path, str] = {}

    def report(file: Any, error: CaffeliteError) -> None:
        failed[file] = str(error)
        click.echo(f"caffelite: {error}", err=True)

    detector.warm_up()
    opened = time.perf_counter() - started
    found: list[dict] = []
    pages: dict[str, Any] = {}
    for one in detector.detections(files, wanted.least, report if len(files) > 1 else None):
        entry = _entry(one, wanted.count)
        found.append(entry)
        if not (wanted.as_json or wanted.table):
            _show(entry)
        if wanted.folder:
            pages[annotated.free_name(one.file.stem, pages)] = _page(detector, one.file, entry)
    if wanted.folder and pages:
        annotated.write_pictures(wanted.folder, pages)
    if wanted.table:
        _write_table(wanted.table, files, found, failed)
    if wanted.as_json:
        options.print_json(found, ensure_ascii=False)
    elif found:
        each = sum(entry["seconds"] for entry in found) / len(found)
        text = f"{len(found)} image{'s' * (len(found) > 1)}, {each:.4f} s each; {opened:.2f} s to open the net"
        click.echo(text, err=True)
    return len(failed)


def _entry(one: Any, count: int | None) -> dict:
    boxes = [each.record() for each in one.found[:count]]
    return {"file": str(one.file), "seconds": round(one.seconds, 6), "notes": one.notes, "detections": boxes}


def _show(entry: dict) -> None:
    notes = f"  ({', '.join(entry['notes'])})" if entry["notes"] else ""
    options.say(f"{entry['file']}  {entry['seconds']:.4f} s{notes}")
    for one in entry["detections"]:
        corners = " ".join(f"{v:.1f}" for v in one["box"])
        options.say(f"  {one['score']:.4f}  {one['label']}  {corners}")
    if not entry["detections"]:
        options.say("  nothing found")


def _page(detector: Any, file: Path, entry: dict) -> Any:
    """The picture with its boxes."""
    from ..data.box_drawing import with_boxes

    image = detector.preparation.read(file)
    drawn = [(d["class"], f"{d['label']} {d['score']:.2f}", tuple(d["box"])) for d in entry["detections"]]
    return with_boxes(image, list(reversed(drawn)))


def _write_table(path: Path, files: list[Path], found: list[dict], failed: dict[Path, str]) -> None:
    """A row for each box, in the order of the images; one without a box for an image without any."""
    import csv

    from ..data.writers import atomic

    entries: dict[str, dict] = {entry["file"]: entry for entry in found}
    with atomic(path) as draft, draft.open("w", encoding="utf-8", newline="") as lines:
        rows = csv.writer(lines)
        rows.writerow(HEAD)
        for file in files:
            entry = entries.get(str(file), {"detections": [], "seconds": ""})
            head = [str(file), entry["seconds"], failed.get(file, "")]
            for one in entry["detections"]:
                rows.writerow([*head, one["label"], one["class"], f"{one['score']:.9g}", *one["box"]])
            if not entry["detections"]:
                rows.writerow([*head, *[""] * 7])
    click.echo(f"wrote {path}: {sum(len(e['detections']) for e in found)} boxes in {len(found)} images", err=True)


def refuse(given: dict[str, Any], error: Callable[[str], Exception]) -> None:
    """Errors: options that only classifiers have."""
    for name, value in given.items():
        if value:
            raise error(f"-{name} is for classifiers, and the net detects objects")
