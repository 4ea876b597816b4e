"""The check of several GPUs: they train together, with all-reduce in captured graphs, and end."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .bench import Bench, Skipped, Wrong
from .training import BATCH, written

SECONDS, ITERATIONS, CLOSE = 50, 20, 2e-2


def final_loss(log: str) -> float:
    """The last loss in the log of a run. Errors: ``Wrong`` where there is none."""
    found = re.findall(r"loss = (\S+)$", log, re.M)
    if not found:
        raise Wrong("no loss in its log: " + " ".join(log.strip().splitlines()[-2:]))
    return float(found[-1])


def _train(folder: Path, gpus: str, batch: int) -> str:
    """Starts a run in a new process and returns its log. Errors: ``Wrong`` where it fails or does not end."""
    folder.mkdir()
    path = written(folder, ITERATIONS, batch)
    path.write_text(path.read_text() + f" display: {ITERATIONS}")
    command = [sys.executable, "-m", "caffelite", "train", "-solver", str(path), "-gpu", gpus, "-precision", "fp32"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise Wrong(f"-gpu {gpus} does not end within {SECONDS} s") from None
    if done.returncode:
        raise Wrong(
            f"-gpu {gpus} ends with status {done.returncode}: " + " ".join(done.stdout.strip().splitlines()[-2:])
        )
    return done.stdout


def all_reduce(bench: Bench) -> str:
    """a captured sum over GPUs, and a clean exit"""
    bench.wants_gpu("needs two GPUs")
    count = bench.gpus.count()
    if count < 2:
        raise Skipped("needs two GPUs, found one")
    other = next(n for n in range(count) if n != bench.number)
    with tempfile.TemporaryDirectory(prefix="caffelite-test-") as folder:
        two = _train(Path(folder) / "two", f"{bench.number},{other}", BATCH // 2)
        one = _train(Path(folder) / "one", f"{bench.number}", BATCH)
    if "eagerly" in two:
        raise Wrong("the sums were not captured: " + next(line for line in two.splitlines() if "eagerly" in line))
    a, b = final_loss(two), final_loss(one)
    if not abs(a - b) <= CLOSE * abs(b):
        raise Wrong(
            f"GPUs {bench.number} and {other} end at a loss of {a:.6g}, one GPU with the whole batch at {b:.6g}"
        )
    return f"GPUs {bench.number} and {other}: loss {a:.4g}, one GPU {b:.4g}"


CHECKS = (all_reduce,)
