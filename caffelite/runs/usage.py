"""What the process of a run uses: processor time, memory, memory of GPUs."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
GPU_PERIOD = 5.0  # seconds between calls of nvidia-smi


@dataclass(frozen=True)
class Usage:
    """cpu: processors in use since the last sample, 1.0 each; None at the first. memory: resident bytes. gpu_memory:
    bytes on all GPUs; None without one."""

    cpu: float | None
    memory: int
    threads: int
    gpu_memory: int | None = None


def resident(process: int) -> int:
    """The bytes of memory that a process has; 0 where that is not known."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class Sampler:
    """Samples processes by number; keeps the last sample of each for the share of processor time."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, float]] = {}  # process: (time, processor seconds)
        self._gpu: tuple[float, dict[int, int]] = (-GPU_PERIOD, {})

    def __call__(self, process: int) -> Usage | None:
        """None where there is no such process. Linux only."""
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            now, seconds = time.monotonic(), (int(fields[11]) + int(fields[12])) / TICKS
        except (OSError, IndexError, ValueError):
            self._last.pop(process, None)
            return None
        before = self._last.get(process)
        if before is None or now - before[0] > 0.5:
            self._last[process] = now, seconds
        processors = (seconds - before[1]) / (now - before[0]) if before and now - before[0] > 0.1 else None
        return Usage(processors, resident(process), int(fields[17]), self._gpu_memory().get(process))

    def _gpu_memory(self) -> dict[int, int]:
        if time.monotonic() - self._gpu[0] < GPU_PERIOD or not shutil.which("nvidia-smi"):
            return self._gpu[1]
        words = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        memory: dict[int, int] = {}
        try:
            text = subprocess.run(words, capture_output=True, text=True, timeout=3, check=False).stdout
        except (OSError, subprocess.SubprocessError):
            text = ""
        for line in text.splitlines():
            process, _, used = line.partition(",")
            if process.strip().isdecimal() and used.strip().isdecimal():
                memory[int(process)] = memory.get(int(process), 0) + (int(used) << 20)
        self._gpu = time.monotonic(), memory
        return memory
