"""The checks of `caffelite device_query -test`: one function per check, each with one row in the table.

A check is ``name(bench) -> str``: its docstring is the row's name, its result is the row's last column. It raises
``Skipped`` where there is nothing to test, ``Wrong`` where numbers differ. ``CHECKS`` lists all checks in order.
"""

from __future__ import annotations

from .bench import Bench, Skipped, Wrong
from .report import CHECKS, Row, run

__all__ = ["CHECKS", "Bench", "Row", "Skipped", "Wrong", "run"]
