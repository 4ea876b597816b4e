"""Static files: our own, and Plotly's script from its installed package."""

import base64
import functools
import gzip
import hashlib
from pathlib import Path
from typing import Any

import plotly
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

HERE = Path(__file__).parent
FOREVER = "public, max-age=31536000, immutable"


def plotly_url() -> str:
    """The address of Plotly's script, which changes with its version."""
    return f"/plotly/{plotly.__version__}/plotly.min.js"


def _plotly(request: Request) -> Response:
    """Plotly's script, compressed once."""
    if request.path_params["version"] != plotly.__version__:
        raise HTTPException(404)
    plain, packed = _plotly_bytes()
    headers = {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, media_type="text/javascript", headers={**headers, "Content-Encoding": "gzip"})
    return Response(plain, media_type="text/javascript", headers=headers)


@functools.cache
def plotly_style() -> str:
    """The CSP source of the one style element that Plotly's script makes: the sheet of its map library, which a page
    without maps does not need. Empty where the script has none."""
    text = _plotly_bytes()[0].decode("utf-8", "replace")
    start = text.find(".maplibregl-map{")
    end = text.find(text[start - 1], start)  # of the string, after the quote that begins it
    if start < 1 or end < 0 or text[start - 1] not in "'\"`" or "\\" in text[start:end]:
        return ""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text[start:end].encode()).digest()).decode()}'"


@functools.cache
def _plotly_bytes() -> tuple[bytes, bytes]:
    body = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    return body, gzip.compress(body, 6)


class _Static(StaticFiles):
    """Our own files, which a browser may keep if it asks whether they changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _icon(request: Request) -> Response:
    """The icon at the address where a browser asks for it before it has read a page."""
    return FileResponse(HERE / "static" / "icon.svg", media_type="image/svg+xml", headers={"Cache-Control": "no-cache"})


ROUTES = [
    Route("/favicon.ico", _icon),
    Route("/plotly/{version}/plotly.min.js", _plotly),
    Mount("/static", _Static(directory=HERE / "static")),
]
