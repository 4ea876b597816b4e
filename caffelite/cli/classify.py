"""caffelite classify"""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from ..errors import CaffeliteError
from . import options
from .deploy import read_labels


@click.command(short_help="Say what images show")
@click.argument("images", metavar="IMAGE…", nargs=-1, required=True, type=click.Path())
@options.model
@options.weights
@click.option(
    "--top",
    "count",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Answers to give for a picture.",
)
@click.option(
    "--labels",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Names of the classes, a line each. Default: the net's own.",
)
@click.option(
    "--oversample", is_flag=True, help="Average ten views of a picture: four corners and the middle, mirrored too."
)
@click.option(
    "--hierarchy",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Groups of classes: give more general answers too.",
)
@click.option(
    "--annotate",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the pictures with the answers on them, and all.png with all of them.",
)
@click.option(
    "--mean", metavar="B,G,R", help="Mean to take off, one number or one a channel, instead of the net's own."
)
@click.option(
    "--scale", type=float, metavar="FACTOR", help="Factor after the mean is taken off, instead of the net's own."
)
@click.option(
    "--size", metavar="HxW", help="Size in pixels to which pictures are brought before the crop, as in 256x256."
)
@click.option(
    "--channel_order",
    type=click.Choice(["bgr", "rgb"], case_sensitive=False),
    help="The channels' order that the net knows.",
)
@click.option("--output", metavar="BLOB", help="The blob with the scores. Default: prob, or the only output.")
@click.option("--skip", is_flag=True, help="Exit with status 0 although pictures among several could not be read.")
@options.set_layers
@options.gpu
@options.python
@options.as_json
def classify(
    images,
    model,
    weights,
    count,
    labels,
    oversample,
    hierarchy,
    folder,
    mean,
    scale,
    size,
    channel_order,
    output,
    skip,
    set_fields,
    gpu,
    as_json,
) -> None:
    """Says what pictures show: files, folders and what is in them, or patterns such as "scans/*.png".

    MODEL is a deploy net. One that caffelite deploy made knows its weights, its labels, and how a picture becomes its
    input: mean, scale, size, crop, channel order, and for single signs their ground, size and place; -mean, -scale,
    -size and -channel_order say it for others.

    A hierarchy is a text file, a name a line; what belongs to it stands below, further in. Answers go from the best
    class to the whole, each more probable than the one before; bits are how much it tells.

    A picture among several that cannot be read is reported, and the others are classified; the exit status is 1 then.

    \b
    Example:
      caffelite classify -model digits.prototxt drawn/ -annotate answers
      caffelite classify -model caffenet.prototxt "photos/*.jpg" -oversample -hierarchy animals.txt -json
    """
    import glob

    from .. import prototxt
    from ..deploy.classify import Classifier, gather
    from ..deploy.hierarchy import Hierarchy
    from ..layers import unknown_types
    from ..prototxt.overrides import Overrides
    from ..runs.device_choice import open_device
    from ..runs.open_net import load_weights

    files = gather(images, glob.glob)
    document = Overrides(set_fields).net(prototxt.read_net(model, tolerate=unknown_types.tolerate))
    _override(document.message, mean, scale, size, channel_order)
    weights = (
        weights
        or document.message.deploy_param.weights
        and str(prototxt.resolve(document.message.deploy_param.weights, document.locate))
    )
    if not weights:
        raise click.UsageError("-weights is missing, and the net names none")
    begun = time.perf_counter()
    classifier = Classifier(
        document, open_device(gpu), len(files), oversample, read_labels(labels) if labels else None, output
    )
    load_weights(classifier.net, options.names(weights))
    groups = Hierarchy(hierarchy, classifier.labels) if hierarchy else None
    classifier.warm_up()
    opened = time.perf_counter() - begun
    found, pages, failed = [], {}, []

    def report(file: Path, error: CaffeliteError) -> None:
        failed.append(file)
        click.echo(f"caffelite: {error}", err=True)

    for answer in classifier.answers(files, report if len(files) > 1 else None):
        entry = _entry(answer, classifier.labels, count, groups)
        found.append(entry)
        if not as_json:
            _show(entry)
        if folder:
            pages[_free_name(answer.file.stem, pages)] = _page(classifier.preparation, answer.file, entry)
    if pages:
        _write(folder, pages)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif found:
        each = sum(entry["seconds"] for entry in found) / len(found)
        click.echo(f"{len(found)} pictures, {each:.4f} s each; {opened:.2f} s to open the net", err=True)
    if failed:
        click.echo(f"{len(failed)} of {len(files)} pictures could not be read", err=True)
        sys.exit(0 if skip else 1)


def _override(net, mean: str | None, scale: float | None, size: str | None, channel_order: str | None) -> None:
    """What the command line says of the preparation, in place of what the net says."""
    inputs = [layer for layer in net.layer if layer.type == "Input"]
    if not inputs:
        return  # which is told when the classifier is made
    param = inputs[0].transform_param
    if mean is not None:
        values = [_number(part) for part in options.names(mean)]
        param.ClearField("mean_file")
        param.ClearField("mean_value")
        param.mean_value.extend(values)
    if scale is not None:
        param.scale = scale
    if size is not None:
        sides = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", size)
        if not sides:
            raise CaffeliteError("a bad -size", expected="rows x columns, as in 256x256", found=size)
        net.deploy_param.height, net.deploy_param.width = map(int, sides.groups())
    if channel_order is not None:
        net.deploy_param.channel_order = net.deploy_param.ChannelOrder.Value(channel_order.upper())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CaffeliteError("a bad -mean", expected="numbers, as in 104,117,123", found=text) from None


def _entry(answer, labels: list[str], count: int, groups) -> dict:
    entry = {"file": str(answer.file), "seconds": round(answer.seconds, 6), "notes": answer.notes}
    entry["answers"] = [{"label": labels[i], "class": i, "score": float(answer.scores[i])} for i in answer.top(count)]
    if groups:
        entry["general"] = [asdict(general) for general in groups.answers(answer.scores)]
    return entry


def _show(entry: dict) -> None:
    notes = f"  ({', '.join(entry['notes'])})" if entry["notes"] else ""
    options.say(f"{entry['file']}  {entry['seconds']:.4f} s{notes}")
    for answer in entry["answers"]:
        options.say(f"  {answer['score']:.4f}  {answer['label']}")
    if "general" in entry:
        options.say("  in general:")
        for general in entry["general"]:
            options.say(f"  {general['score']:.4f}  {general['name']} ({general['bits']:.1f} bits)")


def _page(preparation, file: Path, entry: dict):
    """The picture as it is, with its answers."""
    from ..deploy.annotate import annotate

    return annotate(preparation.read(file), [(answer["label"], answer["score"]) for answer in entry["answers"][:3]])


def _free_name(stem: str, taken: dict) -> str:
    """The picture's name, or one with a number where another folder's picture has it."""
    names = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken and name != "all")


def _write(folder: Path, pages: dict) -> None:
    from ..deploy.annotate import png, sheet

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / f"{name}.png").write_bytes(png(page))
    except OSError as error:
        raise CaffeliteError(f"cannot write to {folder}: {error.strerror}") from None
    options.write_picture(folder / "all.png", png(sheet(list(pages.values()))))
