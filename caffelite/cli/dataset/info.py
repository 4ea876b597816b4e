"""caffelite dataset info"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

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
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON instead; it lists every record that is reported.",
)
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write the JSON to a file instead."
)
def info(sets: tuple[Path, ...], search_near: bool, as_json: bool, out: Path | None) -> None:
    """Reports what is in a data set: number of images, shapes, classes, unreadable and unusual records, duplicates.

    A set is a database, a folder with a folder of images for each class, a list of images (.txt with "NAME LABEL" a
    line, .csv), an HDF5 file (.h5) or a list of HDF5 files (.txt). For two sets, such as train and test, it also
    reports the images that are in both. Each record is read and decoded; samples with NaN or infinity are named.

    \b
    Examples:
      caffelite dataset info mnist_train_lmdb
      caffelite dataset info flowers/ -near
      caffelite dataset info cifar10_train_lmdb cifar10_test_lmdb --json
    """
    if len(sets) > 2:
        raise click.UsageError(f"expected one data set or two, found {len(sets)}")
    from ...data.survey import survey

    found = [survey(path, progress=True, search_near=search_near) for path in sets]
    shared = list(found[0].shared(found[1])) if len(found) == 2 else []
    near = found[0].near_shared(found[1]) if search_near and len(found) == 2 else []
    if as_json or out:
        report: dict[str, list] = {"sets": [_as_json(one, search_near) for one in found]}
        if len(found) == 2:
            report["in_both"] = [[_keys(here), _keys(there)] for here, there in shared]
        if search_near and len(found) == 2:
            report["near_in_both"] = [_keys(list(pair)) for pair in near]
        text = json.dumps(report, indent=1, ensure_ascii=False)
        if out:
            _write(out, text + "\n")
        else:
            click.echo(text)
        return
    for one in found:
        _print(one, search_near)
    if len(found) == 2:
        lines = [f"{' '.join(_keys(here))} = {' '.join(_keys(there))}" for here, there in shared]
        _print_list(f"images that are in {sets[0].name} and in {sets[1].name}", lines)
    if search_near and len(found) == 2:
        _print_list(f"near duplicates in {sets[0].name} and {sets[1].name}", [" ~ ".join(_keys([*p])) for p in near])


def _write(path: Path, text: str) -> None:
    from ...data.writers import atomic

    with atomic(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    click.echo(f"wrote {path}", err=True)


def _keys(records: list[tuple[str, int | None]]) -> list[str]:
    return [key for key, _ in records]


def _as_json(one, search_near: bool) -> dict:
    found = {
        "path": one.path,
        "count": one.count,
        "stored_as": dict(one.kinds),
        "shapes": [{"shape": list(shape), "count": count} for shape, count in one.shapes.most_common()],
        **_objects(one),
        "labels": {str(label): one.labels[label] for label in sorted(one.labels)},
        "unreadable": one.unreadable,
        "odd": one.odd,
        "duplicates": [_records(records) for records in one.duplicates()],
    }
    return {**found, "near_duplicates": [_records(pair) for pair in one.near_duplicates()]} if search_near else found


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


def _print(one, search_near: bool) -> None:
    click.echo(f"{one.path}: {one.count} records")
    click.echo(
        "  stored as: "
        f"{', '.join(f'{kind} ({count})' for kind, count in one.kinds.most_common()) or 'nothing that can be read'}"
    )
    shapes = [f"{'×'.join(map(str, shape))} ({count})" for shape, count in one.shapes.most_common(LISTED)]
    more = len(one.shapes) - len(shapes)
    click.echo(f"  shapes: {', '.join(shapes)}{f' and {more} more' * (more > 0)}")
    if one.labels:
        click.echo(
            f"  labels: {len(one.labels)}, from {min(one.labels)} to {max(one.labels)}; "
            f"{_spread(one.labels.values())} images each"
        )
        most = max(one.labels.values())
        for label in sorted(one.labels):
            click.echo(f"    {label:>6} {one.labels[label]:>8} {'#' * max(1, round(BAR * one.labels[label] / most))}")
    if one.per_image:
        least, most = min(one.per_image), max(one.per_image)
        click.echo(
            f"  objects: {one.objects.total()} of {len(one.objects)} classes, {least} to {most} an image; "
            f"{one.per_image[0]} images without any"
        )
        most = max(one.objects.values(), default=1)
        for label in sorted(one.objects):
            click.echo(f"    {label:>6} {one.objects[label]:>8} {'#' * max(1, round(BAR * one.objects[label] / most))}")
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


def _spread(counts) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def _print_list(title: str, lines: list[str]) -> None:
    click.echo(f"{title}: {len(lines) or 'none'}")
    for line in lines[:LISTED]:
        click.echo(f"    {line}")
    if len(lines) > LISTED:
        click.echo(f"    … and {len(lines) - LISTED} more; --json names all")
