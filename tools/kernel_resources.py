"""Registers, spilled bytes, stack and shared memory of every GPU kernel, as ptxas reports them.

It needs no GPU, only the extra cuda12 or cuda13. Compiled with CuPy's own options: every family (*.cu), a formula of
each kind, and what the nets that are named launch in training. The exit status is 1 where one spills.

Example:
  python tools/kernel_resources.py models/resnet50/train_val.prototxt -arch 75,90 -numbers fp32,fp16
"""

import argparse
import functools
import io
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from recording_backend import RecordingBackend

from caffelite.devices import cuda, formula_ops
from caffelite.devices.cuda import GPU
from caffelite.devices.cuda.backend import SPIN
from caffelite.devices.formula import Formula

FAMILIES = sorted(path for path in Path(cuda.__file__).parent.glob("*.cu") if path.stem not in ("types", "prelude"))
FORMULAS = 11  # sources of formulas: one of each kind
ALL = (
    "where(0 < x < 3, min(x, 1), max(-x, 0.5)) + pow(abs(x), 2) + x ** 2 + sign(x) + exp(log(sqrt(tanh(log1p(s))))) * k"
)
RULE = "g = g + decay * sign(w); h = mu * h + rate * g; w -= h"
NUMBERS = {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "uint16"}
ARCHITECTURES = {
    "75": ("fp32", "fp16"),
    "80": ("fp32", "fp16", "bf16"),
    "90": ("fp32", "fp16", "bf16"),
}  # and what each computes with


@functools.cache
def sources(dtype: str, blob: str, huge: bool = False) -> list[str]:
    """The sources of every family of kernels and of a formula of each kind; blob: the type of its arrays; huge: with
    64-bit indices."""
    backend = RecordingBackend(only_sources=True)
    dev = GPU(0, dtype, backend)
    many = 1 << 30 if huge else 100
    x, y, s = np.zeros(4, blob), np.zeros(4, blob), np.zeros(1, dtype)
    for family in FAMILIES:
        dev.kernel(family.stem, re.search(r"^KERNEL (\w+)", family.read_text(), re.M)[1], many)(x)
    formula, both = Formula(ALL, ("x",), ("s",), ("k",)), Formula(f"y * ({ALL})", ("x", "y"), ("s",), ("k",))
    # Sums of channels take short formulas: two long ones, whose text is compiled above, keep ptxas busy for 15 s.
    pair = Formula("s * x", ("x",), ("s",)), Formula("s * x * y * k", ("x", "y"), ("s",), ("k",))
    dev.map(formula, k=1)(x, s, y)
    dev.sum(formula, k=1)(x, s, s)
    for p in (1, 4):
        dev.channel_map(both, ("y",), many, 1, p, k=1)(x, s, s, y)
        dev.channel_sum(pair[1], ("y",), many, 2, p, k=1)(x, s, s, s)
        dev.channel_sums(pair, ("y",), many, 2, p, k=1)(x, s, s, (s, s))
        dev.batch_moments(many, 2, p, 1e-5, 0.9)(x, s, s, s, s, s)
    rule = Formula(RULE, ("w", "g", "h"), constants=("rate", "decay", "mu"))
    dev.build(formula_ops.Update(rule, np.array([[0, 5]]), np.ones(1), np.ones(1), {"mu": 0.5}))(s, s, s, s, s)
    return sorted(backend.sources)


@functools.cache
def of_net(path: str, numbers: str) -> frozenset[str]:
    """The sources of what a net launches in an iteration of training, its convolutions by cuDNN's plans."""
    import gpu_traffic

    recorder = gpu_traffic.iteration(gpu_traffic.read(path, None), "tf32" if numbers == "fp32" else numbers, {})
    return frozenset(recorder.sources)


class Compiler:
    """NVRTC by way of CuPy, with the options that CuPy gives it, for GPUs that are not there.

    ``compile`` needs no driver: what CuPy would load into a GPU is kept here. Errors: no CuPy.
    """

    def __init__(self):
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # nothing is read from CuPy's cache or written to it
        from cupy._core import core
        from cupy.cuda import compiler, function

        self._compile, held = core.compile_with_cache, []
        self._held, self.options, self._log = held, (), ""

        class Module(function.Module):
            def load(self, cubin):
                held.append(cubin)

        # CuPy asks the GPU in use only to remember this function's answers by it.
        compiler._get_arch_for_options_for_nvrtc = compiler._get_arch_for_options_for_nvrtc.__wrapped__
        compiler.function = SimpleNamespace(Module=Module)
        run = compiler._NVRTCProgram.compile

        def keep(program, options=(), log_stream=None):
            found = run(program, options, log := io.StringIO())
            self.options, self._log = options, log.getvalue()
            return found

        compiler._NVRTCProgram.compile = keep

    def __call__(self, source: str, arch: str) -> tuple[bytes, str]:
        """The machine code of a source for GPUs of an architecture (as 90), and what ptxas says of it."""
        self._held.clear()
        # As cupy.RawModule compiles; ptxas is asked to tell what it used.
        self._compile(source, ("-std=c++17", "--ptxas-options=-v"), arch=arch, prepend_cupy_headers=False)
        return self._held[-1], self._log


class Kernel(NamedTuple):
    """What ptxas reports of a kernel; spilled, stack and shared in bytes."""

    name: str
    numbers: str
    arch: str
    registers: int
    spilled: int
    stack: int
    shared: int


REPORT = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<arch>\d+)'.*?(?P<stack>\d+) bytes stack frame, "
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) "
    r"registers(?P<rest>[^\n]*)",
    re.S,
)


def kernels(log: str, numbers: str) -> list[Kernel]:
    """The kernels of ptxas's report."""
    found = []
    for m in REPORT.finditer(log):
        shared = re.search(r"(\d+) bytes smem", m["rest"])
        spilled = int(m["stores"]) + int(m["loads"])
        found.append(
            Kernel(
                m["name"],
                numbers,
                m["arch"],
                int(m["registers"]),
                spilled,
                int(m["stack"]),
                int(shared[1]) if shared else 0,
            )
        )
    return found


def every(numbers: str, huge: bool = False, nets: Iterable[str] = ()) -> Iterable[str]:
    """The sources of kernels whose blobs are of such numbers; huge: those with 64-bit indices alone. nets: files whose
    kernels join."""
    found = sources("float64" if numbers == "fp64" else "float32", NUMBERS[numbers], huge)
    yield from (s for s in found if "typedef long long idx" in s) if huge else found
    if numbers == "fp32" and not huge:
        yield SPIN
    yield from sorted({source for path in nets for source in of_net(path, numbers)}.difference(found))


def table(rows: list[Kernel]) -> str:
    text = [Kernel._fields, *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*text, strict=True)]
    align = ["<", "<", "<", *[">"] * 4]
    return "\n".join(
        "  ".join(f"{c:{a}{w}}" for c, a, w in zip(row, align, widths, strict=True)).rstrip() for row in text
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="prototxts of nets for training")
    parser.add_argument("-arch", default=",".join(ARCHITECTURES), help="architectures, as 75,90 (default: %(default)s)")
    parser.add_argument("-numbers", default="fp32,fp16,bf16", help="what blobs are made of (default: %(default)s)")
    parser.add_argument("-huge", action="store_true", help="the kernels for arrays that need 64-bit indices")
    parser.add_argument("-json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    chosen = arguments.numbers.split(",")
    if unknown := set(chosen) - set(NUMBERS):
        parser.error(f"-numbers: no {', '.join(sorted(unknown))}; expected some of {', '.join(NUMBERS)}")
    try:
        compiler = Compiler()
    except ImportError as mistake:
        print(
            f"kernels are compiled by CuPy, which cannot be loaded ({mistake}); install the extra cuda12 or cuda13",
            file=sys.stderr,
        )
        return 2
    rows = []
    for arch in arguments.arch.split(","):
        for numbers in chosen:
            if numbers in ARCHITECTURES.get(arch, NUMBERS):
                rows += [
                    k
                    for source in every(numbers, arguments.huge, arguments.nets)
                    for k in kernels(compiler(source, arch)[1], numbers)
                ]
    rows.sort()
    reported = {"options": compiler.options, "kernels": [row._asdict() for row in rows]}
    print(json.dumps(reported) if arguments.json else table(rows))
    spilling = [row for row in rows if row.spilled]
    if spilling:
        print(f"{len(spilling)} of {len(rows)} kernels spill registers", file=sys.stderr)
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
