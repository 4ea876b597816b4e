"""caffelite serve"""

import os
import secrets
from pathlib import Path

import click

from ..errors import CaffeliteError, missing_extra
from . import options
from .output import say

MOST_BODY = 64 << 20  # bytes of a request to one model


@click.command(short_help="Show runs, nets and data as web pages")
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of runs and data; repeatable. Pages read and write below it only. Default: the current folder.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on; another than loopback needs -token.",
)
@options.number_option("--port", help="0: a free port.", kind=click.IntRange(0, 65535), default=5000)
@click.option(
    "--token",
    default="",
    metavar="TEXT",
    envvar="CAFFELITE_TOKEN",
    help="What clients must present: at least 16 characters, or auto for random ones. Also by CAFFELITE_TOKEN, which "
    "other users of the machine cannot see.",
)
@click.option(
    "--allow_host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A further name of this machine in the address that browsers open; repeatable.",
)
@options.file_option("--cert", help="TLS certificate, PEM.")
@options.file_option("--key", help="Private key of -cert, PEM.")
@click.option("--allow_python", is_flag=True, help="Accept nets with Python layers, whose modules run here.")
@click.option(
    "--allow_download",
    is_flag=True,
    help="Let a new run download MNIST or CIFAR-10 where no files are named, and the page Try read pictures by their "
    "addresses, from public servers only. Nothing else is ever downloaded.",
)
@click.option(
    "--only",
    metavar="MODEL",
    help="Serve one model alone, without pages: a deploy net, its folder, or a net that ships with weights.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 64),
    default=16,
    show_default=True,
    help="Pictures that a pass of -only takes, at most.",
)
@options.job_gpus
@options.cpu_slots
@options.depth
def serve(roots, token, only, batch, **options) -> None:
    """Serves web pages: the runs below a folder with live curves, comparisons, new runs, a queue, data, models.

    Only this machine can open them, unless -host names another address; then a token is needed. Runs are processes of
    their own: they continue when the server ends, and runs that were started elsewhere appear as well.

    -only MODEL answers POST /v1/classify, /v1/detect, /v1/segment or /v1/read, by what the net does: pictures as files
    of a form or base64 in JSON; those that wait go through the net together. /health, /metrics (Prometheus), /docs
    (OpenAPI). -gpu 0 is the GPU on which it runs; without it the CPU.

    \b
    Examples:
      caffelite serve
      caffelite serve -root experiments -port 8080
      caffelite serve -host 0.0.0.0 -token auto -cert cert.pem -key key.pem
      caffelite serve -only ssd_shapes -port 8080
    """
    try:
        from ..serve.config import ServeConfig
        from ..serve.server import run
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("caffelite"):
            raise
        raise missing_extra(error.name, "serve", "caffelite serve") from None
    token = secrets.token_urlsafe(24) if token == "auto" else token
    for name in ("cert", "key"):
        if options[name] and not options[name].is_file():
            raise CaffeliteError(f"-{name} {options[name]} is no file")
    if only is not None:
        _serve_model(only, batch, ServeConfig, run, token, options)
        return
    config = ServeConfig(tuple(roots or (Path("."),)), token=token, **options)
    config.bounds.confine()

    def ready(address: str) -> None:
        os.chdir(config.roots[0])  # where jobs run, so that relative names in nets and lists mean the same in pages
        say(f"caffelite serves {address} (Ctrl-C ends it)", err=True)

    run(config, ready)


def _serve_model(only: str, batch: int, make_config, run, token: str, options) -> None:
    """Opens the model first: files below its folder alone are opened afterwards."""
    from ..serve.alone.app import create_app
    from ..serve.alone.predictor import Predictor, deploy_net
    from ..serve.config import Limits

    path = deploy_net(only)
    say(f"opening {path}", err=True)
    os.environ.setdefault("CAFFELITE_AWAKE", "0")  # passes come with pauses in which the clients want the cores
    limits = Limits(form=MOST_BODY, upload=MOST_BODY, files=1000)
    config = make_config((path.resolve().parent,), token=token, limits=limits, **options)
    predictor = Predictor(path, batch, None if config.gpus in ("all", "none") else config.gpus)
    config.bounds.confine()

    def ready(address: str) -> None:
        what = f"POST /v1/{predictor.operation}, /docs, /health, /metrics"
        say(f"caffelite serves {predictor.name} on {address}: {what} (Ctrl-C ends it)", err=True)

    run(config, ready, lambda config: create_app(config, predictor))
