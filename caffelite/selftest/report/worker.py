"""The process of a step: its results go to a pipe, one line of JSON each."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from .. import CHECKS, Bench, Row, run as run_checks, several
from . import cases, environment, exchange, figures, tests
from .steps import SHARED_RANKS, Request, Step

Result = dict[str, Any]


def main() -> None:
    """STEP REQUEST DESCRIPTOR: both as JSON, and the descriptor that results are written to."""
    step, request = Step(**json.loads(sys.argv[1])), Request(**json.loads(sys.argv[2]))
    with os.fdopen(int(sys.argv[3]), "w") as pipe:
        for result in results(step, request):
            pipe.write(json.dumps(result) + "\n")
            pipe.flush()


def results(step: Step, request: Request) -> Iterator[Result]:
    if step.name.startswith(f"{SHARED_RANKS}.exchange"):
        yield from guarded(
            f"sums of {step.argument} ranks", lambda: exchange.rows(request, int(step.argument), 0.7 * step.seconds)
        )
    elif step.name == "figures.ranks":
        yield from guarded("ranks", lambda: figures.of_ranks(request))
    else:
        yield from GROUPS[step.group](step, request)


def guarded(name: str, rows: Callable[[], Iterator[Result]]) -> Iterator[Result]:
    """Rows; an error is a row too."""
    begin = time.perf_counter()
    try:
        yield from rows()
    except Exception as mistake:  # noqa: BLE001  whatever goes wrong is what the row is for
        text = " ".join(str(mistake).split()) or type(mistake).__name__
        yield Row(name, "fail", time.perf_counter() - begin, text).json()


def _environment(step: Step, request: Request) -> Iterator[Result]:
    yield from guarded("device", lambda: environment.rows(request))


def _kernels(step: Step, request: Request) -> Iterator[Result]:
    yield from guarded("kernels", lambda: environment.kernels(request))


def _selftest(step: Step, request: Request) -> Iterator[Result]:
    checks = [check for check in CHECKS if check not in several.CHECKS]
    yield from (row.json() for row in run_checks(Bench(request.gpu), checks))


def _ranks(step: Step, request: Request) -> Iterator[Result]:
    checks = [check for check in several.CHECKS if (check.__doc__ or "").strip().rstrip(".") == step.argument]
    bench = Bench(request.gpu, seconds=0.45 * step.seconds)  # which train twice
    yield from (row.json() for row in run_checks(bench, checks))


def _cases(step: Step, request: Request) -> Iterator[Result]:
    yield from guarded("cases", lambda: cases.rows(request, step.seconds))


def _tests(step: Step, request: Request) -> Iterator[Result]:
    yield from guarded("tests", lambda: tests.rows(step.argument, request, 0.85 * step.seconds))


def _figures(step: Step, request: Request) -> Iterator[Result]:
    net, precision = step.argument.split()
    yield from guarded(f"{net}, {precision}", lambda: figures.of_net(request, net, precision))


GROUPS: dict[str, Callable[[Step, Request], Iterator[Result]]] = {
    "environment": _environment,
    "kernels": _kernels,
    "selftest": _selftest,
    SHARED_RANKS: _ranks,
    "cases": _cases,
    "tests": _tests,
    "figures": _figures,
}
