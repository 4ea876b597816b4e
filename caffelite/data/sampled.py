"""A data layer of the user's, which gives its samples one by one."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import Locator, closed_on_failure
from ..layers.base import fillers
from ..layers.data import Feed, no_files
from .draws import key
from .opening import batch_size_of
from .order import Order
from .pipeline import Batch, Source, workers


class DataLayer(Feed):
    """Base class of data layers: ``length`` and ``sample`` give the samples, of which the net reads batches. Order and
    random numbers follow from seed and position, so that a resumed run goes on with the same samples.

    It has a field batch_size; a field shuffle, where there is one, permutes the samples in each epoch. ``open`` is
    called once before the first sample. Threads call ``sample`` for several samples at a time.
    """

    divides_samples = True
    listed_files = staticmethod(no_files)

    def samples_per_batch(self) -> int:
        """The samples of a batch."""
        return batch_size_of(self.p, self.locate.at(self.field))

    def shuffles(self) -> bool:
        """Whether the samples are permuted in each epoch."""
        return getattr(self.p, "shuffle", False)

    def open(self) -> None:
        """Opens what samples are read from."""

    def close(self) -> None:
        """Closes what ``open`` opened."""

    def length(self) -> int:
        """The number of samples in an epoch."""
        raise NotImplementedError("the class has no length")

    def sample(self, index: int, random: np.random.Generator) -> Any:
        """A sample's values for each top, as arrays or numbers of one shape for all samples. random: for augmentation,
        different in each epoch."""
        raise NotImplementedError("the class has no sample")

    @classmethod
    def open_source(cls, layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        return SampledSource(cls(layer, phase, locate), seed)


class SampledSource(Source):
    """Batches of the samples of a ``DataLayer``."""

    def __init__(self, layer: DataLayer, seed: int):
        size = layer.samples_per_batch()
        layer.open()
        with closed_on_failure(layer):
            length = layer.length()
            if length < 1:
                raise layer.error("has no samples", expected="a length of 1 or more", found=length)
            self._layer, self._seed = layer, seed
            shuffle = key(seed, layer.name, "shuffle") if layer.shuffles() else None
            self._order = Order(length, shuffle)
            self._first = [value.shape for value in self._values(0, 0)]
        shapes = [(size, *shape) for shape in self._first]
        super().__init__(shapes, length, layer.spec.data_param.prefetch, workers())

    def _values(self, index: int, position: int) -> list[np.ndarray]:
        random = fillers.generator(self._seed, self._layer.name, "sample", position)
        values = self._layer.sample(index, random)
        return [np.asarray(v, np.float32) for v in (values if isinstance(values, tuple) else (values,))]

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        for row, index in enumerate(self._order(position, len(batch.arrays[0])).tolist()):
            yield partial(self._fill, batch, row, index, position + row)

    def _fill(self, batch: Batch, row: int, index: int, position: int) -> None:
        values = self._values(index, position)
        shapes = [value.shape for value in values]
        if shapes != self._first:
            what, expected = f"sample {index} has other shapes", f"{self._first}, as sample 0 has"
            raise self._layer.error(what, expected=expected, found=shapes)
        for array, value in zip(batch.arrays, values, strict=True):
            array[row] = value

    def release(self) -> None:
        self._layer.close()
