"""The parameters of a run's snapshots."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import prototxt, roots, stored, weights
from ..errors import CaffeliteError, did_you_mean

ITERATION = re.compile(r"_iter_(\d+)\.caffemodel(\.h5)?$")


@dataclass(frozen=True)
class Snapshot:
    """The parameters of an iteration, by layer."""

    iteration: int
    blobs: dict[str, list[np.ndarray]]


def find(names: Sequence[str]) -> list[Path]:
    """The caffemodels of snapshots in order of iterations: of a run folder, or those that are named. Errors: none."""
    paths = [path for name in names for path in (_of_run(Path(name)) if Path(name).is_dir() else [Path(name)])]
    if wrong := next((path for path in paths if not ITERATION.search(path.name)), None):
        raise CaffeliteError(f"{wrong} is no snapshot", expected="a run folder, or files NAME_iter_N.caffemodel")
    return sorted(paths, key=_iteration)


def _iteration(path: Path) -> int:
    match = ITERATION.search(path.name)
    return int(match[1]) if match else 0


def _of_run(folder: Path) -> list[Path]:
    """The snapshots of the run in a folder, next to which they usually are."""
    try:
        solver = prototxt.read_solver(folder / "solver.prototxt").message
        sessions = stored.load(folder / "run.json", {"sessions": [{"folder": str}]})["sessions"]
        start = Path(sessions[-1]["folder"]) / solver.snapshot_prefix
    except (CaffeliteError, IndexError):
        what = f"{folder} is not the folder of a run"
        raise CaffeliteError(what, expected="one that caffelite train wrote") from None
    starts = [start, folder.parent / folder.name.removesuffix("_run")]
    for each in starts:
        roots.check(each)
        snapshots = [p for p in each.parent.glob(f"{each.name}_iter_*.caffemodel*") if ITERATION.search(p.name)]
        if snapshots:
            return snapshots
    remedy = "set snapshot in the solver, or name the caffemodels"
    raise CaffeliteError(f"no snapshots of {folder}", expected=f"{start}_iter_N.caffemodel", remedy=remedy)


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
