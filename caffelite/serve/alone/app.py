"""The application of one model: POST /v1/OPERATION, /health, /metrics, /docs."""

import base64
import binascii
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
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

    def answer(request: Request, fields: page.Fields) -> Response:
        predictor: Predictor = request.app.state.predictor
        if operation != predictor.operation:
            raise HTTPException(404, f"this model answers POST /v1/{predictor.operation}")
        started = time.perf_counter()
        top, threshold = _number(fields, "top", 1, 1000), _number(fields, "threshold", 0, 1)
        results = _results(request, _contents(fields), int(top or 0), threshold)
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


def _results(request: Request, contents: list[bytes], top: int, threshold: float | None) -> list[dict[str, Any]]:
    """The record of each picture, or its error."""
    predictor: Predictor = request.app.state.predictor
    results: list[dict[str, Any]] = [{} for _ in contents]
    pictures = {}
    for i, content in enumerate(contents):
        try:
            pictures[i] = predictor.decode(content)
        except CaffeliteError as error:
            results[i] = {"error": str(error)}
    try:
        futures = request.app.state.batches.submit([*pictures.values()])
    except Busy:
        raise HTTPException(503, "too many pictures wait", {"Retry-After": "1"}) from None
    end = time.monotonic() + LONGEST
    for (i, picture), future in zip(pictures.items(), futures, strict=True):
        try:
            answer = future.result(max(0.0, end - time.monotonic()))
            results[i] = predictor.record(picture, answer, top, threshold)
        except CaffeliteError as error:
            results[i] = {"error": str(error)}
        except TimeoutError:
            raise HTTPException(503, "the answer takes too long", {"Retry-After": "10"}) from None
    return results


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
