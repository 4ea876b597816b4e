"""Databases of AnnotatedDatum, written from images with objects."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError
from .convert import Recipe, in_order
from .objects import ImageObjects, LabeledBox
from .writers import write_records


@dataclass
class Converted:
    """What became of a list of images: ``images`` were written with ``objects`` objects by class; ``cut`` boxes went
    beyond the image, ``empty`` ones had no area in it and were left out: a text for each; ``sizes``: a line "name
    height width" for each image; ``skipped``: images that were left out, and why."""

    images: int = 0
    objects: Counter = field(default_factory=Counter)
    cut: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def annotated(
    boxes: Sequence[LabeledBox], height: int, width: int
) -> tuple[list[pb.AnnotationGroup], list[int], tuple[list[int], list[int]]]:
    """The groups of an image's objects by class, with boxes as shares of its sides; the class of each; and the numbers
    of the boxes that were cut at its sides, and of those that had no area and were left out."""
    groups: dict[int, pb.AnnotationGroup] = {}
    labels: list[int] = []
    cut: list[int] = []
    empty: list[int] = []
    for number, one in enumerate(boxes):
        box = [v / side for v, side in zip(one.corners, (width, height) * 2, strict=True)]
        inside = [min(1.0, max(0.0, v)) for v in box]
        if inside[0] >= inside[2] or inside[1] >= inside[3]:
            empty.append(number)
            continue
        cut += [number] * (inside != box)
        group = groups.setdefault(one.label, pb.AnnotationGroup(group_label=one.label))
        left, top, right, bottom = inside
        shown = pb.NormalizedBBox(xmin=left, ymin=top, xmax=right, ymax=bottom, difficult=one.difficult)
        group.annotation.append(pb.Annotation(instance_id=len(group.annotation), bbox=shown))
        labels.append(one.label)
    return list(groups.values()), labels, (cut, empty)


def convert(
    path: Path,
    images: Sequence[ImageObjects],
    read: Callable[[str], bytes],
    recipe: Recipe,
    *,
    skip: bool = False,
    threads: int | None = None,
    progress: bool = False,
    backend: str = "lmdb",
    force: bool = False,
) -> Converted:
    """Writes a database of AnnotatedDatum records under the keys "<number>_<name>", the number of eight digits.

    read: an image's bytes. recipe: how images are stored; boxes are shares, so resizing does not change them. skip:
    leave out images that cannot be read. Errors: path exists and not force; the first unreadable image, or one of
    another size than annotated, by its place."""
    done = Converted()

    def task(item: tuple[int, ImageObjects]) -> tuple[int, ImageObjects, Any]:
        number, image = item
        try:
            content = read(image.name)
            datum, _ = recipe(content, image.name, 0)
            height, width = recipe.decoder(content).shape[1:]
        except OSError as mistake:
            what = f'cannot read "{image.name}": {mistake.strerror}'
            return number, image, CaffeliteError(what, where=image.where)
        except ValueError as mistake:
            return number, image, CaffeliteError(f'image "{image.name}": {mistake}', where=image.where)
        if min(image.size) > 0 and image.size != (height, width):
            what = f'image "{image.name}" has another size than annotated, so that its boxes lie elsewhere'
            sizes = {"expected": f"{image.size[1]}×{image.size[0]}", "found": f"{width}×{height}, width × height"}
            remedy = "annotate the image as it is, or scale the boxes"
            return number, image, CaffeliteError(what, where=image.where, remedy=remedy, **sizes)
        datum.ClearField("label")
        groups, labels, dropped = annotated(image.boxes, height, width)
        record = pb.AnnotatedDatum(datum=datum, type=pb.AnnotatedDatum.BBOX, annotation_group=groups)
        return number, image, (record.SerializeToString(), labels, dropped, (height, width))

    def records() -> Iterator[tuple[bytes, bytes]]:
        number = 0
        for _, image, result in in_order(task, enumerate(images), threads):
            if isinstance(result, CaffeliteError):
                if not skip:
                    raise result
                done.skipped.append(str(result))
                continue
            value, labels, (cut, empty), (height, width) = result
            done.objects.update(labels)
            done.cut += [_described(image, which) for which in cut]
            done.empty += [_described(image, which) for which in empty]
            stem = os.path.splitext(os.path.basename(image.name))[0]
            done.sizes.append(f"{stem} {height} {width}")
            yield b"%08d_%s" % (number, os.fsencode(image.name)), value
            number += 1

    done.images = write_records(path, records(), len(images), progress, backend=backend, force=force)
    return done


def _described(image: ImageObjects, which: int) -> str:
    """A box by its file, or its image, and its number there, from 1."""
    left, top, right, bottom = image.boxes[which].corners
    inverted = ", its minimum above its maximum" if left > right or top > bottom else ""
    corners = f"({left:g}, {top:g}, {right:g}, {bottom:g})"
    return f'{image.source or image.where}: object {which + 1} of "{image.name}", {corners}{inverted}'


def label_map(classes: Sequence[str]) -> str:
    """The text of a LabelMap file of the classes by label."""
    names = [json.dumps(name, ensure_ascii=False) for name in classes]
    return "".join(
        f"item {{\n  name: {name if label else json.dumps('none_of_the_above')}\n  label: {label}\n"
        f"  display_name: {name}\n}}\n"
        for label, name in enumerate(names)
    )
