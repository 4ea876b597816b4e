"""Compares a net with the ONNX file that it was made of: random inputs go through both."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import open_device
from ..errors import NOWHERE, CaffeliteError
from ..layers import Shape
from ..net import graph
from ..net.net import Net
from ..proof.differences import Differences, share
from ..proof.runners import Arrays, NetRunner, by_sample, count_rows
from .builder import Builder
from .trace import BATCH, Traced, draw, input_kinds, plain_runner
from .translate import deploy_net

log = logging.getLogger("caffelite")
NEAR = 1e-4  # of the greatest value: what another order of summation may change


@dataclass(frozen=True)
class Proof:
    """outputs: by name the greatest difference, as a share of the greatest value; samples: compared; any_batch: whether
    the net computed several samples at once as the file computes each."""

    outputs: dict[str, float]
    samples: int
    any_batch: bool


def prove(traced: Traced, b: Builder, given: Mapping[str, np.ndarray] | None = None) -> Proof:
    """Runs random inputs, and ``given`` ones, through onnxruntime and the net. A file for one sample runs for each,
    the net for all at once. Errors: an output differs by more than `NEAR`."""
    theirs, mine = plain_runner(traced.model.proto), _runner(b)
    differences = Differences(NEAR, mine.title, theirs.title)
    single = not traced.open_batch and theirs.single
    shapes = {name: (BATCH, *shape[1:]) if single else shape for name, shape in traced.inputs.items()}
    several, samples = True, 0
    for fed in [draw(shapes, input_kinds(traced.model), 1), *([dict(given)] if given else [])]:
        expected = theirs.outputs(fed)
        found = _at_once(mine, fed, single) if several else None
        if found is None or (single and any(not share(found[n], v) <= NEAR for n, v in expected.items())):
            several, found = False, by_sample(mine.outputs, fed)
        samples += count_rows(fed)
        for name, values in expected.items():
            differences.add(name, found[name], values)
            _warn_if_even(name, values)
    return Proof(differences.shares, samples, several)


def _runner(b: Builder) -> NetRunner:
    """The net for any number of samples, with the names of the file."""

    def open_net(shapes: Mapping[str, Shape]) -> Net:
        rows = next(iter(shapes.values()))[0]
        net = Net.of(graph.build(deploy_net(b, rows), pb.NetState(phase=pb.TEST), NOWHERE), open_device(), keep=True)
        net.load(b.blobs, "the ONNX file")
        return net

    names = {name: b.names[name] for name in (*b.traced.inputs, *b.traced.model.outputs)}
    return NetRunner(open_net, names)


def _at_once(mine: NetRunner, fed: Arrays, single: bool) -> dict[str, np.ndarray] | None:
    """The outputs of all samples; None where a net made of a file for one sample takes no more."""
    try:
        return mine.outputs(fed)
    except CaffeliteError:
        if single:
            return None
        raise


def _warn_if_even(name: str, values: np.ndarray) -> None:
    if values.size > 1 and not np.ptp(values):
        log.warning(
            '"%s" is %g everywhere, so that it proves nothing: compare other inputs by -inputs FILE.npz, or weights '
            "that have learned",
            name,
            values.flat[0],
        )
