"""Runs one damaged file in a process of its own, forked from this warm one, within limits of time and memory."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

SECONDS, MEMORY = 10, 2 << 30
RUNS, SAYS, NO_LINE, OUT_OF_MEMORY, TRACEBACK = range(5)
OUTCOMES = {RUNS: "runs", SAYS: "says", NO_LINE: "no line", OUT_OF_MEMORY: "memory", TRACEBACK: "traceback"}
GOOD = ("runs", "says")


def attempt(use: Callable[[], None]) -> tuple[str, str]:
    """(outcome, what was said) of a call in a child process. Outcomes: those of OUTCOMES, "crash" and "hang"."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            os._exit(_child(use, writing))
        finally:
            os._exit(99)
    os.close(writing)
    handle, said, hung = os.pidfd_open(child), b"", False
    try:
        if not select.select([handle], [], [], SECONDS)[0]:
            hung = True
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.set_blocking(reading, False)
        try:
            said = os.read(reading, 1 << 16)
        except BlockingIOError:  # a process that the child started holds the other end
            pass
    finally:
        os.close(handle)
        os.close(reading)
    text = said.decode(errors="replace")
    if hung:
        return "hang", text
    if os.WIFSIGNALED(status):
        return "crash", f"{signal.Signals(os.WTERMSIG(status)).name} {text}"
    return OUTCOMES.get(os.WEXITSTATUS(status), "crash"), text


def _child(use: Callable[[], None], writing: int) -> int:
    from caffelite.errors import CaffeliteError, Mistakes

    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    said, outcome = "", RUNS
    try:
        use()
    except CaffeliteError as mistake:
        lines = [str(one) for one in (mistake.mistakes if isinstance(mistake, Mistakes) else [mistake])]
        said, outcome = lines[0], SAYS if all(line.isprintable() and line for line in lines) else NO_LINE
    except MemoryError:
        said, outcome = traceback.format_exc(), OUT_OF_MEMORY
    except BaseException:
        said, outcome = traceback.format_exc(), TRACEBACK
    os.write(writing, said.encode(errors="replace")[-60000:])
    sys.stdout = sys.stderr = None
    return outcome
