"""Runs the jobs of a queue on a cluster: each becomes a job of SLURM, which submitit submits.

SLURM decides when and where a job runs, and what becomes of it; slurm_jobs.py reads that. A training that is requeued,
because its time is over, a more important job needs its place or its node failed, continues from its newest snapshot.
"""

import dataclasses
import datetime
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import stored
from ...errors import CaffeliteError, missing_extra, printable
from ...system import HOME, command, environment
from .. import folder as files, limits, registry, state
from ..limits import Bounds
from ..lock import FileLock
from . import edit, job, process, slurm_jobs
from .job import Job, begin_accepted, texts_file
from .local import THREADS
from .scheduler import Engine

log = logging.getLogger("caffelite")

FOLDER = "slurm"  # in the user's own folder: what submitit writes, since whoever may write there runs code on nodes
DAY = 86400.0
NOTICE = 120  # seconds before the end of its time at which a job is told
REQUEUES = 10_000  # of one job
SLOT = "SLURM"
UNREACHABLE = "contact slurm controller"
TERMINATED = (128 + signal.SIGTERM, 128 + signal.SIGUSR1)


@dataclass(frozen=True)
class SlurmOptions:
    """What a job requests. partition: "": the default one. seconds: after which it ends, or is requeued. gpus: of each
    node, one process for each. more: other options of sbatch, KEY=VALUE. Errors: they cannot be read."""

    partition: str = ""
    seconds: float = DAY
    gpus: int = 0
    nodes: int = 1
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for text in self.more:
            if not re.fullmatch(r"[a-z][a-z-]*(=[^\x00-\x1f]*)?", text):
                what = "an option for SLURM cannot be read"
                raise CaffeliteError(what, expected="KEY=VALUE, as in account=vision", found=text)

    @property
    def tasks(self) -> int:
        """Processes on a node."""
        return max(1, self.gpus)

    def parameters(self, id: str, priority: int) -> dict[str, Any]:
        """The parameters of submitit for a job."""
        more: dict[str, Any] = {"requeue": True} | ({"nice": -priority} if priority else {})
        for text in self.more:
            key, equals, value = text.partition("=")
            more[key] = value if equals else True
        several = self.nodes * self.tasks > 1 and "SLURM_MPI_TYPE" not in os.environ
        return {
            "job_name": f"{slurm_jobs.PREFIX}{id}",
            "partition": self.partition or None,
            "time": math.ceil(self.seconds / 60),
            "nodes": self.nodes,
            "ntasks_per_node": self.tasks,
            "gpus_per_node": self.gpus or None,
            "signal_delay_s": NOTICE,
            "stderr_to_stdout": True,
            "wckey": None,
            "additional_parameters": more,
            "srun_args": ["--mpi=pmi2"] if several else [],
        }


class Slurm(Engine):
    """Each job is a job of SLURM. Errors: submitit or SLURM is not installed; the user's folder cannot be written."""

    def __init__(self, options: SlurmOptions):
        self._options = options
        self._folder = state.made(FOLDER)
        try:
            from submitit import SlurmExecutor
        except ModuleNotFoundError:
            raise missing_extra("submitit", "slurm", "-engine slurm") from None
        slurm_jobs.command("sbatch", "--version")
        try:
            self._executor = SlurmExecutor(self._folder, max_num_timeout=REQUEUES)
        except RuntimeError as error:
            raise CaffeliteError(f"SLURM is not installed here: {error}") from None

    def look(self, jobs: Sequence[Job]) -> None:
        """Records how jobs ended, before SLURM forgets them."""
        for each in jobs:
            if not each.slurm or each.state in job.PENDING:
                continue
            with suppress(OSError):
                reason = each.reason
                if each.state == job.FAILED and not each.ended:
                    reason = process.last_line(self._folder / f"{each.slurm}_0_log.out") or reason
                if not each.ended:
                    job.record_end(each.folder, each.id, each.state, reason, each.status)
                slurm_jobs.forget(each.folder)
                if each.state == job.FINISHED and each.slurm.isdigit():
                    for path in self._folder.glob(f"{each.slurm}_*"):
                        path.unlink()
                edit.settle(each)
                log.info("Job %s: %s%s", each.id, each.state, f": {reason}" if reason else "")

    def reserve(self, job: Job) -> str:
        return SLOT

    def start(self, job: Job, held: FileLock, slot: str, bounds: Bounds) -> bool:
        """A scheduler that was killed here leaves the user's record of the job, and so the next one submits it anew."""
        from submitit.core.utils import FailedJobError

        self._cancel_earlier(job)
        slurm_jobs.record(job.folder, job.id)
        task = Task(
            str(job.folder.resolve()),
            job.id,
            self._words(job),
            job.is_run,
            job.working_directory,
            str(job.log.resolve()),
            job.submitted,
            limits.terms_environment(bounds, texts_file(job.id)),
        )
        try:
            self._executor.update_parameters(**self._options.parameters(job.id, job.priority))
            job.log.unlink(missing_ok=True)
            number = self._executor.submit(task).job_id
        except (FailedJobError, subprocess.CalledProcessError, ValueError) as error:
            slurm_jobs.forget(job.folder)
            lines = printable(str(error)).strip().splitlines()
            if UNREACHABLE in str(error):
                log.warning("Job %s waits: %s", job.id, lines[-1])
                return False
            raise CaffeliteError(f"SLURM refuses it: {lines[-1]}") from None
        begin_accepted(job.id)
        slurm_jobs.record(job.folder, job.id, number)
        log.info("Job %s is number %s of SLURM", job.id, number)
        return True

    def _cancel_earlier(self, job: Job) -> None:
        """Cancels what a scheduler submitted that was killed before it had recorded it."""
        earlier = slurm_jobs.submitted(job.folder, job.id)
        seen = slurm_jobs.seen(job.id, earlier.time) if earlier else None
        if seen and seen.state not in slurm_jobs.ENDS:
            slurm_jobs.cancel(str(seen.number))

    def _words(self, job: Job) -> list[str]:
        words = [*job.command]
        if self._options.gpus and job.is_run and not any(word.startswith("--gpu=") for word in words):
            words.append("--gpu=all")
        return words


@dataclass
class Task:
    """What a node runs, in each process of a job: the command of the job, in a process of its own.

    submitit calls the object, and ``checkpoint`` on the signal that comes before the end of the job's time. submitted:
    ISO 8601. terms: the variable with the bounds and the texts of the job.
    """

    folder: str
    id: str
    words: list[str]
    is_run: bool
    working_directory: str
    log: str
    submitted: str
    terms: dict[str, str]
    child: int = 0

    def __call__(self) -> None:
        from submitit.slurm.slurm import SlurmJobEnvironment

        notice = signal.Signals[f"SIG{SlurmJobEnvironment.USR_SIG}"]  # SLURM sends it to the child, too
        variables = environment() | self.terms | {name: str(_threads()) for name in THREADS if name not in os.environ}
        first = not int(os.environ.get("SLURM_PROCID", "0"))
        if first:
            node = os.environ.get("SLURM_JOB_NODELIST", "")
            content = {"folder": self.folder, "id": self.id, "lock": None, "run": self.is_run, "slot": f"node {node}"}
            variables[process.VARIABLE] = json.dumps(content)
        with files.open_new(Path(self.log), append=True) as output:
            child = subprocess.Popen(
                command(self._continued() if self.is_run else self.words, self.working_directory),
                cwd=HOME,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                close_fds=False,  # the processes of a job find each other through one that srun opened
                preexec_fn=lambda: signal.signal(notice, signal.SIG_IGN),
            )
        self.child = child.pid
        _await(child.pid)
        status = child.wait()
        self.child = 0
        if first and status in TERMINATED and self.is_run and not self._was_paused():
            _requeue()
        sys.exit(status if status >= 0 else 128 - status)

    def checkpoint(self) -> Any:
        """Ends a training after its iteration, with a snapshot, for another start; None for other commands."""
        from submitit.helpers import DelayedSubmission

        if not self.is_run:
            return None
        if self.child:
            with suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGTERM)
            _await(self.child)
        return DelayedSubmission(dataclasses.replace(self, child=0))

    def _continued(self) -> list[str]:
        """The command; once a session of the run has begun, it continues from the newest snapshot."""
        if int(os.environ.get("SLURM_RESTART_COUNT", "0")):
            with suppress(CaffeliteError):
                if _seconds(registry.read(self.folder).started) >= _seconds(self.submitted):
                    words = [word for word in self.words if not word.startswith(("--snapshot=", "--resume="))]
                    return [*words, "--resume=auto"]
        return self.words

    def _was_paused(self) -> bool:
        reason = stored.read(Path(self.folder) / files.PROCESS, {"reason": str}).get("reason", "")
        return reason == registry.PAUSED


def _threads() -> int:
    """The cores of each process of a job on a node."""
    cores = int(os.environ.get("SLURM_CPUS_ON_NODE", "1"))
    return int(
        os.environ.get("SLURM_CPUS_PER_TASK", max(1, cores // int(os.environ.get("SLURM_NTASKS_PER_NODE", "1"))))
    )


def _await(child: int) -> None:
    """Waits until a child has ended, and leaves it to ``Popen``; a signal handler may call it in the midst of that."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def _requeue() -> None:
    """Requeues this job where SLURM only told its processes to end; where it ends the job, it knows what follows."""
    number = os.environ["SLURM_JOB_ID"]
    with suppress(CaffeliteError):
        if slurm_jobs.command("squeue", "-h", "-j", number, "-o", "%T").strip() == "RUNNING":
            slurm_jobs.command("scontrol", "requeue", number)
            time.sleep(slurm_jobs.PATIENCE)  # SLURM ends this process


def _seconds(moment: str) -> float:
    """Seconds since 1970 of a moment as records have it; 0 where it cannot be read."""
    try:
        return datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return 0.0
