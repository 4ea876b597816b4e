"""Corrected labels of image files, in a list beside the folder of class folders: the files themselves stay as they are.

The list of pets/cat/1.png is pets_corrections.csv beside pets, a table of file (below pets) and label; no label leaves
the file out.
"""

import csv
import io
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from .. import inputs
from ..errors import Where
from .listing import CORRECTIONS, Listed, shortened

HEAD = ["file", "label"]


def path_of(image: str | Path) -> tuple[Path, str]:
    """(the list that has a correction of an image, the name of the image there)."""
    path = Path(os.path.abspath(image))
    return Path(f"{path.parent.parent}{CORRECTIONS}"), f"{path.parent.name}/{path.name}"


def read(path: Path) -> dict[str, str]:
    """The corrected labels by file, empty where a file is left out; none where there is no list. Errors: a row without
    file and label."""
    if not os.path.lexists(path):
        return {}
    rows = csv.reader(io.StringIO(inputs.read_text(path, inputs.LIST), newline=""))
    corrected: dict[str, str] = {}
    for line, row in enumerate(rows, 1):
        if len(row) != 2:
            raise Where(str(path), line).error("no correction", expected="file,label", found=",".join(row)[:80])
        if row != HEAD:
            corrected[row[0]] = row[1]
    return corrected


def text(corrected: dict[str, str]) -> str:
    """The list as a file."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(sorted(corrected.items()))
    return content.getvalue()


def apply(
    listed: Sequence[Listed], names: Sequence[str], folder: Path = Path()
) -> tuple[list[Listed | None], list[str]]:
    """The images with their corrected labels, None for each that is left out; and the lists that say so. names: of the
    classes by label. folder: to which names of images are relative. Errors: a label that is no class."""
    lists = lru_cache(None)(read)
    labels = {name: number for number, name in enumerate(names)}
    images: list[Listed | None] = []
    used: dict[str, None] = {}
    for image in listed:
        path, file = path_of(folder / image.name)
        label = lists(path).get(file)
        if label is None:
            images.append(image)
            continue
        used[str(path)] = None
        if label and label not in labels:
            expected = f"one of {shortened(', '.join(names), 200)}"
            raise Where(str(path)).error(f"{file}: a label that is no class", expected=expected, found=label)
        images.append(Listed(image.name, labels[label], image.where) if label else None)
    return images, list(used)


def described(listed: Sequence[Listed], images: Sequence[Listed | None], lists: Sequence[str]) -> str:
    """What ``apply`` did, in words. listed: its images; images, lists: what it returned."""
    left_out = sum(image is None for image in images)
    changed = sum(image is not before for before, image in zip(listed, images, strict=True)) - left_out
    return (
        f"{changed} label{'s are' if changed != 1 else ' is'} corrected and {left_out} image{'s' * (left_out != 1)} "
        f"left out, by {', '.join(lists)}"
    )
