"""caffelite dataset digits"""

from __future__ import annotations

from pathlib import Path

import click

from ...errors import missing_extra
from . import making

TRAINED = 4000  # images of the train set, written and printed


@click.command(short_help="Digits, without a download")
@making.out
@making.force
def digits(out: Path, force: bool) -> None:
    """Creates digits without a download: digits_train_lmdb (4000 images) and digits_test_lmdb (360 handwritten ones).

    The handwritten digits are scikit-learn's 8×8 images, enlarged to 20×20 and centred in 28×28 like MNIST's. 1437 of
    them are in the training set, with 2563 printed digits that are drawn here, so a net learns both.

    Example: caffelite dataset digits --out data
    """
    import numpy as np

    from ...data import glyphs

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
    printed, printed_labels = glyphs.digits(TRAINED - int(np.count_nonzero(~chosen)))
    learned, learned_labels = (
        np.concatenate([images[~chosen], printed]),
        np.concatenate([labels[~chosen], printed_labels]),
    )
    mixed = np.random.default_rng(0).permutation(TRAINED)
    making.write(names[0], learned[mixed], learned_labels[mixed], force)
    making.write(names[1], images[chosen], labels[chosen], force)
