"""Runs what a GPU that caffelite has not met is to tell, in this order and within --seconds: the report of
device_query, nets with the choices that are made here and without (CAFFELITE_TUNE=0), and the kernels of LeNet.

What each command prints goes to FOLDER/NAME.txt too; the choices and the report are in FOLDER. A command that fails, or
takes all the time that is left, is named at the end, and the exit status is 1.

Example:
  python tools/gpu_session.py gpu_session
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from caffelite.devices.cuda import why_none

ROOT = Path(__file__).resolve().parent.parent
REPORT_SHARE = 0.6  # of the time
FIGURES = ("--sides", "caffelite", "--no-layers")
SINGLE = ("tools/bench_gpu.py", "--nets", "lenet,alexnet", "--precision", "tf32", *FIGURES)
HALF = ("tools/bench_gpu.py", "--nets", "resnet50", "--precision", "fp16", *FIGURES)
UNTUNED = {"CAFFELITE_TUNE": "0"}


def commands(folder: Path, seconds: float) -> dict[str, tuple[tuple[str, ...], dict[str, str]]]:
    """By name: what Python runs, and variables of its own."""
    report = "-m", "caffelite", "device_query", "-report", str(folder / "report"), "-seconds"
    return {
        "report": ((*report, str(int(REPORT_SHARE * seconds))), {}),
        "chosen": (SINGLE, {}),
        "chosen_fp16": (HALF, {}),
        "first_plans": (SINGLE, UNTUNED),
        "first_plans_fp16": (HALF, UNTUNED),
        "kernels": (("tools/profile_gpu.py", "lenet"), {}),
    }


def run(words: tuple[str, ...], variables: dict[str, str], file: Path, until: float) -> str:
    """Runs a command, and says how it failed; "" if it did not."""
    left = until - time.monotonic()
    if left <= 0:
        return "no time was left"
    with file.open("w") as output:
        how = {"stdout": output, "stderr": subprocess.STDOUT, "env": os.environ | variables, "cwd": ROOT}
        try:
            status = subprocess.run([sys.executable, *words], timeout=left, **how).returncode
        except subprocess.TimeoutExpired:
            return f"ended after {left:.0f} s"
    print(file.read_text(), flush=True)
    return f"exit status {status}" if status else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the output of each command, the report and the choices")
    parser.add_argument("--seconds", type=float, default=840, help="for all commands (default %(default)s)")
    args = parser.parse_args()
    if reason := why_none():
        print(f"no session: {reason}", file=sys.stderr)
        return 2
    folder, until, failures = args.folder.resolve(), time.monotonic() + args.seconds, {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, (words, variables) in commands(folder, args.seconds).items():
        print(f"{name}: {' '.join((*(f'{key}={value}' for key, value in variables.items()), *words))}", flush=True)
        variables = variables | {"CAFFELITE_CACHE": str(folder / "cache")}
        if failure := run(words, variables, folder / f"{name}.txt", until):
            failures[name] = failure
    print("\n".join(f"{name}: {failure}" for name, failure in failures.items()) or "all commands succeeded")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
