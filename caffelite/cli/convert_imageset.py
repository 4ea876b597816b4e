"""caffelite convert_imageset"""

from pathlib import Path

import click

from . import imaging, options


@click.command(cls=imaging.GflagsCommand, short_help="Write images as a database")
@click.argument("paths", metavar="ROOT [LISTFILE] DB_NAME", nargs=-1)
@click.option("--shuffle", is_flag=True, help="Shuffle the images before they are numbered.")
@click.option("--seed", type=options.Whole(), default=0, show_default=True, metavar="N", help="Seed of the shuffle.")
@options.choice_option("--backend", choices=["lmdb", "leveldb"], help="Kind of database.", default="lmdb")
@options.file_option(
    "--labels",
    help="Names of the classes in the order of their labels, a line each, as another set has them in its "
    "DB_NAME_labels.txt. Default: the folders in the order of their names.",
)
@imaging.options
@click.option("--force", is_flag=True, help="Replace DB_NAME where it exists.")
def convert_imageset(paths, shuffle, seed, backend, labels, check_size, skip, threads, force, **recipe_options) -> None:
    """Writes the images that LISTFILE names, each below the folder ROOT, into the database DB_NAME.

    A line of LISTFILE is an image's name and its label, an integer. Without LISTFILE, ROOT holds a folder of images
    for each class: classes get labels in the order of their names (as numbers where all names are numbers), which are
    written to DB_NAME_labels.txt. A second set that lacks a class has the same labels by -labels DB_NAME_labels.txt.

    Keys and records are those of Caffe's tool: 00000000_cat/1.jpg, 00000001_…

    \b
    Example:
      caffelite convert_imageset -resize_height=256 -resize_width=256 -shuffle imagenet/train/ train.txt imagenet_lmdb
      caffelite convert_imageset flowers/ flowers_lmdb -encoded
    """
    from ..data import class_names
    from ..data.convert import convert, reader
    from ..data.drafts import check_free, together
    from ..data.listing import files_below, list_classes, read_list, shuffled
    from ..data.writers import write_lines

    if len(paths) not in (2, 3):
        raise click.UsageError(f"expected ROOT [LISTFILE] DB_NAME, found {len(paths)} of them")
    root, listing, db = paths[0], paths[1] if len(paths) == 3 else None, Path(paths[-1])
    names_file = db.with_name(f"{db.name}_labels.txt")
    paths = [db] if listing else [db, names_file]
    check_free(paths, force)
    if labels and listing:
        raise click.UsageError("-labels numbers class folders; the labels of LISTFILE are numbers already")
    known = class_names.named(labels) if labels else []
    recipe = imaging.recipe(**recipe_options)
    left_out: list[str] | None = [] if skip else None
    images, classes = (
        (read_list(listing), [])
        if listing
        else list_classes(files_below(root), root, known, left_out=left_out, remedy=imaging.REMEDY)
    )
    if shuffle:
        images = shuffled(images, seed)
    with together(paths, force) as drafts:
        done = convert(
            drafts[db],
            images,
            reader(root),
            recipe,
            check_size=check_size,
            skip=skip,
            remedy=imaging.REMEDY,
            threads=threads,
            progress=True,
            backend=backend,
        )
        if not listing:
            write_lines(drafts[names_file], classes)
    imaging.report(db, done)
    imaging.report_left_out(left_out)
