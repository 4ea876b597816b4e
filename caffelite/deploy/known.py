"""Images whose answers are known: lists and tables, as ImageData reads them, and folders of class folders."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import inputs
from ..data import corrections, tables
from ..data.listing import describe_left_out, files_below, list_classes, read_list
from ..data.tables import CLASSES
from ..errors import CaffeliteError, Where

log = logging.getLogger("caffelite")


@dataclass(frozen=True)
class Known:
    """files: N images. answers: a class for each (N), or numbers (N, L), 0 and 1 for labels."""

    files: list[Path]
    answers: np.ndarray


def read(path: Path, labels: Sequence[str], task: str) -> Known:
    """The images of a list, a .csv table, or a folder of class folders. A name counts from the working directory, or
    else from the file's folder. Labels that were corrected beside the class folders are so here.

    labels: of the net, by which a table's classes or columns are found; numbers as text where the net has no names.
    task: what the net answers, see ``tables``. Errors: an answer that the net cannot give; labels of other names."""
    if path.is_dir():
        return _of_folder(path, labels, task)
    if path.suffix.lower() == ".csv":
        return _of_table(path, list(labels), task)
    if task != CLASSES:
        raise Where(str(path)).error("a list, yet the net gives several answers", remedy="name a .csv table")
    listed = read_list(path)
    for image in listed:
        if not 0 <= image.label < len(labels):
            expected = f"0 to {len(labels) - 1}"
            raise image.where.error("a label is no class of the net", expected=expected, found=image.label)
    files = [Path(inputs.beside(path.parent, image.name)) for image in listed]
    return Known(files, np.array([image.label for image in listed]))


def _of_folder(folder: Path, labels: Sequence[str], task: str) -> Known:
    if task != CLASSES:
        what = "a folder of class folders, yet the net gives several answers"
        raise CaffeliteError(what, found=str(folder), remedy="name a .csv table")
    left_out: list[str] = []
    listed, _ = list_classes(files_below(folder, left_out), str(folder), labels, left_out)
    if left_out:
        log.warning("%s", describe_left_out(left_out))
    images, lists = corrections.apply(listed, labels, folder)
    if lists:
        log.info("%s.", corrections.described(listed, images, lists))
    scored = [image for image in images if image]
    if not scored:
        raise CaffeliteError(f"the corrections leave out every image of {folder}", found=", ".join(lists))
    return Known([folder / image.name for image in scored], np.array([image.label for image in scored]))


def _of_table(path: Path, labels: list[str], task: str) -> Known:
    named = labels != [str(i) for i in range(len(labels))]
    answers = tables.read(path, task, labels if named or task == CLASSES else None)
    if len(answers.names) != len(labels):
        where = Where(str(path), 1)
        raise where.error("other columns than the net's", expected=len(labels), found=len(answers.names))
    files = [Path(tables.image_file(path.parent, name)) for _, name in answers.files]
    return Known(files, answers.values.astype(int if task == CLASSES else np.float32))
