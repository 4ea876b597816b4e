"""The application of one model: POST /v1/OPERATION, /health, /metrics, /docs."""

import asyncio
import base64
import binascii
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import CaffeliteError
from .. import assets, page, security
from ..config import ServeConfig
from .metrics import SECONDS, SIZES, Metrics
from .openapi import WHAT, description
from .predictor import Batches, Busy, Predictor

MOST_PICTURES = 256  # of a request
LONGEST = 60.0  # seconds for which a request waits
LARGE = 1 << 16  # bytes of pictures

T = TypeVar("T")


def create_app(config: ServeConfig, predictor: Predictor) -> Starlette:
    """The application that answers with a model."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with Batches(predictor, lambda count: metrics.observe("caffelite_batch_size", count, SIZES)) as batches:
            app.state.batches = batches
            yield

    app = Starlette(
        routes=[
            Route("/", lambda request: RedirectResponse("/docs", 303)),
            *(page.action(f"/v1/{name}", _answering(name)) for name in WHAT),
            Route("/metrics", _metrics),
            Route("/openapi.json", lambda request: JSONResponse(description(predictor))),
            Route("/docs", _docs),
            *assets.ROUTES,
        ],
        lifespan=lifespan,
        middleware=[
            Middleware(_Counted, metrics=metrics, predictor=predictor),
            Middleware(security.Security, config=config),
        ],
        exception_handlers={
            CaffeliteError: lambda request, error: _error(400, str(error)),
            HTTPException: _on_http,
            Exception: lambda request, error: _error(500, "the server failed; its terminal shows how"),
        },
    )
    app.state.config, app.state.predictor, app.state.metrics = config, predictor, metrics
    return app


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": text, "status": status}, status, headers=headers)


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {"Not Found": "there is no such address; /docs lists them", "Method Not Allowed": "send this by POST"}
    return _error(error.status_code, texts.get(error.detail, error.detail), dict(error.headers or {}))


class _Counted:
    """Answers /health, also without a token, and counts all other requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics, predictor: Predictor):
        self._app, self._metrics, self._predictor = app, metrics, predictor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] == "/health":
            health = {"status": "ok", "model": self._predictor.name, "operation": self._predictor.operation}
            await JSONResponse(health)(scope, receive, send)
            return
        started, path = time.perf_counter(), scope["path"]
        known = path.removeprefix("/v1/") in WHAT or path in ("/metrics", "/docs", "/openapi.json")

        async def counted(message: Any) -> None:
            if message["type"] == "http.response.start":
                label = path if known else "other"
                self._metrics.count("caffelite_requests_total", path=label, status=message["status"])
                if path.startswith("/v1/"):
                    self._metrics.observe("caffelite_request_seconds", time.perf_counter() - started, SECONDS)
            await send(message)

        await self._app(scope, receive, counted)


def _metrics(request: Request) -> Response:
    gauges = {"caffelite_waiting_pictures": request.app.state.batches.waiting}
    return PlainTextResponse(request.app.state.metrics.text(gauges), media_type="text/plain; version=0.0.4")


def _docs(request: Request) -> Response:
    api = description(request.app.state.predictor)
    return HTMLResponse(page.environment().get_template("api.html").render(api=api))


def _answering(operation: str) -> Any:
    """The handler of /v1/``operation``."""

    async def answer(request: Request, fields: page.Fields) -> Response:
        predictor: Predictor = request.app.state.predictor
        if operation != predictor.operation:
            raise HTTPException(404, f"this model answers POST /v1/{predictor.operation}")
        started = time.perf_counter()
        top, threshold = _number(fields, "top", 1, 1000), _number(fields, "threshold", 0, 1)
        results = await _results(request, fields, int(top or 0), threshold)
        failed = sum("error" in result for result in results)
        for label, count in (("ok", len(results) - failed), ("error", failed)):
            if count:
                request.app.state.metrics.count("caffelite_pictures_total", count, result=label)
        content = {"model": predictor.name, "results": results, "seconds": time.perf_counter() - started}
        if failed == len(results):
            return page.as_json(content | {"error": results[0]["error"], "status": 400}, 400)
        return page.as_json(content)

    answer.__name__ = operation
    return answer


async def _results(request: Request, fields: page.Fields, top: int, threshold: float | None) -> list[dict[str, Any]]:
    """The record of each picture, or its error."""
    predictor: Predictor = request.app.state.predictor
    large = _length(fields) > LARGE
    contents = await _in_thread_if(large, _contents, fields)
    large = large or predictor.are_large(contents)
    decoded = await _in_thread_if(large, _decoded_pictures, predictor, contents)
    pictures = [picture for picture in decoded if not isinstance(picture, CaffeliteError)]
    try:
        async with asyncio.timeout(LONGEST):
            answers = iter(await request.app.state.batches.answers(pictures))
    except Busy:
        raise HTTPException(503, "too many pictures wait", {"Retry-After": "1"}) from None
    except TimeoutError:
        raise HTTPException(503, "the answer takes too long", {"Retry-After": "10"}) from None
    paired = [(p, p if isinstance(p, CaffeliteError) else next(answers)) for p in decoded]
    return await _in_thread_if(predictor.draws, _records, predictor, paired, top, threshold)


async def _in_thread_if(large: bool, function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function, of ``large`` work in another thread: meanwhile this one serves other requests."""
    return await run_in_threadpool(function, *arguments) if large else function(*arguments)


def _decoded_pictures(predictor: Predictor, contents: list[bytes]) -> list[np.ndarray | CaffeliteError]:
    """The pixels of each picture, or its error."""
    pictures: list[np.ndarray | CaffeliteError] = []
    for content in contents:
        try:
            pictures.append(predictor.decode(content))
        except CaffeliteError as error:
            pictures.append(error)
    return pictures


def _records(predictor: Predictor, answers: list[tuple[Any, Any]], top: int, threshold: float | None) -> list[dict]:
    """The record of each (picture, answer), or the error in place of an answer."""
    records = []
    for picture, answer in answers:
        if isinstance(answer, CaffeliteError):
            records.append({"error": str(answer)})
        elif isinstance(answer, Exception):
            raise answer
        else:
            records.append(predictor.record(picture, answer, top, threshold))
    return records


def _length(fields: page.Fields) -> int:
    """The bytes of all files and texts."""
    values = [each for value in fields.values() for each in (value if isinstance(value, list) else [value])]
    files = sum(one.size or 0 for one in values if isinstance(one, UploadFile))
    return files + sum(len(one) for one in values if isinstance(one, str))


def _contents(fields: page.Fields) -> list[bytes]:
    """The pictures of a form, files named image, or of JSON, base64 in image or images. Errors: none, too many, no
    base64."""
    uploads = page.uploads(fields, "image") or page.uploads(fields, "images")
    if uploads:
        contents = [upload.file.read() for upload in uploads]
    else:
        value = fields.get("images", fields.get("image", []))
        texts = value if isinstance(value, list) else [value]
        contents = [_decoded(text) for text in texts]
    if not 1 <= len(contents) <= MOST_PICTURES:
        expected = f'1 to {MOST_PICTURES}: files named image in a form, or {{"images": [base64, …]}}'
        raise CaffeliteError("the request has no pictures" if not contents else "too many pictures", expected=expected)
    return contents


def _decoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise CaffeliteError("a picture is no text", expected="base64", found=type(text).__name__)
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise CaffeliteError("a picture is not base64", found=ascii(text[:40])) from None


def _number(fields: page.Fields, name: str, least: float, most: float) -> float | None:
    value = fields.get(name)
    if value in (None, ""):
        return None
    try:
        number = float(value if isinstance(value, int | float | str) else "")
    except ValueError:
        number = float("nan")
    if isinstance(value, bool) or not least <= number <= most:
        raise CaffeliteError(f"{name} is out of range", expected=f"{least:g} to {most:g}", found=ascii(value)[:40])
    return number
