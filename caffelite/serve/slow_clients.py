"""Ends connections of clients that are too slow, so that they do not use up the server's connections."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = 10.0  # seconds from a connection, or the first byte of a further request, to the end of its headers
WRITING = 60.0  # seconds for which a client may take nothing of an answer
CONNECTIONS = 500  # at the same time; more are answered with 503


class HttpProtocol(H11Protocol):
    """HTTP/1.1 with limits of time. Those of the body are in `security`."""

    _headers: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._headers = self.loop.call_later(HEADERS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # the headers are complete
            self._end_headers()
        elif self._headers is None:
            self._headers = self.loop.call_later(HEADERS, self.transport.abort)

    def on_response_complete(self) -> None:
        self._end_headers()  # the limit of keep-alive holds now
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        _cancel(self._writing)
        self._writing = self.loop.call_later(WRITING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._writing)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_headers()
        super().connection_lost(exc)
        _cancel(self._writing)

    def _end_headers(self) -> None:
        _cancel(self._headers)
        self._headers = None


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer:
        timer.cancel()
