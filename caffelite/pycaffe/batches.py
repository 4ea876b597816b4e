"""Passes over any number of samples, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Protocol

import numpy as np

Arrays = dict[str, np.ndarray]


class Runs(Protocol):
    """The parts of a net that these functions use."""

    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def blobs(self) -> Mapping[str, HasShape]: ...
    @property
    def forward(self) -> Callable[..., Arrays]: ...
    @property
    def backward(self) -> Callable[..., Arrays]: ...


class HasShape(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


def forward_all(net: Runs, blobs: Sequence[str] | None, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """See ``Net.forward_all``."""
    count = _count(arrays)
    rows: dict[str, list[np.ndarray]] = {}
    for batch in _batches(net, arrays):
        _append(rows, net.forward(blobs=blobs, **batch))
    return _joined(rows, count)


def forward_backward_all(
    net: Runs, blobs: Sequence[str] | None, diffs: Sequence[str] | None, arrays: Mapping[str, np.ndarray]
) -> tuple[Arrays, Arrays]:
    """See ``Net.forward_backward_all``."""
    count = _count(arrays)
    forward, backward = ({n: arrays[n] for n in names if n in arrays} for names in (net.inputs, net.outputs))
    data: dict[str, list[np.ndarray]] = {}
    gradients: dict[str, list[np.ndarray]] = {}
    for inputs, starts in zip_longest(_batches(net, forward), _batches(net, backward)):
        _append(data, net.forward(blobs=blobs, **(inputs or {})))
        _append(gradients, net.backward(diffs=diffs, **(starts or {})))
    return _joined(data, count), _joined(gradients, count)


def _count(arrays: Mapping[str, np.ndarray]) -> int:
    """How many samples the arrays have. Errors: none are given; different numbers."""
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1:
        raise ValueError(f"expected arrays with the same number of samples; found {sorted(counts) or 'no arrays'}")
    return counts.pop()


def _batches(net: Runs, arrays: Mapping[str, np.ndarray]) -> Iterator[Arrays]:
    """The arrays in batches of the net's first blob; zeros fill the last one up."""
    if not arrays:
        return
    size = next(iter(net.blobs.values())).shape[0]
    for start in range(0, _count(arrays), size):
        batch = {name: np.asarray(array[start : start + size]) for name, array in arrays.items()}
        yield {
            name: np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), part.dtype)])
            for name, part in batch.items()
        }


def _append(rows: dict[str, list[np.ndarray]], arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        rows.setdefault(name, []).append(np.atleast_1d(np.array(array)))


def _joined(rows: Mapping[str, list[np.ndarray]], count: int) -> Arrays:
    """All batches of each blob, without the rows that filled the last one up."""
    return {name: np.concatenate(parts)[:count] for name, parts in rows.items()}
