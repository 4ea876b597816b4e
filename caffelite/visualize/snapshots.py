"""The parameters of a run's snapshots."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import weights
from ..errors import CaffeliteError, did_you_mean

ITERATION = re.compile(r"_iter_(\d+)\.caffemodel(\.h5)?$")


@dataclass(frozen=True)
class Snapshot:
    """The parameters of an iteration, by layer."""

    iteration: int
    blobs: dict[str, list[np.ndarray]]


def in_order(paths: Sequence[Path]) -> list[Path]:
    """The caffemodels of snapshots in order of iterations. Errors: the name of one has no iteration."""
    if wrong := next((path for path in paths if not ITERATION.search(path.name)), None):
        raise CaffeliteError(f"{wrong} is no snapshot", expected="a run folder, or files NAME_iter_N.caffemodel")
    return sorted(paths, key=_iteration)


def _iteration(path: Path) -> int:
    match = ITERATION.search(path.name)
    return int(match[1]) if match else 0


def load_snapshots(paths: Sequence[Path]) -> list[Snapshot]:
    return [Snapshot(_iteration(path), weights.read_model(path)) for path in paths]


def parameter_history(
    snapshots: Sequence[Snapshot], layers: Sequence[str], blob: int
) -> dict[str, list[tuple[int, np.ndarray]]]:
    """(iteration, values) of a layer's parameter in each snapshot, by layer; layers: none means every one with this
    parameter. Errors: no snapshot has such a layer or parameter."""
    known = list(dict.fromkeys(name for each in snapshots for name in each.blobs))
    history = {}
    for name in layers or known:
        if name not in known:
            expected = f"one of {', '.join(known)}"
            what = f'no layer "{name}" with parameters'
            raise CaffeliteError(what, expected=expected, remedy=did_you_mean(name, known))
        rows = [(e.iteration, e.blobs[name][blob].ravel()) for e in snapshots if len(e.blobs.get(name, ())) > blob]
        if rows:
            history[name] = rows
    if not history:
        raise CaffeliteError(f"no layer has a parameter {blob}", expected="0, the weights, or 1, the bias")
    return history


def filters(path: str, layer: str | None) -> tuple[str, np.ndarray]:
    """(layer, weights) of a caffemodel. layer: None means the first one with weights of at least two axes. Errors: no
    such layer, or one without such weights."""
    blobs = weights.read_model(Path(path))
    known = [name for name, arrays in blobs.items() if arrays[0].ndim >= 2]
    if layer is None and known:
        layer = known[0]
    if layer not in known:
        what = f'{path}: no layer "{layer}" with filters' if layer else f"{path}: no layer has filters"
        remedy = did_you_mean(layer, known) if layer else None
        raise CaffeliteError(what, expected=f"one of {', '.join(known) or 'none'}", remedy=remedy)
    array = blobs[layer][0]
    if array.ndim == 4 and max(array.shape[2:]) > 1:
        return layer, array
    return layer, array.reshape(array.shape[0], -1) if array.shape[0] > 1 else array.reshape(array.shape[-2:])
