"""Runs the checks and collects their results, one row each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from ..errors import CaffeliteError
from . import convolutions, graphs, kernels, products, several, speed, system, training
from .bench import Bench, Skipped, Wrong, warnings

CHECKS: tuple[Callable[[Bench], str], ...] = (
    *system.CHECKS,
    *kernels.CHECKS,
    *products.CHECKS,
    *convolutions.CHECKS,
    *graphs.CHECKS,
    *training.CHECKS,
    *several.CHECKS,
    *speed.CHECKS,
)


@dataclass(frozen=True)
class Row:
    """The result of a check. status: "pass", "fail" or "skipped"; seconds: its duration; detail: figures, or the
    failure."""

    name: str
    status: str
    seconds: float
    detail: str

    def json(self) -> dict[str, object]:
        return asdict(self)


def run(bench: Bench, checks=CHECKS) -> Iterator[Row]:
    """The checks' rows, each as soon as it is known. A check that fails stops none after it."""
    try:
        for check in checks:
            yield _row(bench, check)
    finally:
        bench.close()


def _row(bench: Bench, check: Callable[[Bench], str]) -> Row:
    name, begin = (check.__doc__ or "").strip().rstrip("."), time.perf_counter()
    with warnings() as messages:
        try:
            status, detail = "pass", check(bench)
        except Skipped as why:
            status, detail = "skipped", str(why)
        except Exception as mistake:  # noqa: BLE001  whatever goes wrong is what the row is for
            status, detail = "fail", _said(mistake)
    return Row(name, status, time.perf_counter() - begin, "; ".join(filter(None, [detail, *messages])))


def _said(mistake: Exception) -> str:
    text = " ".join(line.strip() for line in str(mistake).strip().splitlines()[:4])
    known = isinstance(mistake, Wrong | CaffeliteError)
    return text if known else f"{type(mistake).__name__}: {text}"
