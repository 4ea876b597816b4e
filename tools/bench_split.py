"""Measures a net that several CPU ranks divide, beside one rank, beside data parallelism and beside the forecast of
`caffelite plan -split`.

Each rank is pinned to a core. Rounds alternate between the arrangements; figures are medians. The placement is that of
the forecast: it is written into the prototxt that all ranks read. Efficiency: images a second, divided by those of one
rank times the number of ranks.

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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bench_inputs
import bench_parallel
from bench_parallel import MIB, ROOT

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


def planned(model: Path, split: str, ranks: int, bandwidth: float, iterations: int) -> list[dict]:
    """The forecasts of `caffelite plan -split`, the best first; data parallelism is among them."""
    words = ["plan", "-model", model, "-gpus", ranks, "-machine", ranks, "-split", split, "-json"]
    words += ["-bandwidth", f"{bandwidth:.3f}", "-latency", 20, "-iterations", iterations]
    command = [sys.executable, "-c", "from caffelite.cli import main; main()", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["arrangements"]


def placed(folder: Path, name: str, forecast: dict) -> Path:
    """A solver of a net whose layers have the placement of a forecast."""
    from caffelite import caffelite_pb2 as pb, prototxt

    net = prototxt.read_net(str(folder / f"{name}.prototxt")).message
    place = {
        layer: (number, layer in stage["divided"], layer in stage["divided_samples"])
        for number, stage in enumerate(forecast["by_stage"])
        for layer in stage["layers"]
    }
    for layer in net.layer:
        stage, outputs, samples = place[layer.name]
        layer.placement.stage = stage
        if outputs or samples:
            layer.placement.shards = forecast["shards"]
            layer.placement.division = pb.PlacementParameter.BATCH if samples else pb.PlacementParameter.OUTPUTS
    label = forecast["arrangement"].replace(" ", "_")
    path = folder / f"{name}_{label}.prototxt"
    path.write_text(prototxt.write(net))
    solver = (folder / f"{name}_solver.prototxt").read_text().replace(f"{name}.prototxt", path.name)
    found = folder / f"{name}_{label}_solver.prototxt"
    found.write_text(solver)
    return found


def portion(
    folder: Path, name: str, args: argparse.Namespace, bandwidth: float, kept: dict, save: Callable[[], None]
) -> None:
    """Adds the forecasts and the measured milliseconds of one net's arrangements to ``kept``. save: called after
    each."""
    batch, iterations = args.batch or NETS[name][1], NETS[name][3]
    solver = bench_parallel.solver_of(folder, name, NETS[name][0], batch, NETS[name][2])
    kept.setdefault("batch", batch)
    forecasts, laps = kept.setdefault("forecasts", {}), kept.setdefault("laps", {})
    for split in args.splits:
        if split in forecasts:
            continue
        found = planned(folder / f"{name}.prototxt", split, args.ranks, bandwidth, iterations)
        forecasts.setdefault(PARALLEL, next(f for f in found if f["arrangement"] == PARALLEL))
        if alike := [f for f in found if f["arrangement"] != PARALLEL]:
            forecasts[split] = alike[0]
        save()
    runs: dict[str, tuple[int, Path, str]] = {ONE: (1, solver, ""), PARALLEL: (args.ranks, solver, "")}
    for split in (each for each in args.splits if each in forecasts):
        found = forecasts[split]
        text = split if not split.isdecimal() else f"stages={found['stages']},shards={found['shards']}"
        runs[split] = (args.ranks, placed(folder, name, found), text)
    for _ in range(args.rounds):
        for label, (ranks, path, split) in runs.items():
            if args.only is None or label in args.only:
                found = bench_parallel.mpirun(ranks, "--rank", path, iterations, split, tool=__file__)
                laps.setdefault(label, []).append((found["ms"], found["share"]))
                save()


def report(name: str, ranks: int, kept: dict) -> None:
    """Prints a line for each arrangement of a net."""
    ms = {label: statistics.median(lap for lap, _ in found) for label, found in kept["laps"].items()}
    shares = {label: min(share for _, share in found) for label, found in kept["laps"].items()}
    batch = kept["batch"]
    for label in ms:
        forecast = kept["forecasts"].get(label)
        samples = forecast["samples"] if forecast else batch
        speed = samples / ms[label]
        line = (
            f"{name}, {samples} images, {label}: {ms[label]:.1f} ms, {speed * 1e3:.1f} images/s, a rank had its core "
            f"for at least {shares[label]:.0%} of the time"
        )
        if forecast:
            predicted = forecast["seconds"] * 1e3
            efficiency = f"{speed / (batch / ms[ONE]) / ranks:.2f}" if ONE in ms else "unknown"
            line += (
                f", efficiency {efficiency}; planned {predicted:.1f} ms (measured is {ms[label] / predicted:.2f} of "
                f"it), bubble {forecast['bubble']:.1%}, {forecast['sent'] / 1e6:.1f} MB sent"
            )
        print(line, flush=True)


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
    kept = json.loads(args.results.read_text()) if args.results and args.results.exists() else {}
    if "bandwidth" not in kept:
        found = bench_parallel.mpirun(args.ranks, "--all-reduce", 2, 10)
        # A ring sends 2 (N - 1) / N of the bytes.
        kept["bandwidth"] = 2 * (args.ranks - 1) / args.ranks * 2 * MIB / found["ours"] / 1e9

    def save() -> None:
        if args.results:
            args.results.write_text(json.dumps(kept))

    print(f"link between two ranks: {kept['bandwidth']:.2f} GB/s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.nets:
            portion(Path(folder), name, args, kept["bandwidth"], kept.setdefault(name, {}), save)
            report(name, args.ranks, kept[name])


if __name__ == "__main__":
    main()
