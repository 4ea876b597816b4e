"""Shared code of the commands that make data sets: options, names, writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from .. import imaging

out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Folder to write into.",
)
force = click.option("--force", is_flag=True, help="Replace what is already there.")


def free(out: Path, force: bool, *names: str) -> list[Path]:
    from ...data.writers import check_free

    paths = [out / name for name in names]
    check_free(paths, force)
    return paths


def write(path: Path, images, labels, force: bool, digits: int = 8) -> None:
    """Writes images (N×H×W or N×C×H×W of uint8) and their labels."""
    from ...data.writers import write_lmdb

    samples = zip(images if images.ndim == 4 else images[:, None], labels.tolist(), strict=True)
    written = write_lmdb(path, samples, len(labels), progress=True, digits=digits, force=force)
    click.echo(f"wrote {path}: {written} images of {images.shape[-2]}×{images.shape[-1]}", err=True)


def write_classes(path: Path, archive, classes: Sequence[str], force: bool) -> None:
    """Writes image files, CLASS/FILE by name, of one size and mixed. Errors: other classes than these."""
    from ...data.convert import Recipe, convert
    from ...data.listing import list_classes, shuffled

    images, _ = list_classes(archive, archive.where, classes)
    done = convert(
        path, shuffled(images, seed=0), archive.__getitem__, Recipe(), check_size=True, progress=True, force=force
    )
    imaging.report(path, done)


def write_drawn(
    out: Path, name: str, draw: Callable[[int, str, int], dict], counts: dict[str, int], seed: int, force: bool
) -> None:
    """Writes an HDF5 file for each split, NAME_SPLIT.h5, and its list. draw: of a seed, a split and a count."""
    from ...data.writers import check_free, write_hdf5

    paths = {split: out / f"{name}_{split}.h5" for split in counts}
    check_free([path.with_suffix(suffix) for path in paths.values() for suffix in (".h5", ".txt")], force)
    out.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        write_hdf5(paths[split], draw(seed, split, count), force=force)
        click.echo(f"wrote {paths[split]}: {count} samples", err=True)
