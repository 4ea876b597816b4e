"""Compares a net with the ONNX file that it was made of: random inputs go through both."""

import logging
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import open_device
from ..errors import NOWHERE, CaffeliteError
from ..export.writer import import_onnx
from ..layers import Shape
from ..net import graph
from ..net.net import Net
from ..proof.differences import Differences, share
from ..proof.logits import KINDS
from ..proof.runners import Arrays, NetRunner, by_sample
from .builder import Builder
from .trace import BATCH, Traced, count_samples, draw, plain_runner, with_batch
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
    """Runs random inputs, and ``given`` ones, through onnxruntime and the net, an open batch in two sizes. A file for
    one sample runs for each, the net for all at once. Errors: an output differs by more than `NEAR`."""
    judged = _judged(traced, b)
    theirs, mine = plain_runner(_with_outputs(traced, judged.values())), _runner(b, judged)
    differences = Differences(NEAR, mine.title, theirs.title)
    single = not traced.open_batch and theirs.single
    shapes = {name: (BATCH, *shape[1:]) if single else shape for name, shape in traced.inputs.items()}
    several, samples = True, 0
    batches = [draw(traced.model, shapes, 1)]
    if traced.open_batch:  # the trace had the first size of the batch, too
        batches.append(draw(traced.model, with_batch(traced.model, shapes, 1), 2))
    for fed in [*batches, *([dict(given)] if given else [])]:
        expected = theirs.outputs(fed)
        found = _at_once(mine, fed, single) if several else None
        if found is None or (single and any(not share(found[n], expected[n]) <= NEAR for n in judged.values())):
            several, found = False, by_sample(mine.outputs, fed)
        samples += count_samples(traced.model, {name: values.shape for name, values in fed.items()})
        for name, tensor in judged.items():
            masked = np.isneginf(expected[tensor]) if tensor not in traced.model.outputs else False
            ours, reference = (np.where(masked, 0, values[tensor]) for values in (found, expected))
            differences.add(name, ours, reference)
        for name in traced.model.outputs:
            _warn_if_even(name, expected[name])
    return Proof(differences.shares, samples, several)


def _judged(traced: Traced, b: Builder) -> dict[str, str]:
    """The tensors that are compared, by what tables call them: outputs, and the logits of which a softmax makes them;
    of a sigmoid the logits alone, as where all probabilities are near 0 the greatest of them is no measure."""
    makers = {name: op for op in traced.operators for name in op.outputs}
    judged = {}
    for name in traced.model.outputs:
        op = makers.get(name)
        logits = op.inputs[0] if op and op.kind in KINDS else None
        compared = logits in b.names and logits not in traced.inputs
        if not (compared and op and op.kind == "Sigmoid"):
            judged[name] = name
        if compared and logits:
            judged[f"logits of {name}"] = logits
    return judged


def _with_outputs(traced: Traced, tensors: Iterable[str]) -> Any:
    """The file with these tensors as outputs too."""
    onnx, proto = import_onnx("importing ONNX files"), deepcopy(traced.model.proto)
    more = [name for name in tensors if name not in traced.model.outputs and name not in traced.inputs]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(more))
    return proto


def _runner(b: Builder, judged: Mapping[str, str]) -> NetRunner:
    """The net for any number of samples, with the names of the file."""

    def open_net(shapes: Mapping[str, Shape]) -> Net:
        rows = count_samples(b.traced.model, shapes)
        net = Net.of(graph.build(deploy_net(b, rows), pb.NetState(phase=pb.TEST), NOWHERE), open_device(), keep=True)
        net.load(b.blobs, "the ONNX file")
        return net

    names = {name: b.names[name] for name in (*b.traced.inputs, *b.traced.model.outputs, *judged.values())}
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
