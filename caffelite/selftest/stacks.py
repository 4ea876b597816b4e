"""Where processes stand that do not end: the innermost call of each, by Python's fault handler."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

from ..system import descendants

VARIABLES = {"PYTHONFAULTHANDLER": "1"}  # of processes whose calls ``abort`` shall print
SECONDS = 1.0  # in which they print
HEAD, FRAMES = "Current thread", 3
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)', re.M)
OWN = ("subprocess.py", "system.py", "selectors.py", "star.py")  # of processes that only wait for others


def abort(process: int) -> None:
    """Ends a process and all that it started, so that each prints its calls on standard error."""
    for each in reversed(descendants(process)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGABRT)
    time.sleep(SECONDS)


def innermost(text: str) -> list[str]:
    """Of each process that printed its calls: "file.py:12 name", its innermost call and those that made it."""
    calls = []
    for block in text.split(HEAD)[1:]:
        frames = [f"{Path(path).name}:{line} {name}" for path, line, name in FRAME.findall(block)[:FRAMES]]
        if frames and not frames[0].startswith(OWN):
            calls.append(" < ".join(frames))
    return calls
