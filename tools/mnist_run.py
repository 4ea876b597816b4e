"""Trains LeNet on MNIST through the command line, several times over, and prints each run's accuracy and seconds.

Example:
  python tools/mnist_run.py --runs 3 --data /path/to/folder/with/mnist_lmdbs
  python tools/mnist_run.py --runs 1 --precision bf16
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(args, seed: int) -> tuple[float, float]:
    """(accuracy of the last test, seconds of the whole process)"""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("models", *(path.name for path in args.data.glob("*_lmdb"))):
            (Path(folder) / name).symlink_to((ROOT if name == "models" else args.data).resolve() / name)
        recipe = re.sub(r"^(max_iter|random_seed):.*$", "", (ROOT / args.solver).read_text(), flags=re.MULTILINE)
        (Path(folder) / "solver.prototxt").write_text(f"{recipe}\nmax_iter: {args.iterations}\nrandom_seed: {seed}\n")
        words = [sys.executable, "-c", "from caffelite.cli import main; main()", "train", "-solver", "solver.prototxt"]
        begin = time.perf_counter()
        words += ["-precision", args.precision] if args.precision else []
        done = subprocess.run(
            words + (["-gpu", args.gpu] if args.gpu else []), cwd=folder, capture_output=True, text=True
        )
        seconds = time.perf_counter() - begin
    scores = re.findall(r"Test net output #\d+: accuracy = (\S+)", done.stderr)
    if done.returncode or "Optimization Done." not in done.stderr or not scores:
        sys.exit("\n".join(done.stderr.strip().split("\n")[-5:]))
    return float(scores[-1]), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(),
        help="folder of the databases that `caffelite dataset` makes (default: here)",
    )
    parser.add_argument(
        "--solver",
        default="solvers/lenet_solver.prototxt",
        help="the recipe, relative to the checkout (default: LeNet's)",
    )
    parser.add_argument("--iterations", type=int, default=10_000, help="iterations of a run (default 10000)")
    parser.add_argument("--runs", type=int, default=3, help="runs, each with another seed (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run (default 1)")
    parser.add_argument("--gpu", help="what to pass on as -gpu")
    parser.add_argument("--precision", help="what to pass on as -precision")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args()
    results = []
    print(f"{args.solver}, {args.iterations} iterations\n{'seed':>6}{'accuracy':>12}{'seconds':>10}")
    for seed in range(args.seed, args.seed + args.runs):
        results.append(run(args, seed))
        print(f"{seed:6}{results[-1][0]:12.4f}{results[-1][1]:10.1f}", flush=True)
    accuracies, seconds = zip(*results, strict=True)
    print(f"median{statistics.median(accuracies):12.4f}{statistics.median(seconds):10.1f}")
    if args.json:
        print(
            json.dumps(
                {"solver": args.solver, "iterations": args.iterations, "accuracy": accuracies, "seconds": seconds}
            )
        )


if __name__ == "__main__":
    main()
