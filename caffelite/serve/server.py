"""Starts the server of an application, which ends connections of clients that are too slow."""

import asyncio
import errno
import gc
import logging
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import CaffeliteError
from .app import create_app
from .config import ServeConfig, is_loopback

log = logging.getLogger("caffelite")
GRACE = 1  # seconds that open streams have when the server ends


def run(
    config: ServeConfig, ready: Callable[[str], None], make: Callable[[ServeConfig], Starlette] = create_app
) -> None:
    """Serves until a signal ends it. ready: receives the address to open, with the token if there is one. make: makes
    the application.

    Errors: CaffeliteError where the address cannot be used or a certificate cannot be read.
    """
    listener = _listener(config)
    port = listener.getsockname()[1]
    host = f"[{config.host}]" if ":" in config.host else config.host
    address = f"{config.scheme}://{host}:{port}/" + (f"?token={quote(config.token)}" if config.token else "")
    options = uvicorn.Config(
        make(config),
        log_config=None,
        log_level="warning",
        access_log=False,  # an address may hold the token
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=config.cert,
        ssl_keyfile=config.key,
        http=HttpProtocol,
        ws="none",
        limit_concurrency=CONNECTIONS,
        proxy_headers=False,  # a client would choose the address by which wrong tokens are counted
        h11_max_incomplete_event_size=1 << 16,
    )
    try:
        options.load()
    except OSError as error:  # ssl.SSLError is one
        listener.close()
        raise CaffeliteError(f"-cert and -key cannot be used: {error.strerror or error}") from None
    if not is_loopback(config.host) and not config.cert:
        log.warning(
            "http on %s is not encrypted: whoever can read the network reads the pages and the token. Use TLS: -cert "
            "cert.pem -key key.pem",
            config.host,
        )
    ready(address)
    gc.collect()
    gc.freeze()  # what has been made so far lives as long as the server
    uvicorn.Server(options).run(sockets=[listener])


def _listener(config: ServeConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio does not set TCP_NODELAY
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host.strip("[]"), config.port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        remedy = "choose another -port" if error.errno == errno.EADDRINUSE else None
        text = (error.strerror or str(error)).lower()
        raise CaffeliteError(f"cannot listen on {config.host}:{config.port}: {text}", remedy=remedy) from None
    return listener


HEADERS = 10.0  # seconds from a connection, or the first byte of a further request, to the end of its headers
WRITING = 60.0  # seconds for which a client may take nothing of an answer
CONNECTIONS = 500  # at the same time; more are answered with 503


LEAST = 1 << 16  # bytes that are sent at once, whatever may follow


class _Joined:
    """A transport that sends what is written in one turn of the loop at once: the headers of an answer and its body
    take one call of the system, and wake the client once."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop):
        self._transport, self._loop, self._waiting, self._length = transport, loop, list[bytes](), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._length += len(data)
        if self._length >= LEAST:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        data, self._waiting, self._length = self._waiting, [], 0
        if data:
            self._transport.write(b"".join(data))


class HttpProtocol(H11Protocol):
    """HTTP/1.1 with limits of time. Those of the body are in `security`."""

    _headers: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]
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
