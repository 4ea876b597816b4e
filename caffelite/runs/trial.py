"""Short training runs that keep nothing: whether a batch fits, and which learning rate falls fastest."""

from __future__ import annotations

from collections.abc import Sequence

from ..inspection.feeds import rebatched
from ..prototxt import Document
from ..prototxt.overrides import Overrides
from ..training import epochs, range_test
from ..training.nets import NetSpec
from .config import RunConfig
from .device_choice import open_device, open_one
from .open_net import load_initial_weights, open_trainer, read_solver, without_extras


class _BatchOverrides:
    """Overrides that set the batch size too."""

    def __init__(self, overrides: Overrides, batch: int):
        self._overrides, self._batch = overrides, batch

    def nets(self, specs: Sequence[NetSpec]) -> None:
        self._overrides.nets(specs)
        for spec in specs:
            spec.message = rebatched(spec.message, self._batch)


def train_two_iterations(config: RunConfig, batch: int, gpu_ids: list[int]) -> None:
    """Trains two iterations with another batch size. gpu_ids: of the GPUs. Errors: MemoryError where it does not
    fit."""
    plain = _plain(read_solver(config))
    overrides = _BatchOverrides(Overrides(config.overrides), batch)
    trainer = open_trainer(config, plain, open_one(gpu_ids, options=config.device_options()), overrides=overrides)
    try:
        trainer.step(2)
    finally:
        trainer.close()


def find_rate(config: RunConfig, low: float, high: float, iterations: int) -> range_test.RangeTest:
    """Trains at rates that rise from ``low`` to ``high``, and returns rates and losses."""
    document = read_solver(config)
    dev = open_device(config.gpus, document.message)
    trainer = open_trainer(config, _plain(document), dev)
    try:
        load_initial_weights(trainer, config)
        return range_test.range_test(trainer, low, high, iterations)
    finally:
        trainer.close()


def _plain(document: Document) -> Document:
    """The solver without tests and snapshots. A trial is shorter than an epoch, so lengths in epochs have no effect."""
    return Document(*epochs.provisional(without_extras(document.message), document.locate))
