"""Actions on runs. A run that is resumed is a job of the queue, so that it waits for a slot and holds it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ...errors import CaffeliteError
from .. import control
from ..bounds.bounds import Bounds
from . import job
from .scheduler import serving
from .submission import submit_run


def act(folder: Path, action: str, root: Path | None = None, bounds: Bounds | None = None) -> str:
    """Does one of ``control.ACTIONS`` and returns what was done, as one sentence. root, bounds: see ``resume``. Errors:
    as for the action; an unknown one."""
    known = {"pause": control.pause, "snapshot": control.request_snapshot, "kill": control.kill}
    if action == "resume":
        return resume(folder, root, bounds)
    if action not in known:
        expected = f"one of {', '.join(control.ACTIONS)}"
        raise CaffeliteError("unknown action", expected=expected, found=action)
    return known[action](folder)


def resume(folder: Path, root: Path | None = None, bounds: Bounds | None = None) -> str:
    """Adds a run that has stopped to the queue of a root, from its newest sound snapshot, and returns what was done, as
    one sentence. root: default, that of the scheduler that serves the folder; without one the run continues at once, in
    a process of its own. bounds: as for ``edit.add``.

    A run that was a job of the queue asks for the same GPUs again. Errors: as for ``control.continuation``; it waits in
    the queue already.
    """
    root = root or serving(folder)
    if root is None:
        return control.resume(folder)
    config, directory = control.continuation(folder)
    before = job.read(folder)
    config = dataclasses.replace(config, record=str(folder.resolve()))
    gpus = before.gpus if before else None
    submit_run(root, config, gpus=gpus, working_directory=directory, bounds=bounds)
    return f"{folder} is queued: it continues from {Path(config.snapshot or '').name} when a slot is free"
