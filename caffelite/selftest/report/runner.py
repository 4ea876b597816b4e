"""Runs the steps of a report, each in a process of its own that ends at its limit."""

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from ...devices.cuda import nccl, prepared
from ...system import bound_to, kill_tree, python
from .. import stacks
from . import mps
from .document import Document
from .steps import SHARED_RANKS, STEPS, Request, Step

LEAST = 3.0  # seconds that are left for a step to be worth its start
IDLE = 0.3  # seconds without a result after which what is not on disk is written
TAIL = 3000  # characters of a failed step's output that the report keeps
PASS, FAIL, SKIPPED, LATE, CRASHED, NO_TIME = "pass", "fail", "skipped", "over its limit", "crashed", "no time left"
BAD = FAIL, LATE, CRASHED
EXCHANGE, EXCHANGE_MPS = f"{SHARED_RANKS}.exchange_2", f"{SHARED_RANKS}.exchange_2_mps"


def run(
    folder: Path,
    request: Request,
    budget: float,
    tell: Callable[[dict[str, Any], dict[str, Any] | None], None] = lambda step, row: None,
    steps: tuple[Step, ...] = STEPS,
) -> dict[str, Any]:
    """The content of the report, which is in ``folder``. budget: seconds for all steps. tell(step, row): called for
    each row, and with None when a step ends."""
    begin, document = time.monotonic(), Document(folder, steps, budget)
    ranks = {"NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN")}
    # Absolute paths: steps work in other folders.
    paths = {prepared.FOLDER: os.path.abspath(os.environ.get(prepared.FOLDER) or folder / "kernels")}
    if library := os.environ.get(nccl.LIBRARY):
        paths[nccl.LIBRARY] = os.path.abspath(library)
    with ExitStack() as stack:
        shared: dict[str, str] = {}  # variables of ranks that share a GPU
        for step in steps:
            left = budget - (time.monotonic() - begin)
            if why := _skipped(step, document, request):
                document.end(step.name, SKIPPED, 0, why)
            elif left < LEAST:
                document.end(step.name, NO_TIME, 0)
            else:
                variables = ranks | shared if step.group in (SHARED_RANKS, "figures", "tests") else {}
                if step.name == EXCHANGE_MPS:
                    service = stack.enter_context(mps.service())
                    variables = ranks | service
                _run_step(document, step, request, min(step.seconds, left), paths | variables, tell)
                if step.name == EXCHANGE_MPS and document.step(step.name)["status"] == PASS:
                    shared = service
            tell(document.step(step.name), None)
    document.finish(time.monotonic() - begin)
    return document.content


def _skipped(step: Step, document: Document, request: Request) -> str:
    """Why a step does not run; "" where it does."""
    if step.group == SHARED_RANKS and request.gpu is None:
        return "needs a GPU"
    names = {each["name"] for each in document.content["steps"]}
    if step.name == EXCHANGE_MPS:
        if EXCHANGE in names and document.step(EXCHANGE)["status"] not in BAD:
            return "only where ranks do not run without it"
        return "" if mps.available() else "nvidia-cuda-mps-control is not installed"
    return ""


def _run_step(
    document: Document, step: Step, request: Request, limit: float, variables: dict[str, str], tell: Callable
) -> None:
    document.begin(step.name, limit)
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output, _process(step, limit, request, variables, output) as (process, reader):
        ended = True
        for row in _rows(reader, begin + limit, document.flush):
            if row is None:
                ended = False
                break
            document.add(step.name, row)
            if "status" in row:
                tell(document.step(step.name), row)
        if ended:
            try:
                process.wait(max(0.1, begin + limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                ended = False
        if not ended:
            stacks.abort(process.pid)
            kill_tree(process.pid)
        status, detail = _outcome(document.step(step.name), process.wait() if ended else None, limit)
        output.seek(0)
        text = output.read().decode(errors="replace")
    calls = "" if ended else "".join(f"; it stood in {each}" for each in stacks.innermost(text)[-1:])
    document.end(step.name, status, time.monotonic() - begin, detail + calls, text[-TAIL:] if status in BAD else "")


def _outcome(step: dict[str, Any], status: int | None, limit: float) -> tuple[str, str]:
    """(status, detail) of a step by the exit status of its process; None: it was ended at its limit."""
    rows = [row["status"] for row in step["rows"]]
    names = [row["name"] for row in step["rows"]][-1:] or step["passed"][-1:]
    passed = f", {len(step['passed'])} passed" if step["passed"] else ""
    last = f"{passed}; the last result: {names[0]}" if names else "; no result yet"
    if status is None:
        return LATE, f"ended after {limit:.0f} s{last}"
    if status:
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return CRASHED, f"its process ended {how}{last}"
    counts = ", ".join(f"{rows.count(kind)} {kind}" for kind in (PASS, FAIL, SKIPPED) if kind in rows)
    return FAIL if FAIL in rows else PASS if PASS in rows else SKIPPED, counts


@contextmanager
def _process(
    step: Step, limit: float, request: Request, variables: dict[str, str], output: IO[bytes]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process of a step, and the descriptor from which its rows are read."""
    reader, writer = os.pipe()
    words = [json.dumps(asdict(replace(step, seconds=limit))), json.dumps(asdict(request)), str(writer)]
    process = subprocess.Popen(
        python("from caffelite.selftest.report.worker import main; main()", *words),
        env={
            **os.environ,
            **variables,
            **stacks.VARIABLES,
            "PYTHONUNBUFFERED": "1",
        },  # what it printed is there when it is killed
        pass_fds=[writer],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=bound_to(os.getpid()),
    )
    os.close(writer)
    try:
        yield process, reader
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait()
        os.close(reader)


def _rows(reader: int, until: float, idle: Callable[[], None]) -> Iterator[dict[str, Any] | None]:
    """The rows that a process writes, until it closes the pipe; None at the end where the time is over before. idle:
    called while none comes."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while True:
            if not selector.select(min(IDLE, max(0.0, until - time.monotonic()))):
                idle()
                if time.monotonic() < until:
                    continue
                yield None
                return
            block = os.read(reader, 1 << 16)
            if not block:
                return
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield json.loads(line)
