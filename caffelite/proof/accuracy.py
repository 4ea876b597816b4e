"""How many classes a program names rightly."""

from collections.abc import Mapping

import numpy as np


class Accuracy:
    """Counts, over batches, the labels that are the class of the greatest score of a program's only output of classes.
    ``share``: None where there are no labels, or no such output."""

    def __init__(self) -> None:
        self._right = self._total = 0
        self._judges = True

    def add(self, outputs: Mapping[str, np.ndarray], labels: np.ndarray | None) -> None:
        """outputs: by name; labels: numbers of classes, in the shape of the scores without the classes' axis."""
        scores = [values for values in outputs.values() if values.ndim > 1]
        if len(scores) != 1 or labels is None or scores[0].size // scores[0].shape[1] != labels.size:
            self._judges = False
            return
        best = scores[0].argmax(1)
        self._right += int((best.ravel() == labels.ravel()).sum())
        self._total += best.size

    @property
    def share(self) -> float | None:
        return self._right / self._total if self._judges and self._total else None
