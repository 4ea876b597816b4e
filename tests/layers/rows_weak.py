"""Rows of the table of layers: weakly supervised detection."""

from __future__ import annotations

import numpy as np
from layer_row import IMAGE, Row, labels, off_kinks


def between(rng, shape):
    return 0.1 + 0.8 * rng.random(shape)


ROWS = [
    Row("GlobalSumPooling", "", [(IMAGE, off_kinks)], lambda x: [x.sum(0, keepdims=True)]),
    Row(
        "MulticlassCrossEntropyLoss",
        "",
        [((3, 4), between), ((3, 4), labels(2))],
        lambda p, t: [-np.where(t != 0, np.log(p), np.log(1 - p)).sum() / len(p)],
        constant=(1,),
        exact=False,
    ),
]
