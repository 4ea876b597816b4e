"""Copies the solver and the nets of a run to a new folder, to edit and train them again."""

from __future__ import annotations

from pathlib import Path

from .. import caffelite_pb2 as pb
from .. import inputs, prototxt
from ..errors import CaffeliteError
from . import folder as files


def clone(folder: Path, to: Path) -> Path:
    """Writes the solver of a run, and its nets as files, into a new folder; the path of the new solver.

    Snapshots of the new solver go into that folder. Errors: no run; the folder exists or cannot be made.
    """
    solver: pb.SolverParameter = prototxt.read_solver(folder / files.SOLVER).message
    to = to.absolute()
    written: dict[str, str] = {}

    def move(net: pb.NetParameter, name: str) -> str:
        written[name] = prototxt.write(net)
        return str(to / name)

    if solver.HasField("net_param"):
        solver.net = move(solver.net_param, "net.prototxt")
    if solver.HasField("train_net_param"):
        solver.train_net = move(solver.train_net_param, "train_net.prototxt")
    solver.test_net.extend(move(net, f"test_net_{i}.prototxt") for i, net in enumerate(solver.test_net_param))
    for name in ("net_param", "train_net_param", "test_net_param"):
        solver.ClearField(name)
    solver.snapshot_prefix = str(to / "snapshot")
    written["solver.prototxt"] = prototxt.write(solver)
    try:
        to.mkdir(parents=True)
        for name, text in written.items():
            files.write_atomically(to / name, text)
    except FileExistsError:
        raise CaffeliteError(f"{to} exists", expected="a new folder") from None
    except OSError as error:
        raise CaffeliteError(f"cannot write {to}: {inputs.reason(error).lower()}") from None
    return to / "solver.prototxt"


def free_folder(folder: Path) -> Path:
    """The first of NAME_copy, NAME_copy_2 and so on next to a run that does not exist."""
    start = folder.resolve().with_name(f"{folder.resolve().name.removesuffix('_run')}_copy")
    numbered = (start.with_name(f"{start.name}_{n}") for n in range(2, 10**6))
    return start if not start.exists() else next(path for path in numbered if not path.exists())
