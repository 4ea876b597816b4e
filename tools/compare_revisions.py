"""Compares the weights that two revisions of caffelite train, byte for byte: LeNet on MNIST and CIFAR-10 quick.

The old revision trains from a fixed seed and writes a snapshot half-way. The new one repeats the whole run, resumes
its own snapshot, and resumes the old revision's snapshot. Parameters and histories of all four must be equal. The
revisions run on the same machine with the same number of threads, because kernels are chosen by the processor. The
exit status is 1 where something differs.

Examples:
  python tools/compare_revisions.py v0.1.0 --data ~/data
  python tools/compare_revisions.py HEAD~20 HEAD --data ~/data --iterations 1000 --nets lenet
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from caffelite import caffelite_pb2 as pb, prototxt

ROOT = Path(__file__).resolve().parent.parent
NETS = "lenet", "cifar10_quick"


@contextlib.contextmanager
def checkout(revision: str | None) -> Iterator[Path]:
    """A folder with the files of a revision; this working tree for None."""
    if revision is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", tree, revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def write_solver(name: str, folder: Path, iterations: int) -> Path:
    """The shipped solver with a fixed seed and a snapshot half-way to ``iterations``, all in ``folder``."""
    solver = prototxt.read_solver(ROOT / f"solvers/{name}_solver.prototxt").message
    solver.net = str(ROOT / f"models/{name}/train_val.prototxt")
    solver.max_iter, solver.snapshot, solver.random_seed = iterations, iterations // 2, 7
    solver.test_iter[:], solver.test_interval, solver.display = [5], iterations // 2, iterations // 4
    folder.mkdir()
    solver.snapshot_prefix = str(folder / "run")
    path = folder / "solver.prototxt"
    path.write_text(prototxt.write(solver))
    return path


def train(tree: Path, solver: Path, data: Path, state: Path | None = None) -> None:
    """Trains with the code in ``tree``; ``state``: a snapshot to resume. Errors: exits where the run fails."""
    words = [sys.executable, "-m", "caffelite", "train", "-solver", str(solver)]
    words += ["-snapshot", str(state)] if state else []
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(words, cwd=data, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed with the code in {tree}:\n{done.stderr[-2000:]}")


def content(prefix: Path) -> list[tuple[str, bytes]]:
    """Every parameter and history of a snapshot, named, as bytes; run ids and checksums are left out."""
    net, state = pb.NetParameter(), pb.SolverState()
    net.ParseFromString(Path(f"{prefix}.caffemodel").read_bytes())
    state.ParseFromString(Path(f"{prefix}.solverstate").read_bytes())
    found = [(f"parameter {i} of {x.name}", b.SerializeToString()) for x in net.layer for i, b in enumerate(x.blobs)]
    return found + [(f"history {i}", blob.SerializeToString()) for i, blob in enumerate(state.history)]


def difference(old: Path, new: Path) -> str | None:
    """The first parameter or history in which two snapshots differ; None where they are equal."""
    mine, theirs = content(new), content(old)
    if [name for name, _ in mine] != [name for name, _ in theirs]:
        return "their layers"
    return next((name for (name, a), (_, b) in zip(mine, theirs, strict=True) if a != b), None)


def compare(name: str, old: Path, new: Path, data: Path, iterations: int, work: Path) -> bool:
    """Whether two revisions train net ``name`` to the same bytes; prints a line for each run."""
    end, half = f"run_iter_{iterations}", f"run_iter_{iterations // 2}"
    train(old, write_solver(name, work / "old", iterations), data)
    whole = work / "new"
    train(new, write_solver(name, whole, iterations), data)
    runs = {"whole run": whole}
    for label, source in (("resumed", whole), ("resumed from the old snapshot", work / "old")):
        folder = runs[label] = work / label.replace(" ", "_")
        solver = write_solver(name, folder, iterations)
        for suffix in ("caffemodel", "solverstate"):
            (folder / f"{half}.{suffix}").write_bytes((source / f"{half}.{suffix}").read_bytes())
        train(new, solver, data, folder / f"{half}.solverstate")
    found = {label: difference(work / "old" / end, folder / end) for label, folder in runs.items()}
    for label, what in found.items():
        print(f"{name:14} {label:30} {f'differs: {what}' if what else 'equal'}", flush=True)
    return not any(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="revision to compare with")
    parser.add_argument("new", nargs="?", help="revision to check (default: this working tree)")
    parser.add_argument("--data", type=Path, required=True, help="folder of the databases that the nets name")
    parser.add_argument("--iterations", type=int, default=200, help="iterations of a run (default 200)")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS, help="nets to train (default: both)")
    args = parser.parse_args()
    with checkout(args.old) as old, checkout(args.new) as new, tempfile.TemporaryDirectory() as work:
        equal = []
        for name in args.nets:
            (folder := Path(work) / name).mkdir()
            equal.append(compare(name, old, new, args.data, args.iterations, folder))
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
