"""Compiles the kernels of a GPU on a machine that needs none, for runs that shall not wait for the compiler.

The folder holds the machine code of each kernel, as KEY.ARCHITECTURE.cubin; a run with CAFFELITE_KERNELS=FOLDER loads
it from there. What a run lacks it compiles itself, and leaves its source there as KEY.cu: those are compiled too. So a
run on any machine, or of the tests' stand-in, tells what to compile for the next one. It needs the extra cuda12 or
cuda13, of a CUDA that is not newer than the driver there. Without a folder it only measures.

Examples:
  python tools/compile_kernels.py kernels -arch 90
  python tools/compile_kernels.py kernels -arch 75,80,90 -nets models/lenet/train_val.prototxt
  CAFFELITE_KERNELS=kernels caffelite train -solver solvers/lenet_solver.prototxt -gpu 0
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import kernel_resources  # noqa: E402

from caffelite.devices.cuda import backend, prepared  # noqa: E402
from caffelite.system import usable_cores  # noqa: E402

NETS = ("lenet", "cifar10_full", "alexnet", "googlenet", "resnet50")


def sources(folder: Path | None, nets: list[str]) -> set[str]:
    """The texts of all kernels: of every family and formula, of nets, and those that runs left in the folder."""
    every = {source for numbers in ("fp32", "fp16", "bf16") for source in kernel_resources.every(numbers)}
    every |= {backend.PROBE, backend.SPIN}
    every |= {
        source for net in nets for numbers in ("fp32", "fp16") for source in kernel_resources.of_net(net, numbers)
    }
    return every | {path.read_text() for path in (folder.glob("*.cu") if folder else ())}


@cache
def compiler() -> kernel_resources.Compiler:
    return kernel_resources.Compiler()


def compiled(work: tuple[str, str, Path | None]) -> str:
    """Compiles a source for an architecture, into the file of its folder; why that fails, or nothing."""
    source, architecture, path = work
    try:
        code = compiler()(source, architecture)[0]
    except Exception as mistake:  # noqa: BLE001  CuPy's class differs from version to version
        return f"{prepared.key(source)}: {' '.join(str(mistake).split())[:300]}"
    if path:
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(code)
        draft.replace(path)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the machine code goes")
    parser.add_argument("-arch", default="90", help="architectures, as 75,90 (default: %(default)s)")
    parser.add_argument("-jobs", type=int, default=len(usable_cores()), help="processes (default: one for each core)")
    nets = [str(ROOT / "models" / net / "train_val.prototxt") for net in NETS]
    parser.add_argument("-nets", nargs="*", default=nets, help=f"prototxts (default: {', '.join(NETS)})")
    arguments = parser.parse_args()
    try:
        compiler()
    except ImportError as mistake:
        what = f"kernels are compiled by CuPy, which cannot be loaded ({mistake}); install the extra cuda12 or cuda13"
        print(what, file=sys.stderr)
        return 2
    begin, folder = time.perf_counter(), arguments.folder
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    every = sources(folder, arguments.nets)
    work = []
    for source in sorted(every):
        for architecture in arguments.arch.split(","):
            path = folder / f"{prepared.key(source)}.{architecture}.cubin" if folder else None
            if not (path and path.exists()):
                work.append((source, architecture, path))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        failures = [failure for failure in pool.map(compiled, work) if failure]
    print("\n".join(failures), end="\n" if failures else "", file=sys.stderr)
    there = len(every) * len(arguments.arch.split(",")) - len(work)
    seconds = time.perf_counter() - begin
    counts = f"{len(work) - len(failures)} kernels compiled, {there} were there, {len(failures)} failed"
    print(f"{counts}, in {seconds:.1f} s on {arguments.jobs} cores")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
