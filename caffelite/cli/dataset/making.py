"""Shared code of the commands that make data sets: options, names, writing."""

from __future__ import annotations

from collections.abc import Sequence
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
