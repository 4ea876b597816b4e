"""Measures training on several CPU ranks: weak scaling, the all-reduce beside a bare mpi4py loop, and what `caffelite
plan` predicted.

Each rank is pinned to a core. Rounds alternate between one rank and several; figures are medians.

Example:
  python tools/bench_parallel.py --rounds 3
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_inputs

ROOT = Path(__file__).resolve().parent.parent
NETS = {"lenet": ("lenet", 64, (1, 28, 28), 60), "alexnet": ("alexnet", 16, (3, 227, 227), 3)}  # batch, image, laps
MIB = 1 << 20


def solver_of(folder: Path, name: str, model: str, batch: int, shape: tuple[int, ...]) -> Path:
    """A solver of a net on random images that are made once, so that reading takes no part."""
    from caffelite import caffelite_pb2 as pb, prototxt

    net, tops = bench_inputs.read(str(ROOT / f"models/{model}/train_val.prototxt"), batch, shape)
    del net.layer[0]
    feed = pb.LayerParameter(name="input", type="DummyData", top=tops)
    feed.dummy_data_param.shape.add(dim=(batch, *shape))
    feed.dummy_data_param.shape.add(dim=(batch,))
    feed.dummy_data_param.data_filler.add(type="constant", value=0.5)
    feed.dummy_data_param.data_filler.add(type="constant", value=bench_inputs.classes(net) // 2)
    layers = list(net.layer)
    del net.layer[:]
    net.layer.append(feed)
    net.layer.extend(layers)
    path = folder / f"{name}.prototxt"
    path.write_text(prototxt.write(net))
    solver = folder / f"{name}_solver.prototxt"
    solver.write_text(
        f'net: "{path}" base_lr: 0.0001 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005 max_iter: 1000 '
        "random_seed: 1\n"
    )
    return solver


def rank_of(solver: str, iterations: int, half: bool = False) -> None:
    """One rank: milliseconds an iteration, printed by rank 0. half: gradients travel in 16 bits."""
    rank = int(os.environ.get("PMI_RANK", 0))
    bench_inputs.pin(rank)
    from caffelite import devices, parallel, prototxt
    from caffelite.training import build_trainer

    with parallel.session(0) as comm:
        document = prototxt.read_solver(solver)
        options = {"comm": comm, "fp16_gradients": half, "snapshots": False}
        run = build_trainer(document.message, document.locate, solver, devices.open_device(), **options)
        run.step(2)
        laps = []
        for _ in range(iterations):
            comm.gather(None)
            begin = time.perf_counter()
            run.step(1)
            laps.append(time.perf_counter() - begin)
        if not comm.rank:
            print(json.dumps({"ms": statistics.median(laps) * 1e3, "least": min(laps) * 1e3}))


def all_reduce_of(megabytes: int, rounds: int) -> None:
    """One rank: seconds of our sums, and of a bare loop over the same bytes in one call and in chunks."""
    rank = int(os.environ.get("PMI_RANK", 0))
    bench_inputs.pin(rank)
    import numpy as np

    from caffelite.parallel.transports.mpi import CHUNK, MPIAllReduce, World

    world = World()
    flat, sums = np.ones(megabytes * MIB // 4, np.float32), MPIAllReduce(world)

    def ours() -> None:
        sums.post(flat)
        sums.finish()

    def bare() -> None:
        world.comm.Allreduce(world.mpi.IN_PLACE, flat)

    def chunks() -> None:
        for at in range(0, len(flat), CHUNK):
            world.comm.Allreduce(world.mpi.IN_PLACE, flat[at : at + CHUNK])

    found = {}
    for _ in range(rounds + 1):
        for name, call in (("ours", ours), ("bare", bare), ("chunks", chunks)):
            flat[:] = 1
            world.comm.Barrier()
            begin = time.perf_counter()
            call()
            world.comm.Barrier()
            found.setdefault(name, []).append(time.perf_counter() - begin)
    if not world.rank:
        print(json.dumps({name: statistics.median(laps[1:]) for name, laps in found.items()}))
    world.close()


def mpirun(ranks: int, *words: object, tool: str = __file__) -> dict:
    """What rank 0 of ``tool`` printed last."""
    found = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if not found:
        sys.exit('there is no mpirun: pip install "caffelite[mpi]"')
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [found, "-n", str(ranks), sys.executable, tool, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().split("\n")[-1])


def planned(model: Path, ranks: int, link: str, bandwidth: float, machine: int) -> dict[int, float]:
    """Milliseconds that `caffelite plan` predicts, by the number of processes. link: the option that ``bandwidth``, in
    GB/s, is of."""
    words = ["-gpus", ranks, f"-{link}", f"{bandwidth:.5f}", "-latency", "20", "-machine", machine]
    words += ["-iterations", "3", "-model", model]
    command = [sys.executable, "-c", "from caffelite.cli import main; main()", "plan", *map(str, words)]
    out = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    ).stdout
    return {int(m[1]): float(m[2]) for m in re.finditer(r"^ +(\d+) +(\S+) .*%$", out, re.MULTILINE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds that alternate (default 3)")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2], help="numbers of ranks beside one (default 2)")
    parser.add_argument("--nets", nargs="*", default=list(NETS), choices=NETS, help="which nets (default all)")
    parser.add_argument("--rank", nargs=2, metavar=("SOLVER", "ITERATIONS"), help=argparse.SUPPRESS)
    parser.add_argument("--half", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--all-reduce", nargs=2, type=int, metavar=("MB", "ROUNDS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank_of(args.rank[0], int(args.rank[1]), args.half)
        return
    if args.all_reduce:
        all_reduce_of(*args.all_reduce)
        return
    speed = 0.0
    for megabytes in (2, 233):
        found = mpirun(2, "--all-reduce", megabytes, 10)
        best = min(found["bare"], found["chunks"])
        speed = megabytes * MIB / found["ours"] / 1e9
        print(
            f"all-reduce of {megabytes} MiB, 2 ranks: ours {found['ours'] * 1e3:.2f} ms, bare mpi4py "
            f"{found['bare'] * 1e3:.2f} ms, "
            f"in chunks {found['chunks'] * 1e3:.2f} ms: {best / found['ours']:.2f} of the better",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as folder:
        for name in args.nets:
            solver = solver_of(Path(folder), name, *NETS[name][:3])
            laps: dict[int, list[float]] = {}
            for _ in range(args.rounds):
                for ranks in (1, *args.ranks):
                    laps.setdefault(ranks, []).append(mpirun(ranks, "--rank", solver, NETS[name][3])["ms"])
            ms = {ranks: statistics.median(found) for ranks, found in laps.items()}
            most = max(args.ranks)
            plan = planned(Path(folder) / f"{name}.prototxt", most, "bandwidth", speed, most)
            for ranks, found in ms.items():
                print(
                    f"{name}, {NETS[name][1]} images a rank, {ranks} ranks: {found:.1f} ms, "
                    f"{ranks * ms[1] / found:.2f} times one rank; "
                    f"planned {plan[ranks]:.1f} ms, {ranks * plan[1] / plan[ranks]:.2f} times",
                    flush=True,
                )


if __name__ == "__main__":
    main()
