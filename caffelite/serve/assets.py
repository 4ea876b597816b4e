"""Static files: our own, and Plotly's script from its installed package."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

import plotly
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
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
def _plotly_bytes() -> tuple[bytes, bytes]:
    body = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    return body, gzip.compress(body, 6)


ROUTES = [
    Route("/plotly/{version}/plotly.min.js", _plotly),
    Mount("/static", StaticFiles(directory=HERE / "static")),
]
