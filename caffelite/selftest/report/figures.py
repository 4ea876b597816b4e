"""Speed: nets by tools/gpu_figures.py, beside PyTorch where it is installed; and ranks that share a GPU."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import several
from ..bench import Bench
from ..training import BATCH
from .environment import row
from .steps import ROOT, Request

RANKS = 1, 2, 4


def of_net(request: Request, net: str, precision: str) -> Iterator[dict[str, Any]]:
    tool = ROOT / "tools" / "gpu_figures.py"
    if request.gpu is None or not tool.is_file():
        yield row(f"{net}, {precision}", "needs a GPU" if request.gpu is None else "tools/ is not here", "skipped")
        return
    words = [sys.executable, str(tool), net, "-precision", precision]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(request.gpu)} if request.gpu else None
    how: dict[str, Any] = {"text": True, "cwd": tool.parent, "env": environment}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
    assert process.stdout
    for line in process.stdout:
        yield row(**json.loads(line))
    errors = process.communicate()[1].strip().splitlines()
    if process.returncode:
        yield row(f"{net}, {precision}", errors[-1] if errors else f"exit status {process.returncode}", "fail")


def of_ranks(request: Request) -> Iterator[dict[str, Any]]:
    """Iterations of LeNet a second by one rank, and by more that share its batch: the difference is the exchange."""
    bench = Bench(request.gpu)
    for ranks in RANKS:
        if request.gpu is None or (bench.gpus.count() < ranks and not bench.gpus.sharing_permitted()):
            yield row(f"{ranks} ranks", "needs a GPU for each, or NCCL_MULTI_RANK_GPU_ENABLE=1", "skipped")
            continue
        own = bench.gpus.count() >= ranks
        gpus = ",".join(str(rank if own and ranks > 1 else request.gpu) for rank in range(ranks))
        with tempfile.TemporaryDirectory(prefix="caffelite-ranks-") as folder:
            log = several.trained_log(Path(folder) / "run", gpus, BATCH // ranks, iterations=several.TIMED)
        rates = [float(rate) for rate in re.findall(r"\(([\d.e+-]+) iter/s", log)]
        ms = 1e3 / rates[-1]
        yield row(f"{ranks} ranks", f"-gpu {gpus}: {ms:.3g} ms an iteration of {BATCH} images", ms=ms)
