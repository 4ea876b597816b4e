"""Copies the solver and the nets of a run to a new folder, to edit and train them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb
from .. import inputs, prototxt, stored
from ..errors import CaffeliteError, Locator
from ..training import epochs
from . import folder as files
from . import resolved


def clone(folder: Path, to: Path, base: Path | None = None) -> Path:
    """Writes the solver of a run, and its nets as files, into a new folder; the path of the new solver.

    Lengths in epochs stay epochs. base: the folder in which the new solver will train, by default the current one;
    where the solver of the run names its snapshots by a relative path, paths below the base are relative to it.
    Snapshots of the new solver go into the new folder. Errors: no run; the folder exists or cannot be made.
    """
    document = prototxt.read_solver(folder / files.SOLVER)
    solver = epochs.restored(document.message, stored.read(folder / files.RUN, {"epoch": {str: Any}}).get("epoch", {}))
    to, base = to.resolve(), (base or Path.cwd()).resolve()
    relative = not Path(solver.snapshot_prefix).is_absolute()
    written: dict[str, str] = {}

    def named(path: Path) -> str:
        return str(path.relative_to(base) if relative and path.is_relative_to(base) else path)

    def move(net: pb.NetParameter, name: str) -> str:
        for layer, message, field, path in resolved.files(net, Locator(str(folder / files.SOLVER))):
            text = getattr(getattr(layer, message), field)
            setattr(getattr(layer, message), field, named(path) + "/" * text.endswith("/"))
        written[name] = prototxt.write(net)
        return named(to / name)

    if solver.HasField("net_param"):
        solver.net = move(solver.net_param, "net.prototxt")
    if solver.HasField("train_net_param"):
        solver.train_net = move(solver.train_net_param, "train_net.prototxt")
    solver.test_net.extend(move(net, f"test_net_{i}.prototxt") for i, net in enumerate(solver.test_net_param))
    for name in ("net_param", "train_net_param", "test_net_param"):
        solver.ClearField(name)
    solver.snapshot_prefix = named(to / "snapshot")
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
