"""The process of a job: how it is started with its lock, and how it records its beginning and its end.

The scheduler takes the lock of a job and the process inherits it, so that the job counts as running before its process
has begun, and whoever ends first leaves no gap.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ... import progress, system
from ...errors import CaffeliteError
from .. import folder as files, limits, registry
from ..limits import Bounds
from ..lock import FileLock
from .job import FAILED, FINISHED, STOPPED, Job, begin_accepted, record_end, texts_file

VARIABLE = "CAFFELITE_JOB"  # {"folder", "id", "lock": descriptor or None, "run": bool, "slot"}
ENDED = (registry.FINISHED, registry.STOPPED, registry.OUT_OF_TIME)
TAIL = 1 << 12  # bytes of the output in which the reason of a failure is looked for


def start(
    job: Job, held: FileLock, words: list[str], slot: str, environment: dict[str, str], bounds: Bounds
) -> subprocess.Popen[bytes]:
    """Starts the process of a job in a session of its own. held: job.lock, which the process inherits and the caller
    releases. words: the command line, which changes to the job's directory. bounds: what the job may do. Errors:
    OSError."""
    os.stat(os.path.join(job.working_directory, ""))
    descriptor = held.fileno()
    content = {"folder": str(job.folder.resolve()), "id": job.id, "lock": descriptor, "run": job.is_run, "slot": slot}
    begin_accepted(job.id)
    allowed = limits.terms_environment(bounds, texts_file(job.id))
    with files.open_new(job.log) as output:
        process = subprocess.Popen(
            words,
            cwd=system.HOME,
            env=environment | allowed | {VARIABLE: json.dumps(content)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[descriptor],
            start_new_session=True,
        )
    held.describe({"process": process.pid, "id": job.id, "slot": slot, "started": files.now()})
    return process


@contextmanager
def session() -> Iterator[None]:
    """Within it this process is the job that its environment names, if any: its bars report to the job folder, SIGTERM
    ends it in order, and its end is recorded."""
    text = os.environ.pop(VARIABLE, "")  # processes that this one starts are not the job
    if not text:
        yield
        return
    identity: dict[str, Any] = json.loads(text)
    folder, id = Path(identity["folder"]), identity["id"]
    held = FileLock(folder / files.JOB_LOCK, descriptor=identity["lock"])
    if identity["lock"] is None:  # no scheduler of this machine took it
        held.describe({"id": id, "slot": identity["slot"], "started": files.now()})
    os.environ[files.JOB_FOLDER] = str(folder)
    if not identity["run"]:
        progress.report_to(folder / files.PROGRESS)
    signal.signal(signal.SIGTERM, _stop)
    with suppress(OSError):
        content = {"id": id, "process": os.getpid(), "slot": identity["slot"], "started": files.now()}
        files.write_json(folder / files.PROCESS, content)
    status, state, reason = 70, "", ""
    try:
        with suppress(CaffeliteError):  # the command reports it
            for change in limits.changed_texts():
                print(f"caffelite: {change}", file=sys.stderr)
        yield
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1 if error.code else 0
        raise
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        with suppress(OSError):
            state, reason = _outcome(folder, status, identity["run"])
            record_end(folder, id, state, reason, status, may_return=identity["lock"] is None)
        held.release()


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    sys.exit(128 + number)


def _outcome(folder: Path, status: int, is_run: bool) -> tuple[str, str]:
    """(state, reason) of a job by the exit status of its process."""
    stopped, state, reason = status in (128 + signal.SIGTERM, 128 + signal.SIGUSR1), FINISHED, ""
    if stopped:
        state, reason = STOPPED, f"stopped by a signal: {signal.Signals(status - 128).name}"
    elif status:
        output = folder / (files.OUTPUT if is_run else files.LOG)
        state, reason = FAILED, last_line(output) or f"exit status {status}"
    if is_run:
        with suppress(CaffeliteError):
            status_of_run = registry.read(folder)
            if status_of_run.state == registry.QUEUED:  # no session has begun
                kind = registry.CANCELLED if stopped else registry.FAILED
                registry.record_before_start(folder, registry.Outcome(kind, reason))
            elif state != FAILED and status_of_run.state in ENDED:
                return status_of_run.state, status_of_run.reason
    return state, reason


def last_line(path: Path) -> str:
    """The last line of a log that is not empty, without the name of the program."""
    lines = [line for line in files.tail(path, TAIL).splitlines() if line.strip()]
    return lines[-1].removeprefix("caffelite: ") if lines else ""
