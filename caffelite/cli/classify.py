"""caffelite classify"""

from __future__ import annotations

import glob
import itertools
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import roots
from ..errors import CaffeliteError, reporting
from ..spreadsheet import csv_text
from . import options
from .options import comma_separated
from .output import say

if TYPE_CHECKING:
    import numpy as np

MANY = 1 << 20  # images, where their number is not known before the net is
Failed = Callable[[Path, CaffeliteError], None]  # receives an image that cannot be read, and why


# How a picture becomes the input.
_preparation = options.together(
    "preparation",
    click.option(
        "--mean",
        metavar="B,G,R|FILE",
        help="Mean to subtract instead of the net's own: one number; those of blue, green and red in this order, in a "
        "net of rgb too; or a mean image (.binaryproto, .npy) in the order of the net's channels.",
    ),
    click.option(
        "--scale",
        type=options.FiniteRange(),
        metavar="FACTOR",
        help="Factor after the mean is subtracted, instead of the net's own.",
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
@options.deploy_net
@options.weights
@options.count_option(
    "--top", "count", help="Answers for each image. Default: 5, and all boxes of a net that detects objects."
)
@options.file_option("--labels", help="Names of the classes, one on each line. Default: the net's own.")
@click.option(
    "--oversample",
    is_flag=True,
    help="Average ten crops of each image: four corners and the center, and their mirror images.",
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
    help="Instead of IMAGE: a list or .csv table of images with their answers, as caffelite new writes it, or a folder "
    "with a subfolder for each class. Prints the accuracy, or the errors of numbers, with 95 % intervals.",
)
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="With -list: write report.html and report.json as caffelite test does: confusion matrix, precision and "
    "recall, calibration, the worst errors.",
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
@options.number_option(
    "--threshold",
    help="For nets that detect objects: the least score of a box.",
    kind=options.FiniteRange(0, 1),
    default=0.3,
    metavar="SCORE",
)
@options.set_layers
@options.gpu
@options.code
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
    report,
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

    A deploy net that caffelite deploy wrote contains its weights' path, labels and preprocessing: mean, scale, size,
    crop, channel order, and for single glyphs background, size and position. For other nets -mean, -scale, -size and
    -channel_order set them. A model archive of DIGITS (.tar.gz, .zip) is taken for -model as it is. caffelite models
    lists the nets that ship.

    A hierarchy is a text file with a name on each line; what belongs to a group is indented below it. Answers go
    from the best class to the root, each more probable than the one before; bits are the information of an answer.

    A net that ends in DetectionOutput, RoIDetectionOutput, YoloDetectionOutput or Yolov3DetectionOutput, or in the
    rois, cls_prob and bbox_pred of Faster R-CNN, detects objects instead: each is listed with score, class and box
    (xmin, ymin, xmax, ymax) in pixels, and -annotate draws the boxes. A net with scores for each pixel prints the
    share of each class in an image; -annotate colors the pixels by their classes. A net that ends in
    CTCGreedyDecoder reads a line of text in each image; labels are its letters, with or without the blank.

    If one of several images cannot be read, it is reported, the others are classified, and the exit status is 1.

    \b
    Example:
      caffelite classify -model lenet_mnist digit.png
      caffelite classify -model digits.prototxt drawn/ -annotate answers
      caffelite classify -model pets/deploy.prototxt -list pets/test.txt
      caffelite classify -model pets/deploy.prototxt -list holiday/ -report holiday_report
      caffelite classify -model pets/deploy.prototxt photos/ -top 3 -csv answers.csv
      caffelite classify -model caffenet.prototxt "photos/*.jpg" -oversample -hierarchy animals.txt -json
    """
    from .. import prototxt
    from ..deploy.classify import Classifier, gather
    from ..deploy.detect import Detector, detects
    from ..deploy.read import Reader, reads
    from ..layers.base import unknown_types
    from ..prototxt.overrides import Overrides

    if bool(images) == bool(known):
        raise click.UsageError("name images, or a list of them with -list")
    _check_report(report, known)
    session = Session(gather(images, glob.glob), folder, table, as_json)
    model, weights, labels = _unpacked(model, weights, labels, preparation)
    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    document, expected = Overrides(set_fields).net(document), len(session.files) or MANY
    _override(document.message, **preparation)
    for_classifiers = {"oversample": oversample, "hierarchy": hierarchy, "list": known}
    if reads(document):
        _refuse(for_classifiers | {"output": output}, "is for classifiers, and the net reads text")
        session.run(_Lines(_open(partial(Reader, pictures=expected), document, weights, gpu, labels)))
    elif detects(document):
        _refuse(for_classifiers, "is for classifiers, and the net detects objects")
        detector = _open(partial(Detector, pictures=expected), document, weights, gpu, labels)
        session.run(_Boxes(detector, count, threshold))
    else:
        kind = partial(Classifier, pictures=expected, oversample=oversample, output=output)
        classifier = _open(kind, document, weights, gpu, labels)
        if classifier.pixels:
            _refuse(for_classifiers | {"csv": table}, "does not apply to a net that classifies pixels")
            session.run(_Pixels(classifier, count or 5))
        else:
            session.run(answers := _Classes(classifier, count or 5, hierarchy), known)
            if report and session.entries:
                used = ",".join(options.named_weights(document, weights))
                about = {"name": document.message.name, "model": str(model), "weights": used}
                say(f"wrote {answers.write_report(report, about)}", err=True)
    session.end(skip)


def _check_report(report: Path | None, known: Path | None) -> None:
    """Errors: a report without known answers; what it needs is not installed."""
    if report and not known:
        raise click.UsageError("-report needs known answers: name them with -list")
    if report:
        from ..report import pictures

        pictures.check_installed()


def _unpacked(
    model: str, weights: tuple[str, ...], labels: Path | None, preparation: dict[str, Any]
) -> tuple[str | Path, tuple[str, ...], Path | None]:
    """The net, weights and labels; where the net is a model archive, its files, the mean too, until the command ends.
    What the user names goes before them."""
    from ..deploy import archive

    if not archive.is_archive(model):
        return model, weights, labels
    folder = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="caffelite-"))
    packed = archive.unpack(model, Path(folder))
    if packed.mean and preparation["mean"] is None:
        preparation["mean"] = str(packed.mean)
    snapshot = (str(packed.weights),) if packed.weights else ()
    return packed.model, weights or snapshot, labels or packed.labels


def _refuse(values: Mapping[str, Any], why: str) -> None:
    """Errors: options that do not go with the net. why: follows the name of the option."""
    for name, value in values.items():
        if value:
            raise click.UsageError(f"-{name} {why}")


def _override(net, mean: str | None, scale: float | None, size: str | None, channel_order: str | None) -> None:
    """Replaces the net's preprocessing by that of the options."""
    from ..data.images import MOST_PIXELS
    from ..layers.base.feeding import is_input

    inputs = [layer for layer in net.layer if is_input(layer)]
    if not inputs:
        return  # the classifier reports it
    param = inputs[0].transform_param
    if channel_order is not None:
        net.deploy_param.channel_order = net.deploy_param.ChannelOrder.Value(channel_order.upper())
    if mean is not None:
        param.ClearField("mean_file")
        param.ClearField("mean_value")
        if os.path.isfile(mean):
            param.mean_file = mean
        else:
            values = [_number(text) for text in comma_separated(mean)]
            if len(values) == 3 and net.deploy_param.channel_order == net.deploy_param.RGB:
                values.reverse()  # a net's mean_value is in the order of its channels
            param.mean_value.extend(values)
    if scale is not None:
        param.scale = scale
    if size is not None:
        sides = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", size)
        if not sides:
            raise CaffeliteError("a bad -size", expected="rows x columns, as in 256x256", found=size)
        height, width = map(int, sides.groups())
        if height * width > MOST_PIXELS:
            raise CaffeliteError("a bad -size", expected=f"at most {MOST_PIXELS} pixels", found=size)
        net.deploy_param.height, net.deploy_param.width = height, width


def _number(text: str) -> float:
    try:
        if math.isfinite(number := float(text)):
            return number
        raise ValueError
    except ValueError:
        raise CaffeliteError("a bad -mean", expected="numbers, as in 104,117,123, or a file", found=text) from None


@dataclass
class Session:
    """The images that the command reads, and where answers go: pictures into a folder, rows into a table. opened:
    seconds until the net was ready. failed: errors of images that could not be read. compared: with known answers."""

    files: Sequence[Path]
    folder: Path | None
    table: Path | None
    as_json: bool
    started: float = field(default_factory=time.perf_counter)
    opened: float = 0.0
    failed: dict[Path, str] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)

    def run(self, answers: Any, known: Path | None = None) -> None:
        """Prints, draws and writes the answers to all images. answers: of a kind of net, ``of`` images; of each an
        ``entry`` of the JSON, ``lines`` to print, a ``page`` with the picture, and ``cells`` of a table (none of an
        empty entry); on_sheet: pages are on all.png, too. known: a list of images with their true answers, which are
        compared instead of printed."""
        from ..progress import bar

        truth = answers.read_known(known) if known else None
        self.files = truth.files if truth else self.files
        answers.net.warm_up()
        self.opened = time.perf_counter() - self.started
        pages: dict[str, Any] = {}
        with bar(len(self.files), unit=" images", shown=False) as shown:  # which a job reports
            for one in answers.of(self.files, self._report if len(self.files) > 1 else None):
                note = {"file": str(one.file), "seconds": round(one.seconds, 6), "notes": one.notes}
                entry = note | answers.entry(one)
                self.entries.append(entry)
                if not (self.as_json or self.table or truth):
                    notes = f"  ({', '.join(entry['notes'])})" if entry["notes"] else ""
                    say(f"{entry['file']}  {entry['seconds']:.4f} s{notes}")
                    say("\n".join(answers.lines(entry)))
                if self.folder:
                    name = free_name(one.file.stem, pages)
                    pages[name] = self._drawn(name, answers, one, entry)
                shown.update()
        if answers.on_sheet and pages:
            self._write_sheet(list(pages.values()))
        if self.table:
            self._write_table(answers)
        self._print_end(answers.compare(truth, self.failed) if truth and self.entries else None)

    def _report(self, file: Path, error: CaffeliteError) -> None:
        """Prints the error of an image that cannot be read; that of a single one ends the command."""
        self.failed[file] = str(error)
        say(f"caffelite: {error}", err=True)

    def _drawn(self, name: str, answers: Any, one: Any, entry: dict[str, Any]) -> Any:
        """Writes the picture of an image with its answers, and returns it for the sheet."""
        from ..deploy.annotate import png

        page, folder = answers.page(one, entry), self.folder or Path()
        with reporting(f"write to {folder}"):
            with roots.folder(folder, make=True):
                roots.write(folder / f"{name}.png", png(page))
        return page if answers.on_sheet else None

    def _write_sheet(self, pages: list[Any]) -> None:
        from ..deploy.annotate import png, sheet

        options.write_picture((self.folder or Path()) / "all.png", png(sheet(pages)))

    def _write_table(self, answers: Any) -> None:
        """Writes the rows of each image in their order. A row of an image that could not be read has the error."""
        from ..data.drafts import atomic

        path, by_file = self.table or Path(), {entry["file"]: entry for entry in self.entries}
        rows: list[list[object]] = []
        for file in self.files:
            entry = by_file.get(str(file), {})
            head = [str(file), entry.get("seconds", ""), self.failed.get(file, "")]
            rows += [[*head, *cells] for cells in answers.cells(entry)]
        with atomic(path) as draft:
            text = csv_text([["file", "seconds", "error", *answers.columns], *rows])
            draft.write_text(text, "utf-8", newline="")
        say(f"wrote {path}: {answers.written(rows, self.entries)}", err=True)

    def _print_end(self, compared: list | None) -> None:
        """Prints all answers as JSON, or how long one took; and how they compare with known ones."""
        if self.as_json:
            scores = {"scores": [score.record() for score in compared], "images": self.entries} if compared else None
            options.print_json(scores or self.entries, ensure_ascii=False)
            return
        for score in compared or []:
            say(str(score))
        if self.entries:
            each = sum(entry["seconds"] for entry in self.entries) / len(self.entries)
            count = f"{len(self.entries)} image{'s' * (len(self.entries) > 1)}"
            say(f"{count}, {each:.4f} s each; {self.opened:.2f} s to open the net", err=True)

    def end(self, skip: bool) -> None:
        """Ends the command with status 1 if images failed, unless they are to be skipped."""
        if self.failed:
            say(f"{len(self.failed)} of {len(self.files)} pictures could not be read", err=True)
            sys.exit(0 if skip else 1)


def free_name(stem: str, taken: Container[str]) -> str:
    """A picture's name, or one with a number where a picture of another folder has it; not "all"."""
    names = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken and name != "all")


def _open(kind: Callable, document: Any, weights: tuple[str, ...], gpu: str | None, labels: Path | None) -> Any:
    """A Classifier, a Detector or a Reader with its weights. kind: makes it of a document, a device and labels."""
    from ..data import class_names
    from ..runs.open_net import load_weights, open_device

    weights = options.named_weights(document, weights)
    names = class_names.read(labels) if labels else None
    opened = kind(document, open_device(gpu), labels=names)
    load_weights(opened.net, weights)
    return opened


class _Classes:
    """The best ``count`` classes or labels, or all numbers in their order; with a hierarchy groups of classes too."""

    on_sheet = True

    def __init__(self, classifier: Any, count: int, hierarchy: Path | None):
        from ..deploy.hierarchy import Hierarchy

        self.net, self.labels = classifier, classifier.labels
        self.count = count if classifier.classifies else len(self.labels)
        self.groups = Hierarchy(hierarchy, self.labels) if hierarchy else None
        self.scores: list[np.ndarray] = []
        self.compared: list[Any] = []
        self.judged: Any = None
        self.listed: list[tuple[Path, int]] = []
        self.shown = min(count, len(self.labels))  # in a table
        self.columns = [f"{name}{i}" for i in range(1, self.shown + 1) for name in ("label", "score")]

    def of(self, files: Sequence[Path], failed: Failed | None) -> Iterable:
        return self.net.predictions(files, failed)

    def entry(self, one: Any) -> dict[str, Any]:
        self.scores.append(one.scores)
        best = one.top(self.count)
        answers = [{"label": self.labels[i], "class": i, "score": float(one.scores[i])} for i in best]
        general = {"general": [asdict(each) for each in self.groups.answers(one.scores)]} if self.groups else {}
        return {"answers": answers, **general}

    def lines(self, entry: dict[str, Any]) -> list[str]:
        if not self.net.classifies:
            by_class = sorted(entry["answers"], key=lambda answer: answer["class"])
            return [f"  {answer['label']} = {answer['score']:.6g}" for answer in by_class]
        lines = [f"  {answer['score']:.4f}  {answer['label']}" for answer in entry["answers"]]
        groups = [f"  {g['score']:.4f}  {g['name']} ({g['bits']:.1f} bits)" for g in entry.get("general", [])]
        return [*lines, "  in general:", *groups] if groups else lines

    def page(self, one: Any, entry: dict[str, Any]) -> Any:
        from ..deploy.annotate import annotate

        answers = [(answer["label"], answer["score"]) for answer in entry["answers"][:3]]
        return annotate(self.net.preparation.read(one.file), answers)

    def cells(self, entry: dict[str, Any]) -> list[list[Any]]:
        texts = [text for a in entry.get("answers", [])[: self.shown] for text in (a["label"], f"{a['score']:.9g}")]
        return [[*texts, *[""] * (2 * self.shown - len(texts))]]

    def written(self, rows: list, entries: list[dict[str, Any]]) -> str:
        return f"{len(rows)} rows"

    def read_known(self, path: Path) -> Any:
        """The images of a list with their answers."""
        from .. import caffelite_pb2 as pb
        from ..data import tables
        from ..deploy.known import read

        tasks = {pb.DeployParameter.LABELS: tables.LABELS, pb.DeployParameter.NUMBERS: tables.NUMBERS}
        return read(path, self.labels, tasks.get(self.net.answer, tables.CLASSES))

    def compare(self, truth: Any, failed: Container[Path]) -> list:
        """The scores of answers against known ones, without images that could not be read."""
        import numpy as np

        from .. import caffelite_pb2 as pb
        from ..report import known

        rows = [row for row, file in enumerate(truth.files) if file not in failed]
        scores, answers = np.array(self.scores), truth.answers[rows]
        kinds = {pb.DeployParameter.LABELS: known.labels, pb.DeployParameter.NUMBERS: known.numbers}
        if kind := kinds.get(self.net.answer):
            self.compared = kind(scores, answers, self.labels)
        else:
            self.judged = known.judge(scores, answers)
            self.compared = known.classes(self.judged, self.labels)
            self.listed = [(truth.files[row], int(truth.answers[row])) for row in rows]
        return self.compared

    def write_report(self, folder: Path, about: dict[str, str]) -> Path:
        """Writes the report of what ``compare`` compared."""
        from ..report import known

        read = self.net.preparation.read
        return known.write_report(folder, self.compared, self.judged, self.labels, self.listed, read, about)


class _Pixels:
    """The shares of classes among the pixels of an image, the ``count`` largest."""

    on_sheet = False

    def __init__(self, classifier: Any, count: int):
        self.net, self.count = classifier, count

    def of(self, files: Sequence[Path], failed: Failed | None) -> Iterable:
        return self.net.predictions(files, failed)

    def _classes(self, one: Any) -> tuple[Any, Any]:
        from ..deploy.annotate import pixel_classes

        image = self.net.preparation.read(one.file)
        return image, pixel_classes(one.scores, self.net.output.shape[1:], image.shape[1:])

    def entry(self, one: Any) -> dict[str, Any]:
        from ..deploy.annotate import ranked_shares

        labels = self.net.labels
        ranked = ranked_shares(self._classes(one)[1], len(labels))[: self.count]
        return {"answers": [{"label": labels[i], "class": i, "share": share} for i, share in ranked]}

    def lines(self, entry: dict[str, Any]) -> list[str]:
        return [f"  {100 * answer['share']:5.1f} %  {answer['label']}" for answer in entry["answers"]]

    def page(self, one: Any, entry: dict[str, Any]) -> Any:
        from ..deploy.annotate import annotate, colored

        answers = [(answer["label"], answer["share"]) for answer in entry["answers"][:3]]
        return annotate(colored(*self._classes(one), len(self.net.labels)), answers)


class _Lines:
    """The line of text of an image."""

    on_sheet = True
    columns = ("text", "score")

    def __init__(self, reader: Any):
        self.net = reader

    def of(self, files: Sequence[Path], failed: Failed | None) -> Iterable:
        return self.net.readings(files, failed)

    def entry(self, one: Any) -> dict[str, Any]:
        return {"text": one.text, "score": one.score}

    def lines(self, entry: dict[str, Any]) -> list[str]:
        return [f"  {entry['score']:.4f}  {entry['text'] or '(no text)'}"]

    def page(self, one: Any, entry: dict[str, Any]) -> Any:
        from ..deploy.annotate import annotate

        return annotate(self.net.preparation.read(one.file), [(one.text or "(no text)", one.score)])

    def cells(self, entry: dict[str, Any]) -> list[list[Any]]:
        return [[entry["text"], f"{entry['score']:.9g}"] if entry else ["", ""]]

    def written(self, rows: list, entries: list[dict[str, Any]]) -> str:
        return f"{len(rows)} rows"


class _Boxes:
    """Objects with their boxes: at most ``count`` of an image, with scores from ``least`` on."""

    on_sheet = True
    columns = ("label", "class", "score", "xmin", "ymin", "xmax", "ymax")

    def __init__(self, detector: Any, count: int | None, least: float):
        self.net, self.count, self.least = detector, count, least

    def of(self, files: Sequence[Path], failed: Failed | None) -> Iterable:
        return self.net.detections(files, self.least, failed)

    def entry(self, one: Any) -> dict[str, Any]:
        return {"detections": [each.record() for each in one.detections[: self.count]]}

    def lines(self, entry: dict[str, Any]) -> list[str]:
        boxes = entry["detections"]
        corners = (" ".join(f"{v:.1f}" for v in one["box"]) for one in boxes)
        lines = [f"  {one['score']:.4f}  {one['label']}  {text}" for one, text in zip(boxes, corners, strict=True)]
        return lines or ["  nothing found"]

    def page(self, one: Any, entry: dict[str, Any]) -> Any:
        from ..data.box_drawing import with_boxes

        drawn = [(d["class"], f"{d['label']} {d['score']:.2f}", tuple(d["box"])) for d in entry["detections"]]
        return with_boxes(self.net.preparation.read(one.file), drawn[::-1])

    def cells(self, entry: dict[str, Any]) -> list[list[Any]]:
        boxes = entry.get("detections", [])
        return [[d["label"], d["class"], f"{d['score']:.9g}", *d["box"]] for d in boxes] or [[""] * 7]

    def written(self, rows: list, entries: list[dict[str, Any]]) -> str:
        count = sum(len(entry["detections"]) for entry in entries)
        return f"{count} boxes in {len(entries)} images"
