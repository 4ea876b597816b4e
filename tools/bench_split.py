"""Measures a net that several CPU ranks divide, beside one rank and beside data parallelism.

Each rank is pinned to a core. Rounds alternate between the arrangements; figures are medians. Efficiency: images a
second, divided by those of one rank times the number of ranks.

Example:
  python tools/bench_split.py --rounds 3 --nets alexnet --splits stages=2,micro_batches=8 hybrid=2
In portions, where a machine is quiet for short times only:
  python tools/bench_split.py --nets vgg16 --splits hybrid=2 --results vgg.json --rounds 1 --only "one rank"
  python tools/bench_split.py --nets vgg16 --splits hybrid=2 --results vgg.json --rounds 1 --only hybrid=2
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bench_inputs
import bench_parallel

NETS = {"vgg16": ("vgg16", 32, (3, 224, 224), 1), "alexnet": ("alexnet", 256, (3, 227, 227), 1)}
ONE, PARALLEL = "one rank", "data parallel"
SPLITS = ("stages=2,micro_batches=8", "shards=2", "hybrid=2")


def rank_of(solver: str, iterations: int, split: str) -> None:
    """One rank: milliseconds until all ranks have finished an iteration, and the share of the time in which each rank
    had its core, which ranks that wait keep busy; printed by rank 0."""
    rank = int(os.environ.get("PMI_RANK", 0))
    bench_inputs.pin(rank)
    from caffelite import devices, parallel, prototxt
    from caffelite.training import build_trainer

    with parallel.session(0) as comm:
        document = prototxt.read_solver(solver)
        how = {"split": split} if split else {}
        run = build_trainer(document.message, document.locate, solver, devices.open_device(), comm=comm, **how)
        run.step(1)
        laps, computed = [], 0.0
        for _ in range(iterations):
            comm.gather(None)
            begin, used = time.perf_counter(), time.process_time()
            run.step(1)
            comm.gather(None)
            laps.append(time.perf_counter() - begin)
            computed += time.process_time() - used
        shares = comm.gather(computed / sum(laps))
        if not comm.rank:
            print(json.dumps({"ms": statistics.median(laps) * 1e3, "share": min(shares)}))


def portion(folder: Path, name: str, args: argparse.Namespace, measured: dict, save: Callable[[], None]) -> None:
    """Adds the milliseconds of one net's arrangements to ``measured``. save: called after each."""
    batch, iterations = args.batch or NETS[name][1], NETS[name][3]
    solver = bench_parallel.solver_of(folder, name, NETS[name][0], batch, NETS[name][2])
    measured.setdefault("batch", batch)
    laps = measured.setdefault("laps", {})
    runs = {ONE: (1, ""), PARALLEL: (args.ranks, "")} | {split: (args.ranks, split) for split in args.splits}
    for _ in range(args.rounds):
        for label, (ranks, split) in runs.items():
            if args.only is None or label in args.only:
                lap = bench_parallel.mpirun(ranks, "--rank", solver, iterations, split, tool=__file__)
                laps.setdefault(label, []).append((lap["ms"], lap["share"]))
                save()


def report(name: str, ranks: int, measured: dict) -> None:
    """Prints a line for each arrangement of a net."""
    ms = {label: statistics.median(lap for lap, _ in laps) for label, laps in measured["laps"].items()}
    shares = {label: min(share for _, share in laps) for label, laps in measured["laps"].items()}
    batch = measured["batch"]
    for label in ms:
        samples = batch * (ranks if label == PARALLEL else 1)
        speed = samples / ms[label]
        efficiency = f"{speed / (batch / ms[ONE]) / ranks:.2f}" if ONE in ms else "unknown"
        print(
            f"{name}, {samples} images, {label}: {ms[label]:.1f} ms, {speed * 1e3:.1f} images/s, a rank had its core "
            f"for at least {shares[label]:.0%} of the time" + (f", efficiency {efficiency}" if label != ONE else ""),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds that alternate (default 3)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks that divide the net (default 2)")
    parser.add_argument("--nets", nargs="*", default=list(NETS), choices=NETS, help="which nets (default all)")
    parser.add_argument("--splits", nargs="*", default=list(SPLITS), help="values of -split (default all three kinds)")
    parser.add_argument("--batch", type=int, help="images of a batch (default: of the net)")
    parser.add_argument("--only", nargs="*", help=f'of "{ONE}", "{PARALLEL}" and --splits, those to run (default all)')
    parser.add_argument("--results", type=Path, help="file to which the results of several calls are added")
    parser.add_argument("--rank", nargs=3, metavar=("SOLVER", "ITERATIONS", "SPLIT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank_of(args.rank[0], int(args.rank[1]), args.rank[2])
        return
    results = json.loads(args.results.read_text()) if args.results and args.results.exists() else {}

    def save() -> None:
        if args.results:
            args.results.write_text(json.dumps(results))

    with tempfile.TemporaryDirectory() as folder:
        for name in args.nets:
            portion(Path(folder), name, args, results.setdefault(name, {}), save)
            report(name, args.ranks, results[name])


if __name__ == "__main__":
    main()
