"""The files of a run folder: their names, and how `run.json` is read and written.

solver.prototxt     the complete solver with its nets; training it again repeats the run
net.prototxt        the train net
run.json            the configuration of the run (see config.py); each session: id, command, working directory,
                    versions, outcome; seed and data
lock                locked (flock) by the process that trains, for as long as it lives
outcome.json        how the run failed where run.json could not say so: before its first session, or by another
                    process of its job
heartbeat.json      the iteration and the time, written every two seconds while the run lives
log.txt             the lines that the run logged, all sessions
metrics.csv         displayed and tested scores
losses.f32          the loss of every iteration, float32, little-endian, from iteration 0 on
best.json           the iteration, score and loss of the test of the best weights
events/             for TensorBoard, where they were requested
notes.json          tags and a note of the user
pause.json          the process that was requested to stop
resume.txt          what the process that resumed the run printed

Of a run that waits in a queue:
config.json         its configuration, until it starts

Of a run that is a job of a queue (see queue/job.py), and of any other job:
job.json            the command, its place in the queue, what it needs
job.lock            locked by the process of the job from its start to its end; names it and its devices
process.json        how the process began and ended
progress.json       how much is done
output.txt          what the process printed
slurm.json          that SLURM has the job, until its end is recorded
"""

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from .. import inputs, roots, stored
from ..errors import CaffeliteError

SOLVER, NET, CONFIG, RUN = "solver.prototxt", "net.prototxt", "config.json", "run.json"
LOCK, HEARTBEAT, LOG, OUTCOME = "lock", "heartbeat.json", "log.txt", "outcome.json"
METRICS, LOSSES, EVENTS = "metrics.csv", "losses.f32", "events"
NOTES, PAUSE, RESUMED, BEST = "notes.json", "pause.json", "resume.txt", "best.json"
JOB, JOB_LOCK, PROCESS, PROGRESS, OUTPUT = "job.json", "job.lock", "process.json", "progress.json", "output.txt"
SLURM = "slurm.json"
JOB_FILES = (JOB, JOB_LOCK, PROCESS, PROGRESS, OUTPUT, SLURM)
RECORDS = (
    *(SOLVER, NET, CONFIG, RUN, LOCK, HEARTBEAT, LOG, OUTCOME, METRICS, LOSSES, NOTES, PAUSE, RESUMED, BEST),
    *JOB_FILES,
)
JOB_FOLDER = "CAFFELITE_JOB_FOLDER"  # environment variable: the folder of the job that this process belongs to


def leads_out(folder: Path, tops: Iterable[Path]) -> bool:
    """Whether a record of a run, or of a job, is a link to a file that is below none of the folders ``tops``."""
    links = [folder / name for name in RECORDS if os.path.islink(folder / name)]
    return any(not any(Path(os.path.realpath(link)).is_relative_to(top) for top in tops) for link in links)


def holds_records(folder: Path) -> bool:
    """Whether a folder is a run's: it has run.json, or nothing but records, as where a run ended while it started."""
    if not folder.is_dir():
        return False
    if (folder / RUN).exists():
        return True
    return all(name in (*RECORDS, EVENTS) or name.startswith(".") for name in os.listdir(folder))


def load(folder: Path) -> dict[str, Any]:
    """The content of a folder's run.json, with at least one session. Errors: there is none, or it is not JSON."""
    content = stored.read(folder / RUN, stored.ANY)
    if not content:
        expected = f"a folder with {RUN}, as caffelite train leaves it"
        raise CaffeliteError(f"{folder} is not the folder of a run", expected=expected)
    if not content.get("sessions") or not stored.fits(content["sessions"], [{}]):
        raise CaffeliteError(f"{folder / RUN} lists no session", expected="a file that caffelite train wrote")
    return content


def configuration(folder: Path) -> dict[str, Any]:
    """The configuration of a run, {} where none is recorded. A run that waits, and one of an early version, has a file
    of its own for it."""
    return stored.read(folder / RUN, {"config": stored.ANY}).get("config") or stored.read(folder / CONFIG, stored.ANY)


def sessions(folder: Path) -> list[dict[str, Any]]:
    """The sessions of a run, in order; none where run.json lists none."""
    return stored.read(folder / RUN, {"sessions": [{}]}).get("sessions", [])


def now() -> str:
    """The time as records have it, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def free(path: Path, suffixes: Iterable[int]) -> Path:
    """The first path with a number after its name that nothing has."""
    named = (path.with_name(f"{path.name}_{suffix}") for suffix in suffixes)
    return next(each for each in named if not os.path.lexists(each))


def tail(path: Path, most: int) -> str:
    """The text in the last ``most`` bytes of a file; empty where there is none."""
    with suppress(OSError), inputs.open_file(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most))
        return (file.read(most) or b"").decode(errors="replace")
    return ""


def write_atomically(path: Path, content: str | bytes, durable: bool = False) -> None:
    """Replaces a file, so that a reader finds the old content or the new one. durable: also after a loss of power.
    Errors: OSError."""
    with roots.folder(path.parent) as folder:
        draft = folder / f".{path.name}.draft"
        with suppress(FileNotFoundError):  # what a crash left, or a link that leads elsewhere
            draft.unlink()
        try:
            with open_new(draft) as file:
                file.write(content.encode("utf-8") if isinstance(content, str) else content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(draft, folder / path.name)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def open_new(path: Path, append: bool = False) -> BinaryIO:
    """Opens a file to write; a link in its place is not followed. append: keep what it holds. Errors: OSError."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC) | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.fdopen(roots.open(path, flags), "wb")


def write_json(path: Path, content: dict) -> None:
    """Replaces a JSON file atomically. Errors: OSError."""
    write_atomically(path, json.dumps(content, indent=2) + "\n")
