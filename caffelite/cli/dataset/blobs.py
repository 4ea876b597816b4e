"""caffelite dataset blobs"""

from __future__ import annotations

from pathlib import Path

import click

from . import making


@click.command(short_help="Points of two classes, as HDF5")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the points.")
@making.out
@making.force
def blobs(seed: int, out: Path, force: bool) -> None:
    """Two classes of points for logistic regression: logreg_train.h5 (8000 rows) and logreg_test.h5 (2000), each with
    its .txt list.

    `data` holds N×4 points, one Gaussian cloud a class; `label` holds N zeros and ones.

    Example: caffelite dataset blobs --out data
    """
    import numpy as np

    from ...data.writers import write_hdf5

    names = making.free(out, force, "logreg_train.h5", "logreg_test.h5", "logreg_train.txt", "logreg_test.txt")
    random = np.random.default_rng(seed)
    for name, rows in zip(names, (8000, 2000), strict=False):
        labels = np.arange(rows) % 2
        points = random.standard_normal((rows, 4)) + np.where(labels[:, None], 1, -1) * np.array([1.0, 0.5, 0.25, 0.0])
        write_hdf5(name, {"data": points, "label": labels}, force=force)
        click.echo(f"wrote {name} and {name.with_suffix('.txt').name}: {rows} rows", err=True)
