"""caffelite convert_imageset"""

from pathlib import Path

import click

from . import imaging, options


@click.command(cls=imaging.GflagsCommand, short_help="Write images as a database")
@click.argument("paths", metavar="ROOT [LISTFILE] DB_NAME", nargs=-1)
@click.option("--shuffle", is_flag=True, help="Shuffle the images before they are numbered.")
@click.option("--seed", type=options.Whole(), default=0, show_default=True, metavar="N", help="Seed of the shuffle.")
@options.choice_option("--backend", choices=["lmdb", "leveldb"], help="Kind of database.", default="lmdb")
@imaging.options
@click.option("--force", is_flag=True, help="Replace DB_NAME where it exists.")
def convert_imageset(paths, shuffle, seed, backend, check_size, skip, threads, force, **recipe_options) -> None:
    """Writes the images that LISTFILE names, each below the folder ROOT, into the database DB_NAME.

    A line of LISTFILE is an image's name and its label, an integer. Without LISTFILE, ROOT holds a folder of images
    for each class: classes get labels in the order of their names, which are written to DB_NAME_labels.txt.

    Keys and records are those of Caffe's tool: 00000000_cat/1.jpg, 00000001_…

    \b
    Example:
      caffelite convert_imageset -resize_height=256 -resize_width=256 -shuffle imagenet/train/ train.txt imagenet_lmdb
      caffelite convert_imageset flowers/ flowers_lmdb -encoded
    """
    from ..data.convert import convert, reader
    from ..data.drafts import check_free, together
    from ..data.listing import files_below, list_classes, read_list, shuffled
    from ..data.writers import write_lines

    if len(paths) not in (2, 3):
        raise click.UsageError(f"expected ROOT [LISTFILE] DB_NAME, found {len(paths)} of them")
    root, listing, db = paths[0], paths[1] if len(paths) == 3 else None, Path(paths[-1])
    labels = db.with_name(f"{db.name}_labels.txt")
    paths = [db] if listing else [db, labels]
    check_free(paths, force)
    recipe = imaging.recipe(**recipe_options)
    left_out: list[str] | None = [] if skip else None
    images, classes = (
        (read_list(listing), [])
        if listing
        else list_classes(files_below(root), root, left_out=left_out, remedy=imaging.REMEDY)
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
            write_lines(drafts[labels], classes)
    imaging.report(db, done)
    imaging.report_left_out(left_out)
