"""Which images a data set is made of: list files, and folders of class folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from caffelite.data.database import EXACT_LABELS
from caffelite.data.draws import key, permutation
from caffelite.errors import CaffeliteError, Collector, Where, did_you_mean

IMAGES = {".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2"}


@dataclass(frozen=True)
class Listed:
    """An image's name below its root, its label, and where that is written."""

    name: str
    label: int
    where: Where


def read_list(path: str | os.PathLike) -> list[Listed]:
    """The lines of a list file, "NAME LABEL" each; a name may hold spaces, an empty line is none.

    Errors, with their lines and all at once: no label, or one that is no whole number that float32 holds; an empty list.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except OSError as mistake:
        raise CaffeliteError(f"cannot read the list: {mistake.strerror}", where=Where(str(path))) from None
    listed, mistakes = [], Collector()
    for number, line in enumerate(text.split("\n"), 1):
        where, parts = Where(str(path), number), line.rsplit(maxsplit=1)
        if len(parts) == 1:
            mistakes.add(CaffeliteError("no label", where=where, expected='"NAME LABEL"', found=f'"{line.strip()}"'))
        elif parts and not re.fullmatch(r"[+-]?\d+", parts[1], re.ASCII):
            mistakes.add(CaffeliteError("the label is no number", where=where, expected="a whole number", found=f'"{parts[1]}"'))
        elif parts and abs(int(parts[1])) > EXACT_LABELS:
            mistakes.add(CaffeliteError("the label is too large", where=where, expected=f"at most {EXACT_LABELS}", found=parts[1]))
        elif parts:
            listed.append(Listed(parts[0], int(parts[1]), where))
    mistakes.raise_any()
    if not listed:
        raise CaffeliteError("the list is empty", where=Where(str(path)), expected='lines of "NAME LABEL"')
    return listed


def list_classes(names: Iterable[str], where: str, classes: Sequence[str] = ()) -> tuple[list[Listed], list[str]]:
    """(images, classes) of file names "CLASS/…/FILE", in the order of the names; so are the classes labelled, where they are not given.

    where: what holds them, for errors. What starts with a dot is left out. Errors: a file that is no image by its name, or in no class; a
    class that is not among those given.
    """
    parts = sorted(tuple(name.split("/")) for name in names)
    parts = [p for p in parts if not any(part.startswith(".") for part in p)]
    found = sorted({p[0] for p in parts if len(p) > 1})
    if not found:
        raise CaffeliteError("no class folders", where=Where(where), expected="a folder of images for each class")
    classes = list(classes) or found
    mistakes = Collector()
    for name in sorted(set(found) - set(classes)):
        mistakes.add(CaffeliteError("another class", where=Where(f"{where}/{name}"), expected=f"one of {', '.join(classes)}"))
    for p in parts:
        place = Where(f"{where}/{'/'.join(p)}")
        if len(p) == 1:
            mistakes.add(CaffeliteError("a file that is in no class folder", where=place, remedy="move it away"))
        elif os.path.splitext(p[-1])[1].lower() not in IMAGES:
            mistakes.add(CaffeliteError("not an image by its name", where=place, remedy="move it away"))
    mistakes.raise_any()
    label = {name: number for number, name in enumerate(classes)}
    return [Listed("/".join(p), label[p[0]], Where(f"{where}/{'/'.join(p)}")) for p in parts], classes


def split(listed: Sequence[Listed], share: float, seed: int) -> tuple[list[Listed], list[Listed]]:
    """(train, test): a share of each label's images, at least one of two or more, goes to the test set, chosen by hashes of the names."""
    by_label: dict[int, list[Listed]] = {}
    for image in listed:
        by_label.setdefault(image.label, []).append(image)
    chosen = set()
    for images in by_label.values():
        count = min(max(round(share * len(images)), 1), len(images) - 1) if share else 0
        chosen.update(sorted((image.name for image in images), key=lambda name: key(seed, "split", name))[:count])
    return [i for i in listed if i.name not in chosen], [i for i in listed if i.name in chosen]


def files_below(folder: str | os.PathLike) -> list[str]:
    """Every file in a folder and its folders, by its name from there. Errors: not a folder; a class folder that is empty."""
    folder = Path(folder)
    if not folder.is_dir():
        near = did_you_mean(folder.name, (p.name for p in folder.parent.glob("*/"))) if folder.parent.is_dir() else None
        raise CaffeliteError("not a folder", where=Where(str(folder)), expected="a folder of class folders", remedy=near)
    names = []
    for place, folders, files in os.walk(folder, followlinks=True):
        below = os.path.relpath(place, folder)
        if below != "." and not folders and not files:
            raise CaffeliteError("the folder is empty", where=Where(place), remedy="remove it, or put its images there")
        names += [os.path.normpath(os.path.join(below, file)).replace(os.sep, "/") for file in files]
    return names


def shuffled(listed: Sequence[Listed], seed: int) -> list[Listed]:
    """The same images in an order that the seed alone decides."""
    return [listed[i] for i in permutation(key(seed, "list"), 0, 0, len(listed))]
