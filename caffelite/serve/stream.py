"""The stream of a run: server-sent events, whose ids are positions in the run's records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
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
from .page import finite

PERIOD = 0.5  # seconds between looks at the files
SILENCE = 15.0  # seconds after which a comment shows that the stream lives


async def stream(request: Request) -> Response:
    """The stream of the run that ``folder`` names.

    It starts at the position in ``Last-Event-ID``, which a browser sends when it connects again, or in ``since``. The
    events: ``records`` (an id; reset, first, losses, rows, log), ``state``, and ``gone`` where the folder is no longer
    that of a run.
    """
    folder = await run_in_threadpool(runs_of.run_folder, request)
    text = request.headers.get("last-event-id") or request.query_params.get("since", "")
    events = _events(folder, Position.parse(text), runs_of.of(request))
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _events(folder: Path, position: Position | None, runs: runs_of.Runs) -> AsyncIterator[str]:
    yield "retry: 1000\n\n"
    state: dict[str, Any] = {}
    silent = 0.0
    while True:
        try:
            update, now = await run_in_threadpool(_look, folder, position, runs)
        except (CaffeliteError, OSError):
            yield "event: gone\ndata: {}\n\n"
            return
        position = update.position
        if update:
            yield event("records", _record(update), str(position))
        if now != state:
            state = now
            yield event("state", state)
        silent = 0.0 if update else silent + PERIOD
        if silent >= SILENCE:
            silent = 0.0
            yield ": alive\n\n"
        if not (update and len(update.losses) >= live.MOST_LOSSES):
            await asyncio.sleep(PERIOD)


def _look(folder: Path, position: Position | None, runs: runs_of.Runs) -> tuple[live.Update, dict[str, Any]]:
    state = runs.state(folder)  # before the records, so that the end of a run comes after its last records
    return live.read(folder, position), state


def _record(update: live.Update) -> dict[str, Any]:
    return {
        "reset": update.reset,
        "first": update.first,
        "losses": update.losses,
        "rows": update.rows,
        "log": update.log,
    }


def event(kind: str, content: Any, position: str = "") -> str:
    """A server-sent event."""
    text = json.dumps(finite(content), allow_nan=False, separators=(",", ":"))
    return (f"id: {position}\n" if position else "") + f"event: {kind}\ndata: {text}\n\n"


ROUTES = [Route("/run/stream", stream, methods=["GET"])]
