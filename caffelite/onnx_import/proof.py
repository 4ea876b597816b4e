"""Compares a net with the ONNX file that it was made of: random inputs go through both."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices import open_device
from ..errors import NOWHERE, CaffeliteError
from ..net import graph
from ..net.net import Net
from .builder import Builder
from .trace import BATCH, Traced, draw, input_kinds, run, session
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
    opened = session(traced.model.proto)
    kinds, names = input_kinds(traced.model), traced.model.outputs
    outputs: dict[str, float] = {}
    single = not traced.open_batch and all(shape[0] == 1 for shape in traced.inputs.values())
    shapes = {name: (BATCH, *shape[1:]) if single else shape for name, shape in traced.inputs.items()}
    several = True
    samples = 0
    for fed in [draw(shapes, kinds, 1), *([dict(given)] if given else [])]:
        rows = next(iter(fed.values())).shape[0]
        parts = [{n: v[i : i + 1] for n, v in fed.items()} for i in range(rows)] if single else [fed]
        theirs = [
            np.concatenate(each) if each[0].ndim else each[0]
            for each in zip(*(run(opened, p, names) for p in parts), strict=True)
        ]
        mine = _at_once(b, fed, single) if several else None
        if single and (mine is None or not all(map(_near, mine, theirs))):
            several = False
            mine = [np.concatenate(each) for each in zip(*(_outputs(b, part) for part in parts), strict=True)]
        samples += rows
        for name, one, other in zip(names, mine or [], theirs, strict=True):
            outputs[name] = max(outputs.get(name, 0.0), _compared(name, one, other))
    return Proof(outputs, samples, several)


def _at_once(b: Builder, fed: Mapping[str, np.ndarray], single: bool) -> list[np.ndarray] | None:
    """The outputs of all samples; None where a net made of a file for one sample takes no more."""
    try:
        return _outputs(b, fed)
    except CaffeliteError:
        if single:
            return None
        raise


def _outputs(b: Builder, fed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    message = deploy_net(b, next(iter(fed.values())).shape[0])
    net = Net.of(graph.build(message, pb.NetState(phase=pb.TEST), NOWHERE), open_device(), keep=True)
    net.load(b.blobs, "the ONNX file")
    net.set_inputs(**{b.names[name]: values.astype(np.float32) for name, values in fed.items()})
    net.forward(0)
    return [net.dev.download(net.blobs[b.names[name]]).astype(float) for name in b.traced.model.outputs]


def _difference(mine: np.ndarray, theirs: np.ndarray) -> float:
    if mine.shape != theirs.shape:
        return np.inf
    return float(np.abs(mine - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), 1e-30))


def _near(mine: np.ndarray, theirs: np.ndarray) -> bool:
    return _difference(mine, theirs) <= NEAR


def _compared(name: str, mine: np.ndarray, theirs: np.ndarray) -> float:
    if mine.shape != theirs.shape:
        what = f'"{name}" has another shape than onnxruntime gives it'
        raise CaffeliteError(what, expected=list(theirs.shape), found=list(mine.shape))
    if not np.isfinite(theirs).all():
        raise CaffeliteError(f'onnxruntime gives "{name}" numbers that are not finite', remedy="check the weights")
    if theirs.size > 1 and not np.ptp(theirs):
        log.warning(
            '"%s" is %g everywhere, so that it proves nothing: compare other inputs by -inputs FILE.npz, or weights '
            "that have learned",
            name,
            theirs.flat[0],
        )
    difference = _difference(mine, theirs)
    if not difference <= NEAR:
        what = f'"{name}" differs from onnxruntime\'s'
        expected, found = f"at most {NEAR:g} of its greatest value", f"{difference:.2g}"
        raise CaffeliteError(what, expected=expected, found=found)
    return difference
