"""Checks of several GPUs: they train together, each with a net or with a piece of one, in captured graphs, and end."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..system import command, kill_tree
from . import stacks
from .bench import Bench, Skipped, Wrong
from .training import BATCH, written

ITERATIONS, CLOSE = 20, 2e-2
TIMED = 400  # iterations whose second half is timed
COUNTS = {1: "one", 2: "two", 3: "three", 4: "four"}


def final_loss(log: str) -> float:
    """The last loss in the log of a run. Errors: ``Wrong`` where there is none."""
    losses = re.findall(r"loss = (\S+)$", log, re.M)
    if not losses:
        raise Wrong("no loss in its log: " + " ".join(log.strip().splitlines()[-2:]))
    return float(losses[-1])


def trained_log(folder: Path, gpus: str, batch: int, *options: str, iterations: int = 0, seconds: float = 50) -> str:
    """Starts a run in new processes and returns its log. iterations: ``ITERATIONS`` by default. Errors: ``Wrong`` where
    it fails; where it does not end within so many seconds, with the calls in which its processes stand."""
    folder.mkdir()
    iterations = iterations or ITERATIONS
    path = written(folder, iterations, batch)
    path.write_text(path.read_text() + f" display: {iterations // 2}")
    words = ["train", "-solver", str(path), "-gpu", gpus, "-precision", "fp32", *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command(words), cwd=folder, env={**os.environ, **stacks.VARIABLES}, **pipes)
    try:
        log = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        stacks.abort(process.pid)
        kill_tree(process.pid)
        log = process.communicate()[0]
        raise Wrong(f"-gpu {gpus} does not end within {seconds:g} s; {_place(log)}") from None
    if process.returncode:
        what = f"-gpu {gpus} ends with status {process.returncode}: " + " ".join(log.strip().splitlines()[-2:])
        raise Wrong(what)
    return log


def _place(log: str) -> str:
    """Where a run stands that does not end: its last line, and the calls of its processes."""
    lines = log.partition("Fatal Python error")[0].strip().splitlines()
    return (
        f"its last line: {lines[-1] if lines else 'none'}; its calls: {', '.join(stacks.innermost(log)) or 'unknown'}"
    )


def _gpus(bench: Bench, needed: int) -> str:
    """The GPU under test and others, as -gpu names them; the one GPU again where NCCL permits that."""
    bench.wants_gpu(f"needs {COUNTS[needed]} GPUs")
    count = bench.gpus.count()
    if count < needed and bench.gpus.sharing_permitted():
        return ",".join([str(bench.number)] * needed)
    if count < needed:
        raise Skipped(f"needs {COUNTS[needed]} GPUs, found {COUNTS.get(count, count)}")
    others = [number for number in range(count) if number != bench.number]
    return ",".join(map(str, [bench.number, *others[: needed - 1]]))


def _compared(bench: Bench, needed: int, batch: int, *options: str) -> str:
    """Trains one net on several GPUs, and on one with all samples. batch: of a process. Errors: ``Wrong`` where the
    last losses differ, and where iterations were not captured."""
    gpus = _gpus(bench, needed)
    with tempfile.TemporaryDirectory(prefix="caffelite-test-") as folder:
        together = trained_log(Path(folder) / "together", gpus, batch, *options, seconds=bench.seconds)
        alone = trained_log(Path(folder) / "alone", f"{bench.number}", BATCH, seconds=bench.seconds)
    if "eagerly" in together:
        what = "iterations were not captured: " + next(line for line in together.splitlines() if "eagerly" in line)
        raise Wrong(what)
    a, b = final_loss(together), final_loss(alone)
    if not abs(a - b) <= CLOSE * abs(b):
        raise Wrong(f"GPUs {gpus} end at a loss of {a:.6g}, one GPU with the whole batch at {b:.6g}")
    return f"GPUs {gpus}: loss {a:.4g}, one GPU {b:.4g}"


def all_reduce(bench: Bench) -> str:
    """a captured sum over GPUs, and a clean exit"""
    return _compared(bench, 2, BATCH // 2)


def all_reduce_of_four(bench: Bench) -> str:
    """a captured sum over four GPUs"""
    return _compared(bench, 4, BATCH // 4)


def _divided(split: str, needed: int) -> Callable[[Bench], str]:
    def check(bench: Bench) -> str:
        return _compared(bench, needed, BATCH, "-split", split)

    check.__doc__ = f"a net over GPUs, {split}"
    return check


CHECKS = (
    all_reduce,
    _divided("stages=2", 2),
    _divided("shards=2", 2),
    _divided("stages=3", 3),
    all_reduce_of_four,
    _divided("stages=2,shards=2", 4),
)
