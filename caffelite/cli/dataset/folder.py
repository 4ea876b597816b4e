"""caffelite dataset folder"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import CaffeliteError
from .. import imaging
from ..option_types import FiniteRange
from . import making

if TYPE_CHECKING:
    from ...data.archive import Part
    from ...data.listing import Listed


@click.command(cls=imaging.GflagsCommand, short_help="Databases of a folder of class folders")
@click.argument("origin", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--name", help="Start of the names of the output. Default: FOLDER's name.")
@click.option(
    "--test",
    type=FiniteRange(0, 1, max_open=True),
    metavar="SHARE",
    help="Share of each class for the test set. Default: 0.2.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the split and the shuffle.")
@imaging.options
@making.out
@making.force
def folder(origin, name, test, seed, out, force, check_size, skip, threads, **how) -> None:
    """A folder (or tar archive) of class folders: NAME_train_lmdb, NAME_test_lmdb, and NAME_labels.txt with the classes
    in their order.

    FOLDER/CLASS/FILE is split; which images go to the test set depends on their names and the seed alone. Where FOLDER
    holds train and test (or val) folders of class folders, that is the split. Both sets come mixed. One folder around
    all class folders does not count.

    \b
    Example:
      caffelite dataset folder flowers -resize_height=256 -resize_width=256 --out data
    """
    from ...data.archive import Files, splits
    from ...data.convert import convert
    from ...data.listing import list_classes, shuffled, split
    from ...data.writers import together, write_lines

    name = name or origin.absolute().name.split(".")[0]
    paths = making.free(out, force, *(f"{name}_{part}" for part in ("train_lmdb", "test_lmdb", "labels.txt")))
    handling = {"check_size": check_size, "skip": skip, "threads": threads, "remedy": imaging.REMEDY}
    recipe = imaging.recipe(**how)
    files = Files(origin)
    left_out: list[str] | None = [] if skip else None
    if found := splits(files):
        if test is not None:
            raise CaffeliteError(
                f"--test {test:g}, but the folder is already split", found=" and ".join(part.where for part in found)
            )
        images, classes = list_classes(found[0], found[0].where, left_out=left_out, remedy=imaging.REMEDY)
        sets: list[tuple[Files | Part, list[Listed]]] = [
            (found[0], images),
            (found[1], list_classes(found[1], found[1].where, classes, left_out, imaging.REMEDY)[0]),
        ]
    else:
        images, classes = list_classes(files, files.where, left_out=left_out, remedy=imaging.REMEDY)
        sets = [(files, part) for part in split(images, 0.2 if test is None else test, seed)]
    done = {}
    with together(paths, force):
        for path, (part, images) in zip(paths, sets, strict=False):
            if images:
                order = shuffled(images, seed)
                done[path] = convert(path, order, part.__getitem__, recipe, progress=True, **handling)
        write_lines(paths[2], classes)
    for path, converted in done.items():
        imaging.report(path, converted)
    imaging.report_left_out(left_out)
    click.echo(f"wrote {paths[2]}: {len(classes)} classes", err=True)
