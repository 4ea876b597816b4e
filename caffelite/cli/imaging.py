"""Shared code of the commands that make data sets: options, Caffe's flags, writing, and the report at the end."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ..errors import CaffeliteError
from .options import FiniteRange, Whole, choice_option, count_option
from .output import say

REMEDY = "repair or remove it, or skip such images with -skip"
_TRUE, _FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}
_SIDE: dict[str, Any] = {"type": Whole(min=0), "default": 0, "metavar": "N"}
# What a file means, as the fields of transform_param with these names
_MEANING = (
    choice_option(
        "--opacity",
        choices=["drop", "on_white", "on_black"],
        help="What the opacity of an image becomes: its colors are stored alone, or on white or black.",
        default="drop",
        case_sensitive=False,
    ),
    choice_option(
        "--orientation",
        choices=["turn", "as_stored"],
        help="Whether images are turned as their EXIF says.",
        default="turn",
        case_sensitive=False,
    ),
    choice_option(
        "--depth",
        choices=["high_byte", "stretch"],
        help="How values of 16 bits become bytes: by their high byte, or so that -depth_low becomes 0 and -depth_high "
        "255; by default the least and the greatest value of each image.",
        default="high_byte",
        case_sensitive=False,
    ),
    click.option("--depth_low", type=FiniteRange(), metavar="VALUE", help="See -depth."),
    click.option("--depth_high", type=FiniteRange(), metavar="VALUE", help="See -depth."),
)
_OPTIONS = (
    click.option("--gray", is_flag=True, help="One channel, gray, instead of three: blue, green, red."),
    click.option("--resize_width", **_SIDE, help="Width to resize images to, with -resize_height."),
    click.option("--resize_height", **_SIDE, help="Height to resize images to, with -resize_width."),
    click.option("--check_size", is_flag=True, help="An image of another shape than the first one is an error."),
    click.option(
        "--encoded",
        is_flag=True,
        help="Store image files, not pixels; a file that needs no resizing is stored as it is.",
    ),
    click.option(
        "--encode_type",
        metavar="TYPE",
        default="",
        help="Format of the stored files: png, jpg, … Default: each file's own.",
    ),
    click.option(
        "--skip",
        is_flag=True,
        help="Skip and list files that are no image or cannot be read, instead of an error.",
    ),
    count_option("--threads", help="Decoding threads. Default: one for each core."),
)


class GflagsCommand(click.Command):
    """A command with switches that also accept a value, as in Caffe: -gray=true, -gray=false, -nogray."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {name for p in self.params if isinstance(p, click.Option) and p.is_flag for name in p.opts}
        return super().parse_args(ctx, [word for arg in args for word in _switch(arg, switches, ctx)])


def _switch(arg: str, switches: set[str], ctx: click.Context) -> list[str]:
    name, equals, value = arg.partition("=")
    if name.startswith("--no") and f"--{name[4:]}" in switches and not equals:
        return []
    if name not in switches or not equals:
        return [arg]
    if value.lower() not in _TRUE | _FALSE:
        raise click.BadParameter(f'expected true or false, found "{value}"', ctx, param_hint=name)
    return [name] * (value.lower() in _TRUE)


def options(command: Callable) -> Callable:
    """Gives a command the options of `recipe` and of `convert`."""
    for option in reversed((*_OPTIONS, *_MEANING)):
        command = option(command)
    return command


def meaning_options(command: Callable) -> Callable:
    """Gives a command the options of `decoder`."""
    for option in reversed(_MEANING):
        command = option(command)
    return command


def decoder(color: bool | None, opacity: str, orientation: str, depth: str, depth_low: float, depth_high: float):
    """How the options want an image file decoded. Errors: options that contradict each other."""
    from .. import caffelite_pb2 as pb
    from ..data.pictures import Decoder
    from ..errors import Locator

    param = pb.TransformationParameter(
        opacity=opacity.upper(),
        orientation=orientation.upper(),
        depth=depth.upper(),
        depth_low=depth_low,
        depth_high=depth_high,
    )
    return Decoder.of(param, color, Locator("the options"))


def recipe(gray: bool, resize_width: int, resize_height: int, encoded: bool, encode_type: str, **meaning: Any):
    """How the options want an image stored. Errors: one side of a size without the other; images too large."""
    from ..data.convert import Recipe
    from ..data.images import MOST_PIXELS

    if bool(resize_width) != bool(resize_height):
        missing, present = ("-resize_height", "-resize_width") if resize_width else ("-resize_width", "-resize_height")
        raise CaffeliteError(f"{present} without {missing}", remedy="give both, or none to keep each image's size")
    if resize_height * resize_width > MOST_PIXELS:
        what, size = "-resize_height and -resize_width make images too large", f"{resize_height}×{resize_width}"
        raise CaffeliteError(what, expected=f"at most {MOST_PIXELS} pixels", found=size)
    encoding = encode_type.removeprefix(".") if encoded or encode_type else None
    return Recipe(decoder(not gray, **meaning), resize_height, resize_width, encoding)


def report(path: Path, done) -> None:
    """Says what was written, in which shapes, and names every image that was left out."""
    shapes = [
        f"{'×'.join(map(str, shape))}{f' ({count})' if len(done.shapes) > 1 else ''}"
        for shape, count in done.shapes.most_common(5)
    ]
    unlisted = len(done.shapes) - len(shapes)
    say(
        f"wrote {path}: {done.written} images of {', '.join(shapes)}{f' and {unlisted} other shapes' * (unlisted > 0)}",
        err=True,
    )
    if len({shape[1:] for shape in done.shapes}) > 1:
        say(
            "  images differ in size: a net takes them only with a crop; -resize_width and -resize_height make them "
            "equal",
            err=True,
        )
    if len({shape[0] for shape in done.shapes}) > 1:
        say(
            "  images differ in channels: a net takes them only with force_color: true, or force_gray, in "
            "transform_param",
            err=True,
        )
    for one in done.proposals:
        words = (f"-{name}={value.lower()}" for name, value in (each.split(": ") for each in one.lines))
        say(f"  {one.what}; give {' '.join(words)}, and set {one.text} in transform_param", err=True)
    report_left_out(done.skipped)


def report_left_out(lines: list[str] | None) -> None:
    """Names every file that was left out."""
    if lines:
        say(f"  left out {len(lines)}:", err=True)
        for line in lines:
            say(f"    {line}", err=True)


group = click.option(
    "--group",
    metavar="PATTERN",
    help="Keep images of one group on one side of the split: a regular expression whose match in the name of a file is "
    "its group, as in -group 'p\\d+'; parentheses choose a part of the match.",
)
out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Folder to write into.",
)
force = click.option("--force", is_flag=True, help="Replace what is already there.")


def free(out: Path, force: bool, *names: str) -> list[Path]:
    from ..data.drafts import check_free

    paths = [out / name for name in names]
    check_free(paths, force)
    return paths


def write(path: Path, images, labels, digits: int = 8) -> None:
    """Writes images (N×H×W or N×C×H×W of uint8) and their labels to a draft."""
    from ..data.drafts import final
    from ..data.writers import write_lmdb

    samples = zip(images if images.ndim == 4 else images[:, None], labels.tolist(), strict=True)
    written = write_lmdb(path, samples, len(labels), progress=True, digits=digits)
    say(f"wrote {final(path)}: {written} images of {images.shape[-2]}×{images.shape[-1]}", err=True)


def write_classes(path: Path, archive, classes: Sequence[str]) -> None:
    """Writes image files, CLASS/FILE by name, of one size and mixed, to a draft. Errors: other classes than these."""
    from ..data.convert import Recipe, convert
    from ..data.drafts import final
    from ..data.listing import list_classes, shuffled

    images, _ = list_classes(archive, archive.where, classes)
    done = convert(path, shuffled(images, seed=0), archive.__getitem__, Recipe(), check_size=True, progress=True)
    report(final(path), done)


def write_drawn(
    out: Path, name: str, draw: Callable[[int, str, int], dict], counts: dict[str, int], seed: int, force: bool
) -> None:
    """Writes an HDF5 file for each split, NAME_SPLIT.h5, and its list. draw: of a seed, a split and a count."""
    from ..data.drafts import together
    from ..data.writers import fill_hdf5

    paths = {split: out / f"{name}_{split}.h5" for split in counts}
    with together([path.with_suffix(suffix) for path in paths.values() for suffix in (".h5", ".txt")], force) as drafts:
        for split, path in paths.items():
            fill_hdf5(drafts, path, draw(seed, split, counts[split]))
    for split, count in counts.items():
        say(f"wrote {paths[split]}: {count} samples", err=True)
