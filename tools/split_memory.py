"""Measures the peak memory of each process that trains a part of a net, less that of a process that only opened its
device.

    python tools/split_memory.py SOLVER                           one process
    mpirun -n 2 python tools/split_memory.py SOLVER shards=2      two

SOLVER is the path of a solver.prototxt, which is trained for 3 iterations. The pages of shared libraries are in the
memory of each process, and once in that of the machine.
"""

import argparse
import resource
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from caffelite import devices, parallel, prototxt  # noqa: E402
from caffelite.training import build_trainer  # noqa: E402


def peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def library_pages() -> float:
    """MiB of the process's memory that are pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="SOLVER")
    parser.add_argument("split", nargs="?", default="", metavar="SPLIT", help="as caffelite train -split takes it")
    path, split = (given := parser.parse_args()).path, given.split
    with parallel.session(600) as comm:
        document, dev = prototxt.read_solver(path), devices.open_device()
        bare, pages = peak(), library_pages()
        trainer = build_trainer(document.message, document.locate, path, dev, comm=comm, split=split)
        try:
            trainer.solve(iterations=3)
        finally:
            trainer.close()
        nets = trainer.learning.iteration.pipeline.nets
        planned = sum(net.compiled.arena + net.compiled.constant_bytes for net in nets) + 12 * trainer.net.params.size
        found = comm.gather((peak() - bare, bare, library_pages() - pages, planned / 2**20))
        if not comm.rank:
            for rank, (used, before, shared, plan) in enumerate(found):
                print(
                    f"rank {rank}: {used:.0f} MiB above {before:.0f} MiB, {shared:.0f} MiB of it pages of libraries; "
                    f"blobs and parameters {plan:.0f} MiB"
                )


if __name__ == "__main__":
    main()
