"""Runs a function in a forked process, within limits of processor time, of waiting and of memory."""

import faulthandler
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

# of a processor, which other work on the machine does not use up; all in all, of what waits for what never comes
SECONDS, WAIT = 10, 200
MEMORY = 2 << 30
RUNS, REPORTS, NOT_A_LINE, OUT_OF_MEMORY, TRACEBACK = range(5)
OUTCOMES = {RUNS: "runs", REPORTS: "reports", NOT_A_LINE: "not a line", OUT_OF_MEMORY: "memory", TRACEBACK: "traceback"}
GOOD = ("runs", "reports")


def attempt(use: Callable[[], None]) -> tuple[str, str]:
    """(outcome, message) of a call in a child process. Outcomes: those of OUTCOMES, "crash" and "hang"."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            os._exit(_child(use, writing))
        finally:
            os._exit(99)
    os.close(writing)
    handle, message, hung = os.pidfd_open(child), b"", False
    try:
        if not select.select([handle], [], [], WAIT)[0]:
            hung = True
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.set_blocking(reading, False)
        try:
            message = os.read(reading, 1 << 16)
        except BlockingIOError:  # a process that the child started holds the other end
            pass
    finally:
        os.close(handle)
        os.close(reading)
    text = message.decode(errors="replace")
    if hung or os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
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
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    message, outcome = "", RUNS
    try:
        use()
    except CaffeliteError as mistake:
        lines = [str(one) for one in (mistake.mistakes if isinstance(mistake, Mistakes) else [mistake])]
        message, outcome = lines[0], REPORTS if all(line.isprintable() and line for line in lines) else NOT_A_LINE
    except MemoryError:
        message, outcome = traceback.format_exc(), OUT_OF_MEMORY
    except BaseException:
        message, outcome = traceback.format_exc(), TRACEBACK
    os.write(writing, message.encode(errors="replace")[-60000:])
    sys.stdout = sys.stderr = None
    return outcome
