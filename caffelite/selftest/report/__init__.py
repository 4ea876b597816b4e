"""The report of `caffelite device_query -report`: steps in processes of their own, each with a limit.

steps.py lists the steps, runner.py runs them and writes report.json and report.html after every result, worker.py is
the process of a step, changes.py compares two reports.
"""

from .changes import changes
from .document import Document
from .runner import run
from .steps import STEPS, Request, Step

__all__ = ["STEPS", "Document", "Request", "Step", "changes", "run"]
