"""What a report says first: the GPU and its libraries; and how long its kernels take to compile."""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from ...devices.cuda import prepared
from ...system import usable_cores
from .. import Row
from ..bench import Bench
from ..system import versions
from .steps import ROOT, Request

CLOCKS = "clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,temperature.gpu,power.draw,driver_version"
NO_COMPILER = 2  # the tool's status where there is none
VARIABLES = r"(CAFFELITE|NCCL|CUDA|CUPY|CUDNN)_\w+"


def row(name: str, detail: str, status: str = "pass", seconds: float = 0.0, **figures: float) -> dict[str, Any]:
    return {**Row(name, status, seconds, detail).json(), "figures": figures}


def rows(request: Request) -> Iterator[dict[str, Any]]:
    bench = Bench(request.gpu)
    if request.gpu is None:
        yield {"device": "CPU"}
    else:
        begin = time.perf_counter()
        properties = bench.gpus.describe(request.gpu)
        yield {"device": f"GPU {request.gpu}: {properties['Name']}"}
        described = ", ".join(f"{name}: {value}" for name, value in properties.items())
        yield row("device", described, seconds=time.perf_counter() - begin)
        yield row(
            "NCCL as loaded", properties.get("NCCL", "cannot be loaded"), "pass" if "NCCL" in properties else "fail"
        )
        yield row("several ranks on one GPU", "permitted" if bench.gpus.sharing_permitted() else "not permitted")
    yield row("versions", versions(bench))
    yield row("clocks", _clocks(request.gpu))
    yield row("machine", f"{platform.platform()}, {len(usable_cores())} cores, Python {sys.version.split()[0]}")
    if request.changed:
        yield row("changed since the older report", ", ".join(request.changed))
    chosen = sorted(name for name in os.environ if re.fullmatch(VARIABLES, name))
    yield row("variables", ", ".join(f"{name}={os.environ[name]}" for name in chosen) or "none")


def _clocks(gpu: int | None) -> str:
    if gpu is None or not shutil.which("nvidia-smi"):
        return "no nvidia-smi"
    words = ["nvidia-smi", f"--query-gpu={CLOCKS}", "--format=csv,noheader", "-i", str(gpu)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=15)
    values = done.stdout.strip().split(", ")
    return ", ".join(f"{name} {value}" for name, value in zip(CLOCKS.split(","), values, strict=False)) or done.stderr


def kernels(request: Request) -> Iterator[dict[str, Any]]:
    """Compiles all kernels with tools/compile_kernels.py, where there is a checkout, for the steps that follow."""
    tool = ROOT / "tools" / "compile_kernels.py"
    if request.gpu is None or not tool.is_file():
        yield row("kernels", "a CPU compiles none" if request.gpu is None else "tools/ is not here", "skipped")
        return
    capability = Bench(request.gpu).gpus.describe(request.gpu)
    architecture = f"{capability['Major revision number']}{capability['Minor revision number']}"
    begin = time.perf_counter()
    words = [sys.executable, str(tool), os.environ[prepared.FOLDER], "-arch", architecture]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tool.parent)
    text = " ".join((done.stdout if not done.returncode else done.stderr).strip().splitlines()[-1:])
    seconds = time.perf_counter() - begin
    status = {0: "pass", NO_COMPILER: "skipped"}.get(done.returncode, "fail")
    yield row("kernels", text, status, seconds, compilation_s=seconds)
