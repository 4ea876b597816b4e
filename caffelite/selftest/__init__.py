"""What `caffelite device_query -test` runs: a check a function, each with one line in the table.

A check is ``name(bench) -> str``: its docstring is its row's name, what it returns is the row's last column. It raises
``Skipped`` where there is nothing to test, ``Wrong`` where numbers differ. ``CHECKS`` lists all of them in their order.
"""

from __future__ import annotations

from .bench import Bench, Skipped, Wrong
from .report import CHECKS, Row, run

__all__ = ["CHECKS", "Bench", "Row", "Skipped", "Wrong", "run"]
