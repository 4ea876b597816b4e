"""Starts the server of an application."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from urllib.parse import quote

import uvicorn

from ..errors import CaffeliteError
from .app import create_app
from .config import ServeConfig, is_loopback
from .slow_clients import CONNECTIONS, HttpProtocol

log = logging.getLogger("caffelite")
GRACE = 1  # seconds that open streams have when the server ends


def run(config: ServeConfig, ready: Callable[[str], None]) -> None:
    """Serves until a signal ends it. ready: receives the address to open, with the token if there is one.

    Errors: CaffeliteError where the address cannot be used or a certificate cannot be read.
    """
    listener = _listener(config)
    port = listener.getsockname()[1]
    host = f"[{config.host}]" if ":" in config.host else config.host
    address = f"{config.scheme}://{host}:{port}/" + (f"?token={quote(config.token)}" if config.token else "")
    options = uvicorn.Config(
        create_app(config),
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
    uvicorn.Server(options).run(sockets=[listener])


def _listener(config: ServeConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
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
