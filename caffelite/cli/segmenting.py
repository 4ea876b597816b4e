"""caffelite classify, with a net that has scores for each pixel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import image_results, options
from .image_results import Session

if TYPE_CHECKING:
    import numpy as np


def run(classifier: Any, session: Session, count: int, folder: Path | None, as_json: bool) -> None:
    """Classifies the pixels of images. count: classes of each image; folder: for coloured images."""
    from ..deploy import segment
    from ..deploy.annotate import annotate, png

    classifier.warm_up()
    session.ready()
    entries: list[dict[str, Any]] = []
    names: list[str] = []  # of the pictures

    for prediction in classifier.predictions(session.files, session.report):
        image = classifier.preparation.read(prediction.file)
        classes = segment.pixel_classes(prediction.scores, classifier.output.shape[1:], image.shape[1:])
        entry = _entry(prediction, segment.shares(classes, len(classifier.labels)), classifier.labels, count)
        entries.append(entry)
        if not as_json:
            _show(entry)
        if folder:
            page = segment.coloured(image, classes, len(classifier.labels))
            answers = [(one["label"], one["share"]) for one in entry["answers"][:3]]
            names.append(image_results.free_name(prediction.file.stem, names))
            image_results.write_picture(folder, names[-1], png(annotate(page, answers)))
    if as_json:
        options.print_json(entries, ensure_ascii=False)
    else:
        session.show_times(entries)


def _entry(prediction: Any, shares: np.ndarray, labels: list[str], count: int) -> dict[str, Any]:
    """The classes of an image, the largest first."""
    best = [i for i in (-shares).argsort(kind="stable").tolist() if shares[i] > 0][:count]
    answers = [{"label": labels[i], "class": i, "share": float(shares[i])} for i in best]
    return {
        "file": str(prediction.file),
        "seconds": round(prediction.seconds, 6),
        "notes": prediction.notes,
        "answers": answers,
    }


def _show(entry: dict[str, Any]) -> None:
    image_results.show_head(entry)
    for answer in entry["answers"]:
        options.say(f"  {100 * answer['share']:5.1f} %  {answer['label']}")
