"""caffelite dataset digits"""

from __future__ import annotations

from pathlib import Path

import click

from caffelite.errors import missing_extra

from . import making


@click.command()
@making.out
@making.force
def digits(out: Path, force: bool) -> None:
    """Handwritten digits without a download: digits_train_lmdb (1437 images) and digits_test_lmdb (360).

    They are scikit-learn's 8×8 digits, enlarged to 20×20 and centred in 28×28 as MNIST's are.

    Example: caffelite dataset digits --out data
    """
    import numpy as np

    names = making.free(out, force, "digits_train_lmdb", "digits_test_lmdb")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing_extra("scikit-learn", "digits", "dataset digits") from None
    from scipy.ndimage import zoom

    small, labels = load_digits(return_X_y=True)
    large = zoom(small.reshape(-1, 8, 8) * (255 / 16), (1, 2.5, 2.5), order=1, mode="nearest", grid_mode=True)
    images = np.pad(large.clip(0, 255).round().astype(np.uint8), ((0, 0), (4, 4), (4, 4)))
    # Every fifth image of the list sorted by class: each class gives its fifth to the test set.
    chosen = np.zeros(len(labels), bool)
    chosen[np.argsort(labels, kind="stable")[::5]] = True
    for name, part in zip(names, (~chosen, chosen), strict=True):
        making.write(name, images[part], labels[part], force)
