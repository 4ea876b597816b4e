"""The checks of `caffelite device_query -test`: one function per check, each with one row in the table.

A check is ``name(bench) -> str``: its docstring is the row's name, its result is the row's last column. It raises
``Skipped`` where there is nothing to test, ``Wrong`` where numbers differ. ``CHECKS`` lists all checks in order.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from ..errors import CaffeliteError
from . import kernels, layers, several, speed, system, training
from .bench import Bench, Skipped, Wrong, warnings

__all__ = ["CHECKS", "Bench", "Row", "Skipped", "Wrong", "run"]

CHECKS: tuple[Callable[[Bench], str], ...] = (
    *system.CHECKS,
    *layers.CHECKS,
    *kernels.CHECKS,
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
