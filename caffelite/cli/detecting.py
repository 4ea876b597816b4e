"""`caffelite classify` with nets that detect objects: lists, draws and writes their boxes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import image_results, options, picture_net
from .image_results import Session

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
    from ..data import class_names
    from ..deploy.detect import Detector
    from ..runs.device_choice import open_device
    from ..runs.open_net import load_weights

    weights = picture_net.weights(document, weights)
    detector = Detector(document, open_device(gpu), count, class_names.read(labels) if labels else None)
    load_weights(detector.net, weights)
    return detector


def run(detector: Any, session: Session, wanted: Wanted) -> None:
    """Detects in all images."""
    detector.warm_up()
    session.ready()
    entries: list[dict] = []
    pages: dict[str, Any] = {}
    for one in detector.detections(session.files, wanted.least, session.report):
        entry = _entry(one, wanted.count)
        entries.append(entry)
        if not (wanted.as_json or wanted.table):
            _show(entry)
        if wanted.folder:
            pages[image_results.free_name(one.file.stem, pages)] = _page(detector, one.file, entry)
    if wanted.folder and pages:
        image_results.write_pictures(wanted.folder, pages)
    if wanted.table:
        _write_table(wanted.table, session, entries)
    if wanted.as_json:
        options.print_json(entries, ensure_ascii=False)
    else:
        session.show_times(entries)


def _entry(one: Any, count: int | None) -> dict:
    boxes = [each.record() for each in one.detections[:count]]
    return {"file": str(one.file), "seconds": round(one.seconds, 6), "notes": one.notes, "detections": boxes}


def _show(entry: dict) -> None:
    image_results.show_head(entry)
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


def _write_table(path: Path, session: Session, entries: list[dict]) -> None:
    """A row for each box, in the order of the images; one without a box for an image without any."""
    by_file = {entry["file"]: entry for entry in entries}
    rows: list[list[object]] = []
    for file in session.files:
        entry = by_file.get(str(file), {"detections": [], "seconds": ""})
        head = [str(file), entry["seconds"], session.failed.get(file, "")]
        boxes = [[one["label"], one["class"], f"{one['score']:.9g}", *one["box"]] for one in entry["detections"]]
        rows += [[*head, *box] for box in boxes or [[""] * 7]]
    count = sum(len(entry["detections"]) for entry in entries)
    image_results.write_table(path, HEAD, rows, f"{count} boxes in {len(entries)} images")
