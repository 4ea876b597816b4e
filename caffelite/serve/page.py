"""Answers: pages from templates, the same values as JSON, errors, and the routes that make them."""

import functools
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import jinja2
import jinja2.filters
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .. import __version__, inputs
from ..errors import CaffeliteError, printable
from ..progress import duration
from ..runs import registry
from ..runs.history import output_of
from ..runs.limits import Outside
from ..stored import finite
from .config import ServeConfig

HERE = Path(__file__).parent
NAVIGATION = tuple((f"/{name}", name) for name in ("start", "runs", "new", "queue", "data", "models", "try"))
MOST_NAMES = 10  # of files that were left out

Fields = dict[str, Any]  # of a form: text, or UploadFile; a name that comes several times has a list


def config_of(request: Request) -> ServeConfig:
    """The configuration of the server that received a request."""
    config: ServeConfig = request.app.state.config
    return config


def wants_json(request: Request) -> bool:
    """Whether the client asks for JSON: by `.json` at the end of the path, or by its Accept header."""
    accepted = request.headers.get("accept", "")
    return request.url.path.endswith(".json") or ("application/json" in accepted and "text/html" not in accepted)


def render(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    *,
    only_html: Mapping[str, Any] | None = None,
    status: int = 200,
) -> Response:
    """A page, or its values as JSON.

    values: plain values; numbers that are not finite become null. only_html: further values for the template. The
    template also has ``path`` (of the page), ``navigation``, ``version``, ``json_url`` and ``host``.
    """
    if wants_json(request):
        return as_json(values, status)
    query = f"?{request.url.query}" if request.url.query else ""
    context = {
        "path": request.url.path,
        "json_url": f"{request.url.path.rstrip('/')}.json{query}",
        "navigation": NAVIGATION,
        "version": __version__,
        **values,
        **(only_html or {}),
    }
    return HTMLResponse(environment().get_template(template).render(context), status)


@functools.cache
def environment() -> jinja2.Environment:
    """The templates. Every value is escaped; a missing value is an error."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.tests["single"] = lambda name: output_of(name)[1] is None
    templates.filters |= {each.__name__: each for each in (embedded, score, duration, size, label)}
    return templates


def label(values: Mapping[str, Any]) -> str:
    """The word for the state of a run or a job, whose values have ``state`` and ``reason``."""
    return registry.label(values["state"], values["reason"])


def score(value: float | None) -> str:
    """A score in four digits; empty for None."""
    return "" if value is None else f"{value:.4g}"


def size(count: float) -> str:
    """Bytes as 640 B, 1.2 KiB or 3.4 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count < 999.5 and unit != "B" else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def as_json(values: Any, status: int = 200) -> Response:
    """Plain values as an answer."""
    return JSONResponse(finite(values), status)


def embedded(value: Any) -> Any:
    """JSON that may stand in a `<script type="application/json">`: no character of it can end the element."""
    text = json.dumps(finite(value), allow_nan=False)
    return jinja2.filters.do_mark_safe(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def routes(path: str, handler: Callable[[Request], Response]) -> list[Route]:
    """The routes of a page: at its address, and as JSON at the address with `.json`. The handler runs in a thread."""
    return [Route(path, handler, methods=["GET"]), Route(f"{path}.json", handler, methods=["GET"])]


def action(path: str, handler: Callable[[Request, Fields], Response | Awaitable[Response]]) -> Route:
    """The route of a form: the handler receives the request and the fields of its form or of its JSON object, and runs
    in a thread unless it is asynchronous. Errors: 400 for a body that cannot be read."""

    async def endpoint(request: Request) -> Response:
        try:
            fields = await _fields(request)
            if inspect.iscoroutinefunction(handler):
                return await handler(request, fields)
            answer = await run_in_threadpool(handler, request, fields)
            return cast(Response, answer)
        finally:
            await request.close()  # and its files

    return Route(path, endpoint, methods=["POST"], name=handler.__name__)


async def _fields(request: Request) -> Fields:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return _json_object(await request.body())
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        if await request.body():
            raise HTTPException(415, "this content cannot be read; expected a form or JSON")
        return {}
    limits = config_of(request).limits
    try:
        form = await request.form(max_files=limits.files, max_fields=limits.fields, max_part_size=limits.form)
    except HTTPException:
        raise
    except Exception as error:  # the parsers raise errors of many kinds
        raise CaffeliteError("the form cannot be read", found=printable(str(error), keep="")[:200]) from None
    values_by_name = {name: form.getlist(name) for name in form}
    return {name: values if len(values) > 1 else values[0] for name, values in values_by_name.items()}


def _json_object(body: bytes) -> Fields:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise CaffeliteError("the body is not JSON", expected="an object") from None
    if not isinstance(content, dict):
        raise CaffeliteError("the body is not a JSON object", found=type(content).__name__)
    return content


def text_field(fields: Fields, name: str, default: str | None = None) -> str:
    """A field that is one text. Errors: it is missing without a default, a file, or comes several times."""
    value = fields.get(name, default)
    if isinstance(value, UploadFile) or not isinstance(value, str):
        raise CaffeliteError(f"the form needs {name}", expected="one text")
    return value


def uploads(fields: Fields, name: str) -> list[UploadFile]:
    """The files of a field."""
    value = fields.get(name, [])
    files = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, UploadFile)]
    return [one for one in files if one.filename]


def number(text: str | None, name: str, least: int, most: int, default: int) -> int:
    """A whole number of a query; the default where it is missing. Errors: it is none, or out of range."""
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and least <= int(text) <= most):
        expected = f"a whole number from {least} to {most}"
        raise CaffeliteError(f"{name} is out of range", expected=expected, found=printable(text, keep="")[:40])
    return int(text)


def address(path: str, /, **query: str) -> str:
    """An address of this server."""
    return f"{path}?{urlencode(query)}" if query else path


def left_out(request: Request) -> dict[str, Any]:
    """What an upload left out, by the query of the page that follows it: count (left_out), the first names (file)."""
    names = [printable(name, keep="")[-80:] for name in request.query_params.getlist("file")[:MOST_NAMES]]
    return {"count": number(request.query_params.get("left_out"), "left_out", 0, 1 << 31, 0), "names": names}


def with_query(request: Request, **changes: str) -> str:
    """The address of a request's page with other values in its query."""
    retained = [(name, value) for name, value in request.query_params.multi_items() if name not in changes]
    return f"{request.url.path}?{urlencode([*retained, *changes.items()])}"


class _OpenFile(FileResponse):
    """A file that was opened when its name was checked: a link that takes its place later is not followed."""

    def __init__(self, path: Path, name: str):
        self._file = inputs.open_file(path)
        status = os.fstat(self._file.fileno())
        opened = f"/dev/fd/{self._file.fileno()}"
        super().__init__(opened, media_type="application/octet-stream", filename=name, stat_result=status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def file(path: Path, name: str = "") -> Response:
    """The content of a file. name: that a browser gives it; default: its own. Errors: no regular file below the
    roots."""
    try:
        return _OpenFile(path, name or path.name)
    except OSError:
        raise missing(f"there is no file {path.name}") from None


def done(request: Request, where: str, values: Mapping[str, Any]) -> Response:
    """The answer to a form that did its work: a browser goes to a page, a program receives JSON."""
    return as_json(values) if wants_json(request) else RedirectResponse(where, 303)


def error(request: Request, status: int, message: str) -> Response:
    """An error as a page or as JSON."""
    if wants_json(request):
        return JSONResponse({"error": message, "status": status}, status)
    return render(request, "error.html", {"status": status, "message": message}, status=status)


def missing(text: str) -> HTTPException:
    """The error for something that does not exist: 404, with a text."""
    return HTTPException(404, printable(text, keep="")[:300])


def on_mistake(request: Request, mistake: Exception) -> Response:
    """The answer to a CaffeliteError."""
    return error(request, 403 if isinstance(mistake, Outside) else 400, str(mistake))


def on_http(request: Request, mistake: Exception) -> Response:
    """The answer to an address that does not exist, a method that is not offered, a body that is too large."""
    assert isinstance(mistake, HTTPException)
    texts = {"Not Found": "there is no such page", "Method Not Allowed": "this page does not take this method"}
    response = error(request, mistake.status_code, texts.get(mistake.detail, mistake.detail))
    for name, value in (mistake.headers or {}).items():
        response.headers[name] = value
    return response


def on_failure(request: Request, failure: Exception) -> Response:
    """The answer where the server itself fails; what happened goes to its standard error alone."""
    return error(request, 500, "the server failed; its terminal shows how")
