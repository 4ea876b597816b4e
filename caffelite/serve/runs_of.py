"""The runs that pages show: the index, samples of processes, and the run that a request names."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ..errors import CaffeliteError
from ..runs import control, folder, history, listing, registry
from ..runs.folder import CONFIG, LOG, LOSSES, METRICS, NET, NOTES, RUN, SOLVER
from ..runs.limits import Outside
from ..runs.listing import INDEX, Index
from ..runs.usage import Sampler
from . import page
from .config import ServeConfig

RECORDS = (SOLVER, NET, CONFIG, RUN, METRICS, LOSSES, LOG, NOTES)
FRESH = 0.7  # seconds for which a state is not derived again


class Runs:
    """What lives as long as the server: the index of runs, and states of runs that streams watch."""

    def __init__(self, config: ServeConfig):
        with config.bounds.confined():
            self.index = Index(config.roots, config.depth, config.roots[0] / INDEX)
        self._config, self._addresses = config, dict[Path, str]()
        self._sampler = Sampler()
        self._states: dict[Path, tuple[float, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def address(self, run: Path) -> str:
        """The address of a folder of the index below the roots. No part of it below a root is a link, so that it stays
        the same."""
        text = self._addresses.get(run)
        if text is None:
            text = self._addresses[run] = self._config.address(run)
        return text

    def state(self, run: Path) -> dict[str, Any]:
        """The state of a run, with what its process uses; derived again after FRESH seconds. Errors: not a run."""
        with self._lock:
            made, state = self._states.get(run, (-FRESH, {}))
            if time.monotonic() - made > FRESH:
                state = self._state(run)
                self._states = {k: v for k, v in self._states.items() if time.monotonic() - v[0] < 60}
                self._states[run] = time.monotonic(), state
            return state

    def changed(self, run: Path) -> None:
        """Makes the next answers read a run again."""
        self._states.pop(run, None)
        self.index.forget()

    def _state(self, run: Path) -> dict[str, Any]:
        status = registry.read(run)
        lives = status.state == registry.RUNNING and status.process and control.holds(status.process, run / folder.LOCK)
        usage = self._sampler(status.process) if lives and status.process else None
        stopping = control.is_stopping(run, status)
        last_rate = None if status.state == registry.RUNNING else history.rate_at_end(run)
        return {
            "state": status.state,
            "label": status.label,
            "stopping": stopping,
            "reason": status.reason,
            "iteration": status.iteration,
            "sessions": status.sessions,
            "last_rate": dict(zip(("iteration", "rate"), last_rate, strict=True)) if last_rate else None,
            "actions": () if stopping else control.offered(status.state, status.reason),
            "usage": asdict(usage) if usage else None,
            "sizes": dict(_sizes(run)),
        }


def _sizes(run: Path) -> Iterator[tuple[str, int]]:
    """(name, bytes) of the records of a run."""
    for name in RECORDS:
        with suppress(OSError):
            yield name, (run / name).stat().st_size


@contextmanager
def service(config: ServeConfig) -> Iterator[Runs]:
    """The Runs of a server, whose index is written at its end."""
    runs = Runs(config)

    def prepare() -> None:
        """What the first page would wait for."""
        page.environment().get_template("runs.html")
        with config.bounds.confined():
            runs.index.read_ahead()

    threading.Thread(target=prepare, name="prepare the list of runs", daemon=True).start()
    try:
        yield runs
    finally:
        with config.bounds.confined():
            runs.index.save()


def of(request: Request) -> Runs:
    """The Runs of the server that received a request."""
    runs: Runs = request.app.state.runs
    return runs


def run_folder(request: Request, text: str | None = None) -> Path:
    """The folder of the run that a request names by ``folder``, or ``text`` names. Errors: Outside; no run."""
    requested = request.query_params.get("folder") if text is None else text
    if requested is None:
        raise CaffeliteError("the address names no run", expected="folder=RUN")
    path = page.config_of(request).resolve(requested)
    if folder.leads_out(path, page.config_of(request).roots):
        raise Outside("a record of this run is a link out of the roots", found=requested[:200])
    if not any((path / name).is_file() for name in (folder.RUN, folder.CONFIG)):
        raise page.missing(f"{requested} is not the folder of a run")
    return path


def row(request: Request, run: listing.RunSummary) -> dict[str, Any]:
    """A run as pages and their JSON have it: the folder is its address below the roots."""
    address = of(request).address(run.status.folder)
    return {**run.to_json(), "folder": address, "name": address if address != "." else run.status.folder.name}
