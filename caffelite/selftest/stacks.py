"""Where processes stand that do not end: the innermost call of each, by Python's fault handler."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

from ..system import descendants

VARIABLES = {"PYTHONFAULTHANDLER": "1"}  # of processes whose calls ``abort`` shall print
SECONDS = 1.0  # in which all of them print, and then end
HEAD, FRAMES = "Current thread", 3
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)', re.M)
OWN = ("subprocess.py", "system.py", "selectors.py", "star.py")  # of processes that only wait for others


def abort(process: int) -> None:
    """Ends a process and all that it started, so that each prints its calls on standard error: one after the other,
    because lines of processes that print at once are mixed."""
    ids = descendants(process)[::-1]
    for each in ids:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGABRT)
        _wait([each], SECONDS / len(ids))
    _wait(ids, SECONDS)


def _wait(processes: list[int], seconds: float) -> None:
    """Until they have ended, or the time is over."""
    until = time.monotonic() + seconds
    while any(map(_runs, processes)) and time.monotonic() < until:
        time.sleep(0.01)


def _runs(process: int) -> bool:
    """Whether a process has not ended; one that its parent has not waited for has, where /proc tells."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def innermost(text: str) -> list[str]:
    """Of each process that printed its calls: "file.py:12 name", its innermost call and those that made it."""
    calls = []
    for block in text.split(HEAD)[1:]:
        frames = [f"{Path(path).name}:{line} {name}" for path, line, name in FRAME.findall(block)[:FRAMES]]
        if frames and not frames[0].startswith(OWN):
            calls.append(" < ".join(frames))
    return calls
