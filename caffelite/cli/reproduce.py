"""caffelite reproduce"""

from __future__ import annotations

import logging
import os
import sys
from importlib import metadata
from pathlib import Path

import click

from ..errors import CaffeliteError
from . import options
from .logs import start

log = logging.getLogger("caffelite")


@click.command(short_help="Repeat a recorded run and compare")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.gpu
@options.python
@options.iterations("Compare so many iterations. Default: all that the record has.")
def reproduce(folder, gpu, iterations) -> None:
    """Runs a recorded run again, and names the first iteration whose loss or test score is not the same to the last
    bit.

    DIR is the run's folder. Nothing is written. The exit status is 1 where something differs.

    \b
    Example:
      caffelite reproduce lenet_run
    """
    start()
    from .. import prototxt
    from ..runs import folder as records
    from ..runs.reproduce import Comparison, changed_data, check
    from ..runs.reproduce import start as start_of
    from ..training import Requests, Solver

    told = records.load(folder)
    session = check(told, folder)
    for line in changed_data(told):
        log.warning("%s", line)
    for package, version in session["versions"].items():
        if package not in ("python", "system") and (now := _version(package)) != version:
            log.warning("%s is %s now, was %s", package, now, version)
    folder = folder.resolve()
    if os.path.isdir(session["folder"]):
        os.chdir(session["folder"])
    document = prototxt.read_solver(folder / records.SOLVER)
    p = document.message
    p.snapshot, p.snapshot_after_train = 0, False
    p.ClearField("snapshot_keep")
    requests = Requests()
    run = Solver(
        p,
        document.locate,
        str(folder / records.SOLVER),
        options.open_device(gpu, p),
        requests=requests,
        resume=start_of(session, folder),
    )
    run.writes = False
    try:
        if session.get("weights") or p.weights and not session.get("snapshot"):
            options.load_weights(run.net, list(session.get("weights") or p.weights))
        comparison = Comparison(folder, requests)
        run.observers.append(comparison)
        run.step(max(0, min(iterations or p.max_iter, comparison.iterations) - run.iteration))
        run.tell_losses()
    finally:
        run.close()
    if not comparison.compared:
        raise CaffeliteError(f"{folder} has no loss or score to compare", expected="the record of an iteration or more")
    if comparison.differs:
        iteration, what, recorded, found = comparison.differs
        click.echo(f"differs first at iteration {iteration}: {what} is {found:.9g}, was {recorded:.9g}")
        sys.exit(1)
    click.echo(f"the same to the last bit: {comparison.compared} losses and scores of {run.iteration} iterations")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
