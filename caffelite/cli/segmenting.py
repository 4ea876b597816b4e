"""caffelite classify, with a net that has scores for each pixel."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import CaffeliteError
from . import annotated, options

if TYPE_CHECKING:
    import numpy as np


def refuse(given: dict[str, Any]) -> None:
    """Errors: an option that does not apply to pixels."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"-{name} does not apply to a net that classifies pixels")


def run(classifier: Any, files: list[Path], count: int, folder: Path | None, as_json: bool, started: float) -> int:
    """Classifies the pixels of images; returns how many images could not be read. count: classes of each image; folder:
    for coloured images; started: when the command began."""
    from ..deploy import segment
    from ..deploy.annotate import annotate, png

    classifier.warm_up()
    opened, failed = time.perf_counter() - started, 0
    found: list[dict[str, Any]] = []
    names: list[str] = []  # of the pictures

    def report(file: Path, error: CaffeliteError) -> None:
        nonlocal failed
        failed += 1
        click.echo(f"caffelite: {error}", err=True)

    for answer in classifier.answers(files, report if len(files) > 1 else None):
        image = classifier.preparation.read(answer.file)
        classes = segment.pixel_classes(answer.scores, classifier.output.shape[1:], image.shape[1:])
        entry = _entry(answer, segment.shares(classes, len(classifier.labels)), classifier.labels, count)
        found.append(entry)
        if not as_json:
            _show(entry)
        if folder:
            page = segment.coloured(image, classes, len(classifier.labels))
            answers = [(one["label"], one["share"]) for one in entry["answers"][:3]]
            names.append(annotated.free_name(answer.file.stem, names))
            annotated.write_picture(folder, names[-1], png(annotate(page, answers)))
    if as_json:
        options.print_json(found, ensure_ascii=False)
    elif found:
        each = sum(entry["seconds"] for entry in found) / len(found)
        click.echo(f"{len(found)} images, {each:.4f} s each; {opened:.2f} s to open the net", err=True)
    return failed


def _entry(answer: Any, shares: np.ndarray, labels: list[str], count: int) -> dict[str, Any]:
    """The classes of an image, the largest first."""
    best = [i for i in (-shares).argsort(kind="stable").tolist() if shares[i] > 0][:count]
    answers = [{"label": labels[i], "class": i, "share": float(shares[i])} for i in best]
    return {"file": str(answer.file), "seconds": round(answer.seconds, 6), "notes": answer.notes, "answers": answers}


def _show(entry: dict[str, Any]) -> None:
    notes = f"  ({', '.join(entry['notes'])})" if entry["notes"] else ""
    options.say(f"{entry['file']}  {entry['seconds']:.4f} s{notes}")
    for answer in entry["answers"]:
        options.say(f"  {100 * answer['share']:5.1f} %  {answer['label']}")
