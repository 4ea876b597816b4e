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
from .. import Skipped, Wrong
from ..bench import Bench
from .environment import row
from .steps import Request

SIZES = {"one number": 1, "the gradients of LeNet": 431_080, "the gradients of ResNet-50": 25_557_032}
REPEATS = 5
SECONDS = 60  # until the other ranks have come


def rows(request: Request, ranks: int) -> Iterator[dict[str, Any]]:
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
                yield from (json.loads(line) for line in _lines(output, processes))
        finally:
            for process in processes:
                kill_tree(process.pid) if process.poll() is None else None
                process.wait()


def _lines(output: IO[str], processes: list[subprocess.Popen[bytes]]) -> Iterator[str]:
    """The lines of rank 0 until all have ended. Errors: ``Wrong`` as soon as one fails: others may wait for it."""
    while True:
        statuses = [process.poll() for process in processes]
        yield from output.readlines()  # which rank 0 writes one by one
        failed = next((rank for rank, status in enumerate(statuses) if status), None)
        if failed is not None:
            errors = Path(output.name).with_name(f"errors_{failed}").read_text().strip().splitlines()
            raise Wrong(f"rank {failed}: {errors[-1] if errors else 'ended without a word'}")
        if None not in statuses:
            return
        time.sleep(0.02)


def _start(rank: int, size: int, number: int | None, folder: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "NCCL_MAX_CTAS": os.environ.get("NCCL_MAX_CTAS", "4")}
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
