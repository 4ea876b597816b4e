"""Measures the iterations of nets on two machines with a network between them, beside what `caffelite plan` predicts.

The machines are network namespaces of this one with TCP between them, each of whose links is limited to a rate. Each
rank is pinned to a core. Milliseconds are those of the fastest iteration and of the fastest forecast. Columns:
gradients summed while backward computes, at its end, and in 16 bits. The forecast is of float32; that of 16 bits has a
link of twice the rate. Needs root.

Example:
  python tools/bench_network.py --rates 1000 100 --nets lenet
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "parallel")]

import bench_parallel  # noqa: E402
from network import Network, NoNetwork, opened  # noqa: E402

NETS = {
    "lenet": ("lenet", 64, (1, 28, 28), 20),
    "alexnet": ("alexnet", 16, (3, 227, 227), 2),
    "resnet18": ("resnet18", 4, (3, 224, 224), 2),
}
RANKS = 2
MACHINE = 1  # ranks of a machine
WAYS = {"overlap": (), "at the end": (), "fp16": ("--half",)}


def milliseconds(network: Network, folder: Path, solver: Path, laps: int, words: tuple[str, ...]) -> float:
    tool = [sys.executable, bench_parallel.__file__, "--rank", solver, laps, *words]
    out, err = network.run(folder, *tool).communicate()
    if not out.strip():
        sys.exit(err)
    return json.loads(out.strip().split("\n")[-1])["least"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds that alternate (default 3)")
    parser.add_argument("--rates", type=int, nargs="*", default=[1000, 100], help="Mb/s of a link (default 1000 100)")
    parser.add_argument("--nets", nargs="*", default=list(NETS), choices=NETS, help="which nets (default all)")
    args = parser.parse_args()
    print("| net, Mb/s | " + " | ".join(WAYS) + " | forecast | forecast, fp16 | overlap / forecast |")
    print("| --- |" + " ---: |" * (len(WAYS) + 3))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for net in args.nets:
            solver = bench_parallel.solver_of(folder, net, *NETS[net][:3])
            late = solver.with_name(f"{net}_late_solver.prototxt")
            late.write_text(f"{solver.read_text()} layer_wise_reduce: false")
            for rate in args.rates:
                laps: dict[str, list[float]] = {way: [] for way in (*WAYS, "forecast", "half")}
                try:
                    with opened(folder, RANKS, f"{rate}mbit") as network:
                        for _ in range(args.rounds):
                            for way, words in WAYS.items():
                                each = late if way == "at the end" else solver
                                laps[way].append(milliseconds(network, folder, each, NETS[net][3], words))
                            for way, speed in (("forecast", rate), ("half", 2 * rate)):
                                plan = bench_parallel.planned(
                                    folder / f"{net}.prototxt", RANKS, "network", speed / 8e3, MACHINE
                                )
                                laps[way].append(plan[RANKS])
                except NoNetwork as error:
                    sys.exit(f"no network can be made: {error}")
                ms = {way: min(each) for way, each in laps.items()}
                cells = [f"{value:.4g}" for value in ms.values()]
                print(f"| {net}, {rate} | {' | '.join(cells)} | {ms['overlap'] / ms['forecast']:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
