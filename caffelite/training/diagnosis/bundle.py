"""The files of a diagnosis bundle: the folder from which ``caffelite replay`` runs one iteration again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb
from ... import prototxt
from ..checkpoint import snapshot
from .report import Report

REPORT, BATCH, NET, SOLVER = "report.json", "batch.npz", "net.prototxt", "solver.prototxt"


def make_folder(prefix: str, iteration: int, run: str) -> Path:
    """The new folder of a bundle. One of the same name that another run left is renamed."""
    folder = Path(f"{prefix}_fault_iter_{iteration}")
    if os.path.lexists(folder) and not any(snapshot.run_of(path) == run for path in folder.glob("fault_iter_*")):
        number = next(n for n in range(1, 10**6) if not os.path.lexists(f"{folder}_{n}"))
        os.rename(folder, f"{folder}_{number}")
    folder.mkdir(exist_ok=True)
    return folder


def write(
    folder: Path,
    net: pb.NetParameter,
    solver: pb.SolverParameter,
    report: Report,
    batches: dict[str, np.ndarray],
    values: Mapping[str, object],
) -> None:
    """Writes what belongs to a bundle besides a checkpoint. batches: what feeding layers read, by "part/layer/top".
    values: more entries of the report's file."""
    (folder / NET).write_text(prototxt.write(net), encoding="utf-8")
    (folder / SOLVER).write_text(prototxt.write(solver), encoding="utf-8")
    np.savez(folder / BATCH, **batches)  # type: ignore[arg-type]  # for mypy a key may be savez's allow_pickle
    entries = {
        "iteration": report.iteration,
        **values,
        "first": report.first and report.first.record(),
        "samples": report.samples,
        "norms": report.norms,
        "causes": report.causes,
    }
    (folder / REPORT).write_text(json.dumps(entries, indent=2) + "\n")
