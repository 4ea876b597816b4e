"""`caffelite dataset folder` and `detection`: databases of image files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import CaffeliteError, Where
from .. import imaging, options
from ..options import FiniteRange, Whole
from ..output import say

LISTED = 10  # boxes of each kind

if TYPE_CHECKING:
    from ...data.archive import Files, Subfolder
    from ...data.listing import Listed
    from ...data.objects import ImageObjects


@click.command(cls=imaging.GflagsCommand, short_help="Databases of a folder of class folders")
@click.argument("origin", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--name", help="Start of the names of the output. Default: FOLDER's name.")
@click.option(
    "--test",
    type=FiniteRange(0, 1, max_open=True),
    metavar="SHARE",
    help="Share of each class for the test set. Default: 0.2.",
)
@click.option(
    "--seed", type=Whole(), default=0, show_default=True, metavar="N", help="Seed of the split and the shuffle."
)
@imaging.group
@imaging.options
@imaging.out
@imaging.force
def folder(origin, name, test, seed, group, out, force, check_size, skip, threads, **recipe_options) -> None:
    """A folder (or tar archive) of class folders: NAME_train_lmdb, NAME_test_lmdb, and NAME_labels.txt with the classes
    in their order.

    FOLDER/CLASS/FILE is split; which images go to the test set depends on their names and the seed alone. Several
    pictures of one thing or person, as p01_1.jpg and p01_2.jpg, are kept on one side by -group. Where FOLDER
    holds train and test (or val) folders of class folders, that is the split. Both sets come mixed. One folder around
    all class folders does not count. Labels that were corrected on a page, in FOLDER_corrections.csv, are applied.

    \b
    Example:
      caffelite dataset folder flowers -resize_height=256 -resize_width=256 --out data
    """
    from ...data import groups
    from ...data.archive import Files, splits
    from ...data.convert import convert
    from ...data.drafts import together
    from ...data.listing import list_classes, parted, shuffled, split
    from ...data.writers import write_lines

    name = name or origin.absolute().name.split(".")[0]
    paths = imaging.free(out, force, *(f"{name}_{subset}" for subset in ("train_lmdb", "test_lmdb", "labels.txt")))
    handling = {"check_size": check_size, "skip": skip, "threads": threads, "remedy": imaging.REMEDY}
    recipe = imaging.recipe(**recipe_options)
    files = Files(origin)
    left_out: list[str] | None = [] if skip else None
    if subsets := splits(files):
        if test is not None:
            raise CaffeliteError(
                f"--test {test:g}, but the folder is already split",
                found=" and ".join(subset.where for subset in subsets),
            )
        if group:
            remedy = "leave it out, or name the folder of all images"
            raise CaffeliteError("-group chooses what is held out, but the folder is already split", remedy=remedy)
        images, classes = list_classes(subsets[0], subsets[0].where, left_out=left_out, remedy=imaging.REMEDY)
        tested, _ = list_classes(subsets[1], subsets[1].where, classes, left_out, imaging.REMEDY)
        sets: list[tuple[Files | Subfolder, list[Listed]]] = [
            (subset, _corrected(subset, listed, classes))
            for subset, listed in zip(subsets, (images, tested), strict=True)
        ]
    else:
        images, classes = list_classes(files, files.where, left_out=left_out, remedy=imaging.REMEDY)
        images = _corrected(files, images, classes)
        share = 0.2 if test is None else test
        if group and share:
            names = groups.names_of([image.name for image in images], group)
            chosen = groups.held_out(names, [image.label for image in images], share, seed)
            held_out = {image.name for image, own in zip(images, names, strict=True) if own in chosen}
            sets = [(files, subset) for subset in parted(images, held_out)]
        else:
            sets = [(files, subset) for subset in split(images, share, seed)]
    done = {}
    with together(paths, force) as drafts:
        for path, (subset, images) in zip(paths, sets, strict=False):
            if images:
                order = shuffled(images, seed)
                done[path] = convert(drafts[path], order, subset.__getitem__, recipe, progress=True, **handling)
        write_lines(drafts[paths[2]], classes)
    for path, converted in done.items():
        imaging.report(path, converted)
    imaging.report_left_out(left_out)
    say(f"wrote {paths[2]}: {len(classes)} classes", err=True)


def _corrected(files: Files | Subfolder, images: list[Listed], classes: list[str]) -> list[Listed]:
    """The images with the corrected labels of the list beside their folder, which an archive has not."""
    from ...data import corrections

    folder = Path(files.where)
    if not folder.is_dir():
        return images
    corrected, lists = corrections.apply(images, classes, folder)
    if lists:
        say(f"corrections: {corrections.described(images, corrected, lists)}", err=True)
    return [image for image in corrected if image is not None]


@click.command(cls=imaging.GflagsCommand, short_help="A database of images with boxes")
@click.argument("origin", metavar="FILE|FOLDER", type=click.Path(path_type=Path))
@click.option("--name", help="Start of the names of the output. Default: that of FILE or FOLDER.")
@click.option(
    "--root",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder to which names of images and annotations are relative. Default: that of FILE.",
)
@options.file_option(
    "--labels", help="Classes: a label map, or names on lines, the background first. Default: those of FILE, from 1."
)
@click.option("--part", default="trainval", show_default=True, metavar="NAME", help="Image set of a VOC folder.")
@click.option(
    "--one_based",
    is_flag=True,
    help="Pixels in XML files count from 1, as VOC's own do. Default: from 0, as SSD's tool reads them.",
)
@options.choice_option("--backend", choices=["lmdb", "leveldb"], help="Format of the database.", default="lmdb")
@imaging.options
@imaging.out
@imaging.force
def detection(
    origin, name, root, labels, part, one_based, backend, out, force, check_size, skip, threads, **recipe_options
) -> None:
    """A database for AnnotatedData layers, of images with boxes: NAME_lmdb, NAME_labelmap.prototxt with the classes,
    NAME_sizes.txt with the size of each image.

    FILE is COCO's JSON, or a list of lines "image annotation". An annotation is PASCAL VOC's .xml, YOLO's .txt (its
    classes have the names of classes.txt beside it) or LabelMe's .json. FOLDER is a VOC folder with JPEGImages,
    Annotations and ImageSets, or any folder of images with annotations of their names. Image files are stored as they
    are unless they are resized. Boxes are cut at the sides of the image; boxes without area are left out and named. An
    image of another size than annotated is an error, or left out by -skip.

    \b
    Example:
      caffelite dataset detection shapes/train.json --out data
      caffelite dataset detection labelled/
      caffelite dataset detection VOCdevkit/VOC2007 --part test --name voc2007_test
    """
    from ...data import annotated_records, class_names
    from ...data.convert import reader
    from ...data.drafts import together
    from ...data.writers import write_lines

    stem = origin.absolute().name
    name = name or (stem if origin.is_dir() else stem.rsplit(".", 1)[0])
    ends = f"{name}_{backend}", f"{name}_labelmap.prototxt", f"{name}_sizes.txt"
    database, label_map, sizes = paths = imaging.free(out, force, *ends)
    folder = root or (origin if origin.is_dir() else origin.parent)
    if not (recipe_options["encoded"] or recipe_options["encode_type"]):
        recipe_options["encoded"] = not (recipe_options["resize_height"] or recipe_options["resize_width"])
    recipe, read = imaging.recipe(**recipe_options), reader(str(folder))
    known = class_names.read(labels) if labels else None
    images, classes = _read_objects(origin, folder, part, known, int(one_based))
    with together(paths, force) as drafts:
        done = annotated_records.convert(
            drafts[database], images, read, recipe, skip=skip, threads=threads, progress=True, backend=backend
        )
        write_lines(drafts[label_map], annotated_records.label_map(classes).splitlines())
        write_lines(drafts[sizes], done.sizes)
    say(f"wrote {database}: {done.images} images with {done.objects.total()} objects", err=True)
    for label, text in enumerate(classes):
        if label:
            say(f"    {label:>4} {done.objects[label]:>8}  {text}", err=True)
    for boxes, what in ((done.cut, "cut at the sides of their image"), (done.empty, "left out, without area")):
        if boxes:
            say(f"  boxes {what}: {len(boxes)}", err=True)
            for text in boxes[:LISTED]:
                say(f"    {text}", err=True)
            if len(boxes) > LISTED:
                say(f"    … and {len(boxes) - LISTED} more", err=True)
    imaging.report_left_out(done.skipped)


def _read_objects(
    origin: Path, folder: Path, part: str, classes: list[str] | None, first: int
) -> tuple[list[ImageObjects], list[str]]:
    from ...data import objects
    from ...data.convert import reader

    if origin.is_dir() or origin.suffix.lower() != ".json":
        listed = objects.read_folder(origin, part) if origin.is_dir() else objects.read_list(origin)
        return objects.read_pairs(listed, reader(str(folder)), classes, first)
    images, names = objects.read_coco(origin)
    if classes is None:
        return images, names
    label_by_name = {name: label for label, name in enumerate(classes) if label}
    for name in names[1:]:
        if name not in label_by_name:
            raise Where(str(origin)).error(f'"{name}" is no class', expected=", ".join(classes[1:11]))
    moved = [
        replace(image, boxes=[replace(box, label=label_by_name[names[box.label]]) for box in image.boxes])
        for image in images
    ]
    return moved, classes
