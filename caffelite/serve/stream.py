"""The stream of runs: server-sent events, whose ids are positions in the records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ..errors import CaffeliteError
from ..runs import live
from ..runs.live import Position
from . import runs_of
from .config import ServeConfig
from .page import finite

PERIOD = 0.5  # seconds between looks at the files
SHARED = 0.1  # seconds for which other streams get the same look
MOST_RUNS = 20  # of one stream
SILENCE = 15.0  # seconds after which a comment shows that the stream lives


async def stream(request: Request) -> Response:
    """The stream of the runs that ``folder``, which may come several times, names: one connection for a page.

    It starts at the positions in ``Last-Event-ID``, separated by commas, which a browser sends when it connects again,
    or at those in ``since``, one for each run. The events: ``records`` (an id; folder, reset, first, losses, rows,
    log), ``state`` (folder and what the page of a run shows), and ``gone`` (folder) where a folder is no longer that of
    a run.
    """
    names: list[str | None] = [*request.query_params.getlist("folder")] or [None]
    if len(names) > MOST_RUNS:
        raise CaffeliteError("a stream follows several runs", expected=f"at most {MOST_RUNS}", found=len(names))
    folders = [await run_in_threadpool(runs_of.run_folder, request, name) for name in names]
    last = request.headers.get("last-event-id")
    texts = last.split(",") if last else request.query_params.getlist("since")
    positions = [Position.parse(text) for text in texts[: len(folders)]]
    positions += [None] * (len(folders) - len(positions))
    looks: Looks = request.app.state.streams
    events = _events(dict(zip(folders, positions, strict=True)), looks)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@dataclass(frozen=True)
class Look:
    """What a stream sends of a run: an event with records, empty where there are none, and one with the state.
    position: after the records. more: whether further records wait."""

    position: Position
    records: str
    state: str
    more: bool


class Looks:
    """Looks at the records of runs. Streams that are at the same position at the same time share one look."""

    def __init__(self, config: ServeConfig, runs: runs_of.Runs) -> None:
        self._config, self._runs = config, runs
        self._tasks: dict[tuple[Path, Position | None], asyncio.Task[Look | None]] = {}

    async def __call__(self, folder: Path, position: Position | None) -> Look | None:
        """None where the folder is no longer that of a run."""
        key = folder, position
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(run_in_threadpool(self._look, folder, position))
            task.add_done_callback(lambda _: asyncio.get_running_loop().call_later(SHARED, self._tasks.pop, key, None))
        return await asyncio.shield(task)

    def address(self, folder: Path) -> dict[str, str]:
        """How events name a run."""
        return {"folder": self._config.address(folder)}

    def _look(self, folder: Path, position: Position | None) -> Look | None:
        name = self.address(folder)
        try:
            state = self._runs.state(folder)  # first, so that the end of a run comes after its last records
            update = live.read(folder, position)
        except (CaffeliteError, OSError):
            return None
        new = {field: getattr(update, field) for field in ("reset", "first", "losses", "rows", "log")}
        records = event("records", name | new) if update else ""
        waits = len(update.losses) >= live.MOST_LOSSES
        return Look(update.position, records, event("state", name | state), waits)


async def _events(positions: dict[Path, Position | None], looks: Looks) -> AsyncIterator[str]:
    yield "retry: 1000\n\n"
    states: dict[Path, str] = {}
    silent = 0.0
    clock = asyncio.get_running_loop().time
    gone: set[Path] = set()
    while len(gone) < len(positions):
        silent, waits = silent + PERIOD, False
        for folder in [each for each in positions if each not in gone]:
            look = await looks(folder, positions[folder])
            if look is None:
                gone.add(folder)
                yield event("gone", looks.address(folder))
                continue
            positions[folder] = look.position
            if look.records:
                yield f"id: {','.join(str(each or '') for each in positions.values())}\n{look.records}"
            if look.state != states.get(folder):
                states[folder] = look.state
                yield look.state
            silent, waits = 0.0 if look.records else silent, waits or look.more
        if silent >= SILENCE:
            silent = 0.0
            yield ": alive\n\n"
        if not waits:
            await asyncio.sleep(PERIOD - clock() % PERIOD)  # all streams at the same time


def event(kind: str, content: Any) -> str:
    """A server-sent event without an id."""
    return f"event: {kind}\ndata: {json.dumps(finite(content), allow_nan=False, separators=(',', ':'))}\n\n"


ROUTES = [Route("/run/stream", stream, methods=["GET"])]
