"""The page of all runs."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...runs import listing
from .. import page, paths
from ..config import ServeConfig


def runs(request: Request) -> Response:
    """The runs below the roots."""
    config = page.config_of(request)
    found = listing.ordered(listing.find(config.roots, config.depth), "started", reverse=True)
    return page.render(request, "runs.html", {"runs": [_row(config, run) for run in found]})


def _row(config: ServeConfig, run: listing.RunSummary) -> dict[str, Any]:
    return {**run.to_json(), "folder": paths.address(config, run.status.folder)}


ROUTES = page.routes("/runs", runs)
