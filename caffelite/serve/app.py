"""The application: routes of all pages, static files, security, error pages."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ..errors import CaffeliteError
from . import assets, page, runs_of, security, stream, work
from .config import ServeConfig
from .inference.client import InferenceLimits, Models, decoding
from .pages import compare, data, model, new, queue, run, run_layers, runs, start, sweep, try_many, try_model
from .samples import OpenSets

# One line a page: a module with ROUTES.
PAGES = (
    runs,
    run,
    run_layers,
    compare,
    sweep,
    start,
    new,
    queue,
    data,
    model,
    try_model,
    try_many,
)

# What lives as long as the server: name in `app.state`, and what makes the context manager of it.
SERVICES: dict[str, Callable[[ServeConfig], AbstractContextManager[Any]]] = {
    "runs": runs_of.service,
    "schedulers": work.schedulers_running,
    "data_sets": lambda config: OpenSets(),
    "models": lambda config: Models(InferenceLimits(pixels=config.limits.pixels), config.allow_python, config.roots),
    "decoder": lambda config: decoding(InferenceLimits(pixels=config.limits.pixels)),
}


def create_app(config: ServeConfig) -> Starlette:
    """The application for a configuration."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with ExitStack() as stack:
            for name, make in SERVICES.items():
                setattr(app.state, name, stack.enter_context(make(config)))
            app.state.streams = stream.Looks(config, app.state.runs)
            yield

    every: list[BaseRoute] = [Route("/", _start), *assets.ROUTES]
    for module in PAGES:
        every += module.ROUTES
    app = Starlette(
        routes=every,
        lifespan=lifespan,
        middleware=[
            Middleware(security.Security, config=config),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),
        ],
        exception_handlers={
            CaffeliteError: page.on_mistake,
            HTTPException: page.on_http,
            Exception: page.on_failure,
        },
    )
    app.state.config = config
    return app


def _start(request: Request) -> Response:
    """The runs; where there are none yet, the page that leads to one."""
    return RedirectResponse("/runs" if request.app.state.runs.index.runs() else "/start", 303)
