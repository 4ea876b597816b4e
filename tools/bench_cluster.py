"""Measures the sum of gradients over CPU ranks by size: ours, in six buckets that are posted one after the other with
nothing to compute meanwhile, and MPI_Allreduce of all bytes at once, as MPICH chooses its algorithm and with each one.

The bound by bytes is the size divided by the speed of the largest MPI_Allreduce with a ring. Each rank is pinned to a
core; with more ranks than cores, bare calls spin until the others have run: use --largest 1M, or wait for minutes.

Example:
  python tools/bench_cluster.py --ranks 2 --largest 256M
"""

import argparse
import json
import os
import statistics
import sys
import time

import bench_inputs

ALGORITHMS = ("auto", "recursive_doubling", "reduce_scatter_allgather", "ring")
VARIABLE = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
BUCKETS = 6  # of a net, by default
SIZES = [1 << power for power in range(10, 29, 2)]
ROUND_SECONDS, MOST_ROUNDS = 0.3, 50  # of one size


def rank_of(largest: int) -> None:
    """One rank: seconds by size, of the bare call and of our buckets; rank 0 prints them."""
    rank = int(os.environ.get("PMI_RANK", 0))
    bench_inputs.pin(rank)
    import numpy as np

    from caffelite.parallel.transports.mpi import MPIAllReduce, World

    world = World()
    sums, found = MPIAllReduce(world), {}
    for size in (size for size in SIZES if size <= largest):
        flat = np.zeros(size // 4, np.float32)
        ends = [len(flat) * i // BUCKETS for i in range(BUCKETS + 1)]

        def bare(flat=flat) -> None:
            world.comm.Allreduce(world.mpi.IN_PLACE, flat)

        def ours(flat=flat, ends=ends) -> None:
            for i in reversed(range(BUCKETS)):
                sums.post(flat[ends[i] : ends[i + 1]])
            sums.finish()

        laps: dict[str, list[float]] = {"bare": [], "ours": []}
        begun, more = time.perf_counter(), True
        while more:
            for name, call in (("bare", bare), ("ours", ours)):
                world.comm.Barrier()
                begin = time.perf_counter()
                call()
                laps[name].append(time.perf_counter() - begin)
            enough = len(laps["bare"]) >= MOST_ROUNDS or time.perf_counter() - begun > ROUND_SECONDS
            more = not world.comm.bcast(enough and len(laps["bare"]) > 3)
        found[size] = {name: statistics.median(each[1:]) for name, each in laps.items()}
    if not rank:
        print(json.dumps(found))
    world.close()


def shown(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main() -> int:
    from bench_parallel import mpirun

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2], help="numbers of ranks (default 2)")
    parser.add_argument("--largest", default="256M", help="the largest array, as in 64M (default 256M)")
    parser.add_argument("--rank", type=int, metavar="BYTES", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank_of(args.rank)
        return 0
    largest = int(args.largest.removesuffix("M")) << 20
    for ranks in args.ranks:
        by_algorithm = {}
        for name in ALGORITHMS:
            os.environ[VARIABLE] = name
            by_algorithm[name] = mpirun(ranks, "--rank", largest, tool=__file__)
        os.environ.pop(VARIABLE)
        chosen = by_algorithm["auto"]
        last = max(chosen, key=int)
        bandwidth = int(last) / by_algorithm["ring"][last]["bare"]  # bytes summed a second
        print(f"\n{ranks} ranks, seconds\n")
        print("| size | ours | as MPICH chooses | recursive doubling | halving and doubling | ring | bound by bytes |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for size, both in chosen.items():
            bare = [by_algorithm[name][size]["bare"] for name in ALGORITHMS]
            columns = [both["ours"], *bare, int(size) / bandwidth]
            print(f"| {shown(int(size))} | " + " | ".join(f"{seconds:.2g}" for seconds in columns) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
