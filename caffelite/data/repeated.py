"""Repeats the first few batches of a source, to test whether a net can overfit them."""

import numpy as np

from .pipeline import Batch, Source


class Repeated(Source):
    """Returns the first ``count`` batches of a source repeatedly, augmented only the first time.

    ``position`` counts returned samples, as a source's does.
    """

    def __init__(self, source: Source, count: int):
        super().__init__(source.shapes, count * source.shapes[0][0] * source.shard.size)
        self._source, self._count, self.shard = source, count, source.shard
        self._batches: list[list[np.ndarray]] = []

    def draw(self) -> Batch:
        return Batch(self.next())

    def next(self) -> list[np.ndarray]:
        if len(self._batches) < self._count:
            self._source.seek(0)
            self._batches = [[array.copy() for array in self._source.next()] for _ in range(self._count)]
        step = self.shapes[0][0] * self.shard.size
        self.position += step
        return self._batches[(self.position // step - 1) % self._count]

    def seek(self, samples: int) -> None:
        self.position = samples

    def close(self) -> None:
        self._source.close()
