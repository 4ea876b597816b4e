"""caffelite classify"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import detecting, image_results, options, picture_net, segmenting
from .image_results import Session

if TYPE_CHECKING:
    import numpy as np

MANY = 1 << 20  # images, where their number is not known before the net is


# How a picture becomes the input.
_preparation = options.together(
    "preparation",
    click.option(
        "--mean",
        metavar="B,G,R",
        help="Mean to subtract, one number or one for each channel, instead of the net's own.",
    ),
    click.option(
        "--scale", type=float, metavar="FACTOR", help="Factor after the mean is subtracted, instead of the net's own."
    ),
    click.option(
        "--size", metavar="HxW", help="Size in pixels to which images are resized before the crop, as in 256x256."
    ),
    options.choice_option(
        "--channel_order", choices=["bgr", "rgb"], help="The channel order of the net's input.", case_sensitive=False
    ),
)


@click.command(short_help="Classify images")
@click.argument("images", metavar="[IMAGE…]", nargs=-1, type=click.Path())
@options.model
@options.weights
@options.count_option(
    "--top", "count", help="Answers for each image. Default: 5, and all boxes of a net that detects objects."
)
@options.file_option("--labels", help="Names of the classes, one on each line. Default: the net's own.")
@click.option(
    "--oversample",
    is_flag=True,
    help="Average ten crops of each image: four corners and the centre, and their mirror images.",
)
@options.file_option("--hierarchy", help="Groups of classes, for more general answers too.")
@click.option(
    "--annotate",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the images with the answers drawn on them, and all.png with all of them.",
)
@options.file_option(
    "--list",
    "known",
    help="Instead of IMAGE: a list or .csv table of images with their answers, as caffelite new writes it. Prints the "
    "accuracy, or the errors of numbers, with 95 % intervals.",
)
@options.file_option(
    "--csv",
    "table",
    help="Write a table with a row for each image: file, seconds, error, and label and score of each answer.",
    folder=False,
)
@_preparation
@click.option("--output", metavar="BLOB", help="The blob with the scores. Default: prob, or the only output.")
@click.option("--skip", is_flag=True, help="Exit with status 0 although some of several images could not be read.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.3,
    show_default=True,
    metavar="SCORE",
    help="For nets that detect objects: the least score of a box.",
)
@options.set_layers
@options.gpu
@options.python
@options.as_json
def classify(
    images,
    model,
    weights,
    count,
    labels,
    oversample,
    hierarchy,
    folder,
    known,
    table,
    preparation,
    output,
    skip,
    threshold,
    set_fields,
    gpu,
    as_json,
) -> None:
    """Classifies images: files, folders with their content, or patterns such as "scans/*.png".

    MODEL is a deploy net, or the name of a net that ships with weights (caffelite models). One that caffelite deploy
    wrote contains its weights' path, labels and preprocessing:
    mean, scale, size, crop, channel order, and for single glyphs background, size and position. For other nets
    -mean, -scale, -size and -channel_order set them.

    A hierarchy is a text file with a name on each line; what belongs to a group is indented below it. Answers go
    from the best class to the root, each more probable than the one before; bits are the information of an answer.

    A net that ends in DetectionOutput, RoIDetectionOutput, YoloDetectionOutput or Yolov3DetectionOutput, or in the
    rois, cls_prob and bbox_pred of Faster R-CNN, detects objects instead: each is listed with score, class and box
    (xmin, ymin, xmax, ymax) in pixels, and -annotate draws the boxes. A net with scores for each pixel prints the
    share of each class in an image; -annotate colours the pixels by their classes.

    If one of several images cannot be read, it is reported, the others are classified, and the exit status is 1.

    \b
    Example:
      caffelite classify -model lenet_mnist digit.png
      caffelite classify -model digits.prototxt drawn/ -annotate answers
      caffelite classify -model pets/deploy.prototxt -list pets/test.txt
      caffelite classify -model pets/deploy.prototxt photos/ -top 3 -csv answers.csv
      caffelite classify -model caffenet.prototxt "photos/*.jpg" -oversample -hierarchy animals.txt -json
    """
    import glob

    from ..deploy.classify import gather
    from ..deploy.detect import detects

    if bool(images) == bool(known):
        raise click.UsageError("name images, or a list of them with -list")
    session = Session(gather(images, glob.glob))
    document, expected = picture_net.read(model, set_fields, preparation), len(session.files) or MANY
    if detects(document):
        values = {"oversample": oversample, "hierarchy": hierarchy, "list": known}
        image_results.refuse(values, "is for classifiers, and the net detects objects")
        wanted = detecting.Wanted(count, threshold, folder, table, as_json)
        detecting.run(detecting.open_detector(document, weights, gpu, expected, labels), session, wanted)
        return session.end(skip)
    classifier = _open(document, weights, gpu, expected, oversample, labels, output)
    if classifier.pixels:
        values = {"oversample": oversample, "hierarchy": hierarchy, "list": known, "csv": table}
        image_results.refuse(values, "does not apply to a net that classifies pixels")
        segmenting.run(classifier, session, count or 5, folder, as_json)
    else:
        _classify(classifier, session, known, hierarchy, count or 5, folder, table, as_json)
    session.end(skip)


def _classify(
    classifier: Any,
    session: Session,
    known: Path | None,
    hierarchy: Path | None,
    count: int,
    folder: Path | None,
    table: Path | None,
    as_json: bool,
) -> None:
    from ..deploy.hierarchy import Hierarchy

    truth = _read_known(known, classifier) if known else None
    session.files = truth.files if truth else session.files
    groups = Hierarchy(hierarchy, classifier.labels) if hierarchy else None
    classifier.warm_up()
    session.ready()
    entries, scores = list[dict](), list["np.ndarray"]()
    pages: dict[str, np.ndarray] = {}
    for prediction in _reported(len(session.files), classifier.predictions(session.files, session.report)):
        entry = _entry(prediction, classifier.labels, count, groups, classifier.classifies)
        entries.append(entry)
        if truth:
            scores.append(prediction.scores)
        elif not as_json and not table:
            _show(entry, classifier.answer)
        if folder:
            pages[image_results.free_name(prediction.file.stem, pages)] = _page(
                classifier.preparation, prediction.file, entry
            )
    if folder and pages:
        image_results.write_pictures(folder, pages)
    if table:
        _write_table(table, session, entries, min(count, len(classifier.labels)))
    compared = _compare(truth, scores, session, classifier) if truth and scores else None
    _print_end(entries, session, as_json, compared)


def _reported(total: int, predictions: Iterable) -> Iterator:
    """The answers; a job reports how many there are."""
    from ..progress import bar

    with bar(total, unit="image", shown=False) as shown:
        for prediction in predictions:
            yield prediction
            shown.update()


def _read_known(path: Path, classifier: Any) -> Any:
    """The images of a list with their answers."""
    from .. import caffelite_pb2 as pb
    from ..deploy.known import read

    return read(path, len(classifier.labels), classifier.answer != pb.DeployParameter.CLASSES)


def _compare(truth: Any, scores: list, session: Session, classifier: Any) -> list:
    """The scores of answers against known ones, without images that could not be read."""
    import numpy as np

    from .. import caffelite_pb2 as pb
    from ..report import known

    kinds = {pb.DeployParameter.LABELS: known.labels, pb.DeployParameter.NUMBERS: known.numbers}
    rows = [row for row, file in enumerate(truth.files) if file not in session.failed]
    return kinds.get(classifier.answer, known.classes)(np.array(scores), truth.answers[rows], classifier.labels)


def _print_end(entries: list[dict], session: Session, as_json: bool, compared: list | None) -> None:
    """Prints all answers as JSON, or how long one took; and how they compare with known ones."""
    if as_json:
        answers = {"scores": [score.record() for score in compared], "images": entries} if compared else entries
        options.print_json(answers, ensure_ascii=False)
        return
    for score in compared or []:
        options.say(str(score))
    session.show_times(entries)


def _open(
    document: Any,
    weights: tuple[str, ...],
    gpu: str | None,
    count: int,
    oversample: bool,
    labels: Path | None,
    output: str | None,
) -> Any:
    """The classifier of a net, with its weights."""
    from ..data import class_names
    from ..deploy.classify import Classifier
    from ..runs.device_choice import open_device
    from ..runs.open_net import load_weights

    weights = picture_net.weights(document, weights)
    names = class_names.read(labels) if labels else None
    classifier = Classifier(document, open_device(gpu), count, oversample, names, output)
    load_weights(classifier.net, weights)
    return classifier


def _entry(prediction, labels: list[str], count: int, groups, classified: bool = True) -> dict:
    """classified: only the best ``count`` answers count; else all numbers."""
    entry = {"file": str(prediction.file), "seconds": round(prediction.seconds, 6), "notes": prediction.notes}
    best = prediction.top(count if classified else len(labels))
    entry["answers"] = [{"label": labels[i], "class": i, "score": float(prediction.scores[i])} for i in best]
    if groups:
        entry["general"] = [asdict(general) for general in groups.answers(prediction.scores)]
    return entry


def _show(entry: dict, kind: int) -> None:
    """Prints an answer: the best classes or labels first, numbers in their order."""
    from .. import caffelite_pb2 as pb

    image_results.show_head(entry)
    if kind == pb.DeployParameter.NUMBERS:
        for answer in sorted(entry["answers"], key=lambda answer: answer["class"]):
            options.say(f"  {answer['label']} = {answer['score']:.6g}")
        return
    for answer in entry["answers"]:
        options.say(f"  {answer['score']:.4f}  {answer['label']}")
    if "general" in entry:
        options.say("  in general:")
        for general in entry["general"]:
            options.say(f"  {general['score']:.4f}  {general['name']} ({general['bits']:.1f} bits)")


def _write_table(path: Path, session: Session, entries: list[dict], count: int) -> None:
    """Writes a row for each image in their order. A row of an image that could not be read has the error."""
    by_file = {entry["file"]: entry for entry in entries}
    head = ["file", "seconds", "error", *(f"{name}{i}" for i in range(1, count + 1) for name in ("label", "score"))]
    rows = []
    for file in session.files:
        entry = by_file.get(str(file), {"answers": [], "seconds": ""})
        answers = [text for a in entry["answers"][:count] for text in (a["label"], f"{a['score']:.9g}")]
        answers += [""] * (2 * count - len(answers))
        rows.append([str(file), entry["seconds"], session.failed.get(file, ""), *answers])
    image_results.write_table(path, head, rows, f"{len(rows)} rows")


def _page(preparation, file: Path, entry: dict):
    """The picture as it is, with its answers."""
    from ..deploy.annotate import annotate

    return annotate(preparation.read(file), [(answer["label"], answer["score"]) for answer in entry["answers"][:3]])
