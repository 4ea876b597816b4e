"""Sums over ranks by NCCL alone, without a net: values, and milliseconds for each size."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...system import kill_tree, python
from .. import Skipped, Wrong, stacks
from ..bench import Bench
from .environment import row
from .steps import Request

SIZES = {"one number": 1, "the gradients of LeNet": 431_080, "the gradients of ResNet-50": 25_557_032}
REPEATS = 5
SECONDS = 60  # until the other ranks have come


def rows(request: Request, ranks: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each size. Errors: ``Wrong`` where a rank fails, or where ranks do not end within so many seconds."""
    bench = Bench(request.gpu)
    if bench.gpus.count() < ranks and not bench.gpus.sharing_permitted():
        remedy = "set NCCL_MULTI_RANK_GPU_ENABLE=1, with NCCL 2.30 or later"
        yield row(f"sums of {ranks} ranks", f"needs {ranks} GPUs; {remedy}", "skipped")
        return
    numbers = [rank if bench.gpus.count() >= ranks else request.gpu for rank in range(ranks)]
    with tempfile.TemporaryDirectory(prefix="caffelite-ranks-") as folder:
        processes = [_start(rank, ranks, number, folder) for rank, number in enumerate(numbers)]
        try:
            with open(Path(folder) / "output_0") as output:
                lines = _lines(output, processes, time.monotonic() + seconds)
                yield from (json.loads(line) for line in lines if line.startswith("{"))
        finally:
            for process in processes:
                kill_tree(process.pid) if process.poll() is None else None
                process.wait()


def _lines(output: IO[str], processes: list[subprocess.Popen[bytes]], until: float) -> Iterator[str]:
    """The lines of rank 0 until all have ended. Errors: ``Wrong`` as soon as one fails: others may wait for it."""
    folder = Path(output.name).parent
    while True:
        statuses = [process.poll() for process in processes]
        yield from output.readlines()  # which rank 0 writes one by one
        failed = next((rank for rank, status in enumerate(statuses) if status), None)
        if failed is not None:
            raise Wrong(f"rank {failed}: {_last_words(folder, failed)}")
        if None not in statuses:
            return
        if time.monotonic() > until:
            for process in processes:
                stacks.abort(process.pid)
            calls = (stacks.innermost((folder / f"errors_{rank}").read_text()) for rank in range(len(processes)))
            places = "; ".join(f"rank {rank}: {', '.join(each) or 'ended'}" for rank, each in enumerate(calls))
            raise Wrong(f"they do not end; {places}")
        time.sleep(0.02)


def _last_words(folder: Path, rank: int) -> str:
    """The last line of a rank's errors, and what NCCL warned of."""
    errors = (folder / f"errors_{rank}").read_text().strip().splitlines()[-1:]
    warnings = [line for line in (folder / f"output_{rank}").read_text().splitlines() if "NCCL WARN" in line][-1:]
    return "; ".join(errors + warnings) or "ended without a word"


def _start(rank: int, size: int, number: int | None, folder: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **stacks.VARIABLES, "NCCL_MAX_CTAS": os.environ.get("NCCL_MAX_CTAS", "4")}
    words = python(
        "from caffelite.selftest.report.exchange import main; main()", *map(str, (rank, size, number, folder))
    )
    with open(Path(folder) / f"output_{rank}", "w") as output, open(Path(folder) / f"errors_{rank}", "w") as errors:
        return subprocess.Popen(words, env=environment, stdout=output, stderr=errors)


def main() -> None:
    """RANK SIZE GPU FOLDER: a rank, which prints a row for each size if it is the first."""
    rank, size, number = map(int, sys.argv[1:4])
    from ...devices import cuda

    dev = Bench(number).device("fp32")
    transport = cuda.all_reduce(dev, rank, size, lambda value: [_shared(Path(sys.argv[4]) / "id", value)])
    for name, count in SIZES.items():
        milliseconds = _summed(dev, transport, rank, size, count)
        if not rank:
            detail = f"{4 * count / 1e6:.3g} MB in {milliseconds:.3g} ms"
            print(json.dumps(row(name, detail, seconds=milliseconds / 1e3, ms=milliseconds)), flush=True)
    transport.close()


def _summed(dev: Any, transport: Any, rank: int, size: int, count: int) -> float:
    """Milliseconds of the fastest sum of so many numbers. Errors: ``Wrong`` where a sum is wrong."""
    array, times = dev.empty((count,), np.float32), []
    for _ in range(REPEATS):
        dev.fill(array, float(rank + 1))
        begin = dev.record_event()
        transport.post(array)
        transport.finish()
        times.append(dev.elapsed_ms(begin, dev.record_event()))
        expected, actual = size * (size + 1) / 2, dev.download(array)
        if not (actual == expected).all():
            raise Wrong(f"a sum of {count} numbers is {actual[actual != expected][0]:g}, expected {expected:g}")
    return min(times)


def _shared(path: Path, value: bytes | None) -> bytes:
    """What rank 0 brings, on all ranks."""
    if value is not None:
        draft = path.with_suffix(".draft")
        draft.write_bytes(value)
        draft.replace(path)
        return value
    until = time.monotonic() + SECONDS
    while not path.exists():
        if time.monotonic() > until:
            raise Skipped(f"rank 0 did not come within {SECONDS} s")
        time.sleep(0.01)
    return path.read_bytes()
