"""Clients that send too slowly lose their connections; others are served."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from caffelite.serve import security, server
from caffelite.serve.config import ServeConfig
from caffelite.serve.security import Security
from caffelite.serve.server import HttpProtocol

HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE = b"x" * (1 << 24)


async def answer(scope, receive, send):
    """Answers GET with a large body, another request with the length of its body."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    content = LARGE if scope["method"] == "GET" else str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content))]})
    await send({"type": "http.response.body", "body": content})


@contextmanager
def serving(tmp_path):
    """The port of a server with that application behind the product's protocol and checks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        checks = [Middleware(Security, config=ServeConfig((tmp_path,)))]
        app = Starlette(routes=[Mount("/", answer)], middleware=checks)
        quiet = {"lifespan": "off", "log_config": None, "log_level": "error"}
        options = uvicorn.Config(app, http=HttpProtocol, ws="none", timeout_keep_alive=1, **quiet)
        server = uvicorn.Server(options)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def connect(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "HEADERS", 0.3)
    monkeypatch.setattr(security, "BODY", 0.3)
    with serving(tmp_path) as port:
        yield lambda: socket.create_connection(("127.0.0.1", port), timeout=30)


def received(connection) -> bytes:
    """Everything until the server closes the connection; a reset counts as that."""
    actual = b""
    try:
        while part := connection.recv(1 << 16):
            actual += part
    except ConnectionResetError:
        pass
    return actual


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_headers_that_do_not_end_lose_the_connection(connect, start):
    with connect() as connection:
        connection.sendall(start)
        assert received(connection) == b""


def test_headers_of_a_second_request_have_the_same_limit(connect):
    with connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 2\r\n\r\nab")
        answered = b""
        while not answered.endswith(b"\r\n\r\n2"):
            assert (more := connection.recv(1 << 16)), answered
            answered += more
        connection.sendall(b"POST / ")
        assert received(connection) == b""


def test_headers_that_come_at_once_have_the_limit_of_keep_alive(connect):
    with connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 2\r\n\r\nab" + b"POST / ")
        assert received(connection).endswith(b"\r\n\r\n2")


def test_many_slow_connections_end_and_another_is_served(connect):
    slow = [connect() for _ in range(100)]
    for each in slow:
        each.sendall(b"GET /")
    with connect() as connection:
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nab")
        assert received(connection).endswith(b"\r\n\r\n2")
    for each in slow:
        assert received(each) == b""
        each.close()


def test_a_body_that_does_not_end_is_given_up(connect):
    with connect() as connection:
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: 100\r\n\r\nab")
        assert received(connection).startswith(b"HTTP/1.1 408")
