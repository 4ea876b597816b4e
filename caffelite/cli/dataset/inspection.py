"""`caffelite dataset info` and `show`: what is in a set, and samples as a net sees them."""

import functools
import json
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from itertools import islice, zip_longest
from pathlib import Path

import click

from ...errors import CaffeliteError, Where
from .. import options
from ..imaging import force as force_option
from ..output import say

LISTED = 10  # of each finding; --json gives all
BAR = 30


@click.command(short_help="Report what is in a data set")
@click.argument("sets", metavar="SET [OTHER_SET]", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--near",
    "search_near",
    is_flag=True,
    help="Also search near duplicates: images that differ in size, compression or brightness only, by perceptual hash.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead; it lists every record that is reported.")
@options.file_option("--out", help="Write the JSON to a file instead.", folder=False)
def info(sets: tuple[Path, ...], search_near: bool, as_json: bool, out: Path | None) -> None:
    """Reports what is in a data set: number of images, shapes, classes, unreadable and unusual records, duplicates.

    A set is a database, a folder with a folder of images for each class, a list of images (.txt with "NAME LABEL" a
    line, .csv), an HDF5 file (.h5) or a list of HDF5 files (.txt). For two sets, such as train and test, it also
    reports the images that are in both, and labels that have another name. Each record is read and decoded; samples
    with NaN or infinity are named.

    \b
    Examples:
      caffelite dataset info mnist_train_lmdb
      caffelite dataset info flowers/ -near
      caffelite dataset info cifar10_train_lmdb cifar10_test_lmdb --json
    """
    if len(sets) > 2:
        raise click.UsageError(f"expected one data set or two, found {len(sets)}")
    from ...data.survey import survey

    surveys, two = [survey(path, progress=True, search_near=search_near) for path in sets], len(sets) == 2
    shared = [(_keys(here), _keys(there)) for here, there in surveys[0].shared(surveys[1])] if two else []
    near = [_keys([*pair]) for pair in surveys[0].near_shared(surveys[1])] if search_near and two else []
    if as_json or out:
        report: dict[str, list] = {"sets": [_as_json(one, search_near) for one in surveys]}
        report |= ({"in_both": shared} if two else {}) | ({"near_in_both": near} if search_near and two else {})
        text = json.dumps(report, indent=1, ensure_ascii=False)
        if out:
            _write_text(out, text + "\n")
        else:
            say(text)
        return
    names = [_names(path) for path in sets]
    for one, of_one in zip(surveys, names, strict=True):
        _print_survey(one, search_near, of_one)
    if two and all(names):
        lines = [
            f"{i}: {here or 'none'} in {sets[0].name}, {there or 'none'} in {sets[1].name}"
            for i, (here, there) in enumerate(zip_longest(*names))
            if here != there
        ]
        _print_list("labels with another name", lines)
    if two:
        lines = [f"{' '.join(here)} = {' '.join(there)}" for here, there in shared]
        _print_list(f"images that are in {sets[0].name} and in {sets[1].name}", lines)
    if search_near and two:
        _print_list(f"near duplicates in {sets[0].name} and {sets[1].name}", [" ~ ".join(pair) for pair in near])


def _names(path: Path) -> list[str]:
    """The names of a set's labels, where a file or its folders tell them."""
    from ...data import class_names

    try:
        return [] if path.suffix.lower() == ".csv" else class_names.of_data(path)
    except CaffeliteError:
        return []  # reported as it is read


def _write_text(path: Path, text: str) -> None:
    from ...data.drafts import atomic

    with atomic(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    say(f"wrote {path}", err=True)


def _keys(records: list[tuple[str, int | None]]) -> list[str]:
    return [key for key, _ in records]


def _as_json(one, search_near: bool) -> dict:
    record = {
        "path": one.path,
        "count": one.count,
        "stored_as": dict(one.kinds),
        "shapes": [{"shape": list(shape), "count": count} for shape, count in one.shapes.most_common()],
        **_objects(one),
        "labels": {str(label): one.labels[label] for label in sorted(one.labels)},
        "pictures": dict(+one.traits),
        "unreadable": one.unreadable,
        "odd": one.odd,
        "duplicates": [_records(records) for records in one.duplicates()],
    }
    return {**record, "near_duplicates": [_records(pair) for pair in one.near_duplicates()]} if search_near else record


def _objects(one) -> dict:
    """For JSON: the objects of annotated images by class, and how many images have how many."""
    if not one.per_image:
        return {}
    return {
        "objects": {str(label): one.objects[label] for label in sorted(one.objects)},
        "objects_per_image": {str(count): one.per_image[count] for count in sorted(one.per_image)},
    }


def _records(records: Iterable[tuple[str, int | None]]) -> list[dict]:
    return [{"key": key, "label": label} for key, label in records]


def _print_survey(one, search_near: bool, names: list[str]) -> None:
    say(f"{one.path}: {one.count} records")
    say(
        "  stored as: "
        f"{', '.join(f'{kind} ({count})' for kind, count in one.kinds.most_common()) or 'nothing that can be read'}"
    )
    shapes = [f"{'×'.join(map(str, shape))} ({count})" for shape, count in one.shapes.most_common(LISTED)]
    unlisted = len(one.shapes) - len(shapes)
    say(f"  shapes: {', '.join(shapes)}{f' and {unlisted} more' * (unlisted > 0)}")
    if pictures := +one.traits:
        values = f", values from {one.depth[0]:g} to {one.depth[1]:g}" if one.depth else ""
        named = ", ".join(f"{name} ({count})" for name, count in pictures.most_common())
        say(f"  pictures: {named}{values}; see opacity, orientation and depth of transform_param")
    if one.labels:
        say(
            f"  labels: {len(one.labels)}, from {min(one.labels)} to {max(one.labels)}; "
            f"{_spread(one.labels.values())} images each"
        )
        _print_bars(one.labels, names)
    if one.per_image:
        least, most = min(one.per_image), max(one.per_image)
        say(
            f"  objects: {one.objects.total()} of {len(one.objects)} classes, {least} to {most} an image; "
            f"{one.per_image[0]} images without any"
        )
        _print_bars(one.objects, names)
    for title, records in (("unreadable", one.unreadable), ("odd", one.odd)):
        _print_list(f"  {title}", [f"{key}: {what}" for key, what in records.items()])
    twice = one.duplicates()
    torn = sum(len({label for _, label in records}) > 1 for records in twice)
    title = f"  images that occur more than once{f', {torn} of them with different labels' if torn else ''}"
    _print_list(title, [" = ".join(f"{key} (label {label})" for key, label in records) for records in twice])
    if search_near:
        pairs = one.near_duplicates()
        lines = [" ~ ".join(f"{key} (label {label})" for key, label in pair) for pair in pairs]
        _print_list("  near duplicates", lines)


def _print_bars(counts: Counter, names: list[str]) -> None:
    most = max(counts.values(), default=1)
    for label in sorted(counts):
        name = f" {names[label]}" if 0 <= label < len(names) else ""
        say(f"    {label:>6} {counts[label]:>8} {'#' * max(1, round(BAR * counts[label] / most))}{name}")


def _spread(counts) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def _print_list(title: str, lines: list[str]) -> None:
    say(f"{title}: {len(lines) or 'none'}")
    for line in lines[:LISTED]:
        say(f"    {line}")
    if len(lines) > LISTED:
        say(f"    … and {len(lines) - LISTED} more; --json names all")


@click.command(short_help="Draw samples as a net sees them")
@click.argument("what", metavar="NET|DB", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default="sheet.png",
    show_default=True,
    help="PNG to write.",
)
@options.number_option("--count", help="Images to show.", kind=click.IntRange(1, 1000), default=40)
@options.count_option("--start", help="First sample to show.", default=0, least=0)
@options.count_option("--columns", help="Images in a row. Default: so that the sheet is square.")
@options.file_option("--labels", help="Names of the classes, one on each line, instead of numbers.")
@click.option(
    "--draws",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Draw each stored sample of NET N times, in a row, as its training data layer augments it.",
)
@click.option("--layer", metavar="NAME", help="The net's data layer. Default: the first one.")
@options.number_option(
    "--seed", help="random_seed, which decides crops, mirroring and order.", kind=options.Whole(), default=0
)
@options.state
@force_option
def show(what, out, count, start, columns, labels, draws, layer, seed, phase, level, stage, force) -> None:
    """Draws what a net will see: samples of its data layer after every transform, with their labels, on one sheet.

    NET is a prototxt, whose phase is TRAIN unless -phase says otherwise. DB is a database, whose images are shown as
    they are stored.

    \b
    Example:
      caffelite dataset show models/cifar10_quick/train_val.prototxt -phase TRAIN -o seen.png
      caffelite dataset show flowers_train_lmdb -labels flowers_labels.txt -count 100
    """
    from ...data import class_names
    from ...data.drafts import atomic, check_free
    from ...data.images import opencv
    from ...data.sheet import contact_sheet

    opencv("dataset show")
    check_free([out], force)
    names = class_names.read(labels) if labels else []
    is_net = what.is_file() and what.suffix != ".mdb"
    if draws:
        if not is_net or phase == "TEST" or layer:
            raise click.UsageError("-draws takes a net, and shows its first data layer in phase TRAIN")
        images, labels, columns = *_augmented(what, start, max(1, count // draws), draws, seed), columns or draws
    elif is_net:
        images, labels = _drawn(_of_net(what, layer, seed, phase or "TRAIN", level, stage), start, count)
    else:
        images, labels = _stored(what, start, count)
    png, black, white = contact_sheet(images, [_caption(label, names) for label in labels], columns)
    with atomic(out, force=force) as unfinished:
        unfinished.write_bytes(png)
    shapes = Counter("×".join(map(str, image.shape)) for image in images)
    sizes = f"{len(shapes)} shapes" if len(shapes) > 1 else next(iter(shapes))
    say(f"wrote {out}: {len(images)} images of {sizes}; black is {black:g}, white is {white:g}", err=True)


def _augmented(net: Path, start: int, count: int, draws: int, seed: int) -> tuple[list, list]:
    """(images, labels): draws of each of some samples; the caption is the number of the sample."""
    import numpy as np

    from ...data import augmentation_preview

    images, labels = [], []
    for number in range(start, start + count):
        images += augmentation_preview.of_net(net, number, draws, seed)[1]
        labels += [np.array(number)] * draws
    return images, labels


def _drawn(opened, start: int, count: int) -> tuple[list, list]:
    """(images, labels) that a source returns; boxes are drawn."""
    import numpy as np

    from ...data.box_drawing import outlined

    images: list = []
    labels: list = []
    with closing(opened) as source:
        count = min(count, max(source.length, source.shapes[0][0]))
        source.seek(start)
        while len(images) < count:
            tops = source.next()
            batch = [array[: count - len(images)].copy() for array in tops]
            if len(tops) > 1 and source.gives_objects:
                rows = tops[1].reshape(-1, 8)
                for item, image in enumerate(batch[0]):
                    mine = rows[rows[:, 0] == item]
                    images.append(outlined(image, mine[:, 1].astype(int), mine[:, 3:7]))
                    labels.append(np.unique(mine[:, 1]))
                continue
            images += list(batch[0])
            labels += list(batch[1]) if len(batch) > 1 else []
    return images, labels


def _stored(path: Path, start: int, count: int) -> tuple[list, list]:
    """(images, labels) of a database's records, of any shapes."""
    import numpy as np

    from ...data.box_drawing import outlined
    from ...data.records import Records, objects, read

    images, labels = [], []
    with Records(path) as records:
        if start >= len(records):
            what = f"no sample {start}"
            raise Where(str(path)).error(what, expected=f"0 to {len(records) - 1}", remedy="lower --start")
        for key, value in islice(records, start, start + count):
            try:
                (datum, image), known = read(value), objects(value)
            except ValueError as mistake:
                raise records.bad(key, mistake) from None
            if known is None:
                images.append(image)
                labels.append(np.array(datum.label))
            else:
                images.append(outlined(image, known.others[:, 0].astype(int), known.boxes))
                labels.append(np.unique(known.others[:, 0]))
    return images, labels


def _of_net(path: Path, name: str | None, seed: int, phase: str, level: int | None, stages: tuple[str, ...]):
    """The source of a net's data layer. The rest of the net need not be sound."""
    from ... import caffelite_pb2 as pb, data, prototxt
    from ...net import graph

    document = prototxt.read_net(path)
    state = graph.net_state(pb.Phase.Value(phase.upper()), document.message, None, level, stages)
    others = []
    for position, spec in enumerate(document.message.layer):
        locate = document.locate.at("layer", position)
        if spec.bottom or graph.keeps(spec, state, locate) or name not in (None, spec.name):
            others += [spec.name] * (not spec.bottom)
            continue
        alone = pb.NetParameter(layer=[graph.joined(document.message, position, spec, state, document.locate)])
        moves = {("layer", position): ("layer", 0), ("layer", 0): ("layer", position)}
        nodes = graph.build(
            alone, state, document.locate.moved(moves), functools.partial(data.open_source, seed=seed)
        ).nodes
        if source := getattr(nodes[0].layer, "source", None):
            return source
        others.append(spec.name)
    what = f'no data layer "{name}" in phase {phase}' if name else f"no data layer in phase {phase}"
    raise Where(str(path)).error(what, found=", ".join(others) or None)


def _caption(value, names: list[str]) -> str:
    """A label's class or those of several objects, or its numbers."""
    if value.size == 1 and value.item() in range(len(names)):
        return names[int(value.item())]
    if names and value.size and all(number in range(len(names)) for number in value.ravel().tolist()):
        return " ".join(names[int(number)] for number in value.ravel())
    return " ".join(f"{number:g}" for number in value.ravel())
