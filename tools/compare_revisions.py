"""Compares the weights that two revisions of caffelite train, byte for byte: nets of images, text and detection, on one
process, on two that share the samples, and on two that divide the net.

Each net trains on random data in small batches. The old revision writes a snapshot half-way. The new one repeats the
whole run, resumes its own snapshot, and resumes the old revision's snapshot. Parameters and histories of all four must
be equal. The revisions run on the same machine with one thread each, because kernels are chosen by the processor, and
with a cache of their own, so that the second takes the convolution algorithms that the first one measured. Where both
refuse a way for a net, the reason is printed. The exit status is 1 where something differs.

Examples:
  python tools/compare_revisions.py v0.1.0
  python tools/compare_revisions.py HEAD~20 HEAD --nets lenet ssd_shapes --ways one stages=2 --iterations 20
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import check_split

from caffelite import caffelite_pb2 as pb, prototxt

ROOT = Path(__file__).resolve().parent.parent
DETECTORS = "ssd_shapes", "faster_rcnn_shapes"
NETS = (*check_split.NETS, *DETECTORS)
WAYS = "one", "ranks", "stages=2", "shards=2"  # one process; two that share the samples; values of -split for two


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


def prepare(name: str, folder: Path) -> None:
    """Writes NAME.prototxt and its data."""
    if name not in DETECTORS:
        check_split.prepare(folder, name, 1)
        return
    for words in ("shapes --images 12 --test_images 1", "detection shapes/train.json --name shapes_train"):
        command = [sys.executable, "-m", "caffelite", "dataset", *words.split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    net = prototxt.read_net(ROOT / "models" / name / "train_val.prototxt").message
    for layer in net.layer:
        if layer.data_param.batch_size:
            layer.data_param.batch_size = 4
    (folder / f"{name}.prototxt").write_text(prototxt.write(net))


def write_solver(name: str, folder: Path, iterations: int) -> Path:
    """A solver with a fixed seed and a snapshot half-way to ``iterations``, all in ``folder``."""
    folder.mkdir()
    text = f'net: "{name}.prototxt" {check_split.RECIPE} max_iter: {iterations} display: 1 '
    text += f'snapshot: {iterations // 2} snapshot_prefix: "{folder}/run"'
    path = folder / "solver.prototxt"
    path.write_text(text)
    return path


def train(tree: Path, solver: Path, way: str, state: Path | None = None) -> str:
    """Trains with the code in ``tree``; the last line that it said where it failed. state: a snapshot to resume."""
    words = [sys.executable, "-m", "caffelite", "train", "-solver", str(solver)]
    words += ["-snapshot", str(state)] if state else []
    words += ["-split", way] if "=" in way else []
    words = words if way == "one" else ["mpirun", "-n", "2", *words]
    threads = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    cache = {"CAFFELITE_CACHE": str(solver.parent.parent / "cache")}
    environment = {**os.environ, **threads, **cache, "PYTHONPATH": str(tree)}
    done = subprocess.run(words, cwd=solver.parent.parent, env=environment, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if line.startswith("caffelite: ")] or ["failed without a word"]
    return said[0] if done.returncode else ""


def content(prefix: Path) -> list[tuple[str, bytes]]:
    """Every parameter and history of a snapshot, named, as bytes; run ids and checksums are left out."""
    net, state = pb.NetParameter(), pb.SolverState()
    net.ParseFromString(Path(f"{prefix}.caffemodel").read_bytes())
    state.ParseFromString(Path(f"{prefix}.solverstate").read_bytes())
    blobs = [(f"parameter {i} of {x.name}", b.SerializeToString()) for x in net.layer for i, b in enumerate(x.blobs)]
    return blobs + [(f"history {i}", blob.SerializeToString()) for i, blob in enumerate(state.history)]


def difference(old: Path, new: Path) -> str | None:
    """The first parameter or history in which two snapshots differ; None where they are equal."""
    mine, theirs = content(new), content(old)
    if [name for name, _ in mine] != [name for name, _ in theirs]:
        return "their layers"
    return next((name for (name, a), (_, b) in zip(mine, theirs, strict=True) if a != b), None)


def compare(name: str, way: str, old: Path, new: Path, iterations: int, work: Path) -> bool:
    """Whether two revisions train net ``name`` to the same bytes; prints a line for each run. work: a folder with the
    net and its data."""
    end, half, label = f"run_iter_{iterations}", f"run_iter_{iterations // 2}", f"{name:20} {way:9}"
    before, whole = work / f"{way}_old", work / f"{way}_new"
    failures = (
        train(old, write_solver(name, before, iterations), way),
        train(new, write_solver(name, whole, iterations), way),
    )
    if any(failures):
        print(f"{label} {'both' if all(failures) else 'one'} failed: {failures[0] or failures[1]}", flush=True)
        return all(failures)
    runs = {"whole run": whole}
    for resumed, source in (("resumed", whole), ("resumed from the old snapshot", before)):
        folder = runs[resumed] = work / f"{way}_{resumed.replace(' ', '_')}"
        solver = write_solver(name, folder, iterations)
        for suffix in ("caffemodel", "solverstate"):
            (folder / f"{half}.{suffix}").write_bytes((source / f"{half}.{suffix}").read_bytes())
        if failure := train(new, solver, way, folder / f"{half}.solverstate"):
            print(f"{label} {resumed:30} failed: {failure}", flush=True)
            return False
    differences = {run: difference(before / end, folder / end) for run, folder in runs.items()}
    for run, what in differences.items():
        print(f"{label} {run:30} {f'differs: {what}' if what else 'equal'}", flush=True)
    return not any(differences.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="revision to compare with")
    parser.add_argument("new", nargs="?", help="revision to check (default: this working tree)")
    parser.add_argument("--iterations", type=int, default=4, help="iterations of a run, an even number (default 4)")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS, help="nets to train (default: all)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="how (default: all)")
    args = parser.parse_args()
    with checkout(args.old) as old, checkout(args.new) as new, tempfile.TemporaryDirectory() as work:
        equal = []
        for name in args.nets:
            (folder := Path(work, name)).mkdir()
            prepare(name, folder)
            equal += [compare(name, way, old, new, args.iterations, folder) for way in args.ways]
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
