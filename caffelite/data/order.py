"""The order of samples: a pure function of the position."""

from __future__ import annotations

import numpy as np

from .draws import Key, permutation


class Order:
    """Numbers of samples, epoch after epoch: 0 … length - 1, or, with a key, another permutation of them in each epoch.

    skipped: samples that are skipped at the start.
    """

    def __init__(self, length: int, shuffle: Key | None = None, skipped: int = 0):
        self.length, self.shuffle, self.skipped = length, shuffle, skipped
        self._epoch: tuple[int, np.ndarray] | None = None

    def __call__(self, position: int, count: int) -> np.ndarray:
        """The numbers of samples position … position + count - 1 of the run."""
        epoch, at = divmod(position + self.skipped, self.length)
        pieces = []
        while count or not pieces:
            stop = min(at + count, self.length)
            pieces.append(self._permuted(epoch)[at:stop] if self.shuffle else np.arange(at, stop))
            count, epoch, at = count - (stop - at), epoch + 1, 0
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _permuted(self, epoch: int) -> np.ndarray:
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, permutation(self.shuffle, epoch, 0, self.length)
        return self._epoch[1]
