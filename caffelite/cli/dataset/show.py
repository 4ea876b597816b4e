"""caffelite dataset show"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import islice
from pathlib import Path

import click

from ... import inputs
from ...errors import CaffeliteError, Where
from .. import options
from .making import force as force_option


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
@click.option(
    "--count", type=click.IntRange(1, 1000), default=40, show_default=True, metavar="N", help="Images to show."
)
@click.option(
    "--start", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="First sample to show."
)
@click.option(
    "--columns", type=click.IntRange(min=1), metavar="N", help="Images in a row. Default: so that the sheet is square."
)
@click.option(
    "--labels",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Names of the classes, one on each line, instead of numbers.",
)
@click.option(
    "--draws",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Draw each stored sample of NET N times, in a row, as its training data layer augments it.",
)
@click.option("--layer", metavar="NAME", help="The net's data layer. Default: the first one.")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="random_seed, which decides crops, mirroring and order.",
)
@options.phase
@options.level
@options.stage
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
    from ...data.images import opencv
    from ...data.sheet import contact_sheet
    from ...data.writers import atomic, check_free

    opencv("dataset show")
    check_free([out], force)
    names = _lines(labels) if labels else []
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
    with atomic(out) as unfinished:
        unfinished.write_bytes(png)
    shapes = Counter("×".join(map(str, image.shape)) for image in images)
    sizes = f"{len(shapes)} shapes" if len(shapes) > 1 else next(iter(shapes))
    click.echo(f"wrote {out}: {len(images)} images of {sizes}; black is {black:g}, white is {white:g}", err=True)


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
            raise CaffeliteError(
                f"no sample {start}",
                where=Where(str(path)),
                expected=f"0 to {len(records) - 1}",
                remedy="lower --start",
            )
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
    import functools

    from ... import caffelite_pb2 as pb
    from ... import data, prototxt
    from ...net import graph
    from ...training import nets

    document = prototxt.read_net(path)
    state = nets.state(pb.Phase.Value(phase.upper()), document.message, None, level, stages)
    found = []
    for place, spec in enumerate(document.message.layer):
        locate = document.locate.at("layer", place)
        if spec.bottom or graph.keeps(spec, state, locate) or name not in (None, spec.name):
            found += [spec.name] * (not spec.bottom)
            continue
        alone = pb.NetParameter(layer=[spec])
        moves = {("layer", place): ("layer", 0), ("layer", 0): ("layer", place)}
        nodes = graph.build(
            alone, state, document.locate.moved(moves), functools.partial(data.open_source, seed=seed)
        ).nodes
        if source := getattr(nodes[0].layer, "source", None):
            return source
        found.append(spec.name)
    what = f'no data layer "{name}" in phase {phase}' if name else f"no data layer in phase {phase}"
    raise CaffeliteError(what, where=Where(str(path)), found=", ".join(found) or None)


def _caption(value, names: list[str]) -> str:
    """A label's class or those of several objects, or its numbers."""
    if value.size == 1 and value.item() in range(len(names)):
        return names[int(value.item())]
    if names and value.size and all(number in range(len(names)) for number in value.ravel().tolist()):
        return " ".join(names[int(number)] for number in value.ravel())
    return " ".join(f"{number:g}" for number in value.ravel())


def _lines(path: Path) -> list[str]:
    try:
        return inputs.read_text(path, errors="replace").split("\n")
    except OSError as mistake:
        raise CaffeliteError(f"cannot read: {mistake.strerror}", where=Where(str(path))) from None
