"""Checks of several GPUs: they train together, each with a net or with a piece of one, in captured graphs, and end."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .bench import Bench, Skipped, Wrong
from .training import BATCH, written

SECONDS, ITERATIONS, CLOSE = 50, 20, 2e-2
COUNTS = {1: "one", 2: "two", 3: "three", 4: "four"}


def final_loss(log: str) -> float:
    """The last loss in the log of a run. Errors: ``Wrong`` where there is none."""
    losses = re.findall(r"loss = (\S+)$", log, re.M)
    if not losses:
        raise Wrong("no loss in its log: " + " ".join(log.strip().splitlines()[-2:]))
    return float(losses[-1])


def _train(folder: Path, gpus: str, batch: int, *options: str) -> str:
    """Starts a run in a new process and returns its log. Errors: ``Wrong`` where it fails or does not end."""
    folder.mkdir()
    path = written(folder, ITERATIONS, batch)
    path.write_text(path.read_text() + f" display: {ITERATIONS}")
    words = ["train", "-solver", str(path), "-gpu", gpus, "-precision", "fp32", *options]
    command = [sys.executable, "-m", "caffelite", *words]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise Wrong(f"-gpu {gpus} does not end within {SECONDS} s") from None
    if done.returncode:
        what = f"-gpu {gpus} ends with status {done.returncode}: " + " ".join(done.stdout.strip().splitlines()[-2:])
        raise Wrong(what)
    return done.stdout


def _gpus(bench: Bench, needed: int) -> str:
    """The GPU under test and others, as -gpu names them."""
    bench.wants_gpu(f"needs {COUNTS[needed]} GPUs")
    count = bench.gpus.count()
    if count < needed:
        raise Skipped(f"needs {COUNTS[needed]} GPUs, found {COUNTS.get(count, count)}")
    others = [number for number in range(count) if number != bench.number]
    return ",".join(map(str, [bench.number, *others[: needed - 1]]))


def _compared(bench: Bench, needed: int, batch: int, *options: str) -> str:
    """Trains one net on several GPUs, and on one with all samples. batch: of a process. Errors: ``Wrong`` where the
    last losses differ, and where iterations were not captured."""
    gpus = _gpus(bench, needed)
    with tempfile.TemporaryDirectory(prefix="caffelite-test-") as folder:
        together = _train(Path(folder) / "together", gpus, batch, *options)
        alone = _train(Path(folder) / "alone", f"{bench.number}", BATCH)
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
    _divided("stages=2,shards=2", 4),
)
