"""Counts the nets of forks that `caffelite check` passes, without and with -fork.

    python tools/check_forks.py FOLDER...                a row for each fork, the sums, and the causes with -fork
    python tools/check_forks.py FOLDER... --json FILE    the states of all nets as JSON too
    python tools/check_forks.py FOLDER... --apart BVLC   nets that are BVLC's, by their text or their folder's and
                                                         own name, do not count
    python tools/check_forks.py FOLDER... --sample N     at most N nets of a folder, drawn by its name and --seed

FOLDER is a copy of a repository; one that has no sources of a fork, neither a caffe.proto nor layers, counts alike
without and with -fork. Nets and their states are those of check_nets.py; templates and pieces do not count. With -fork
the types of a fork are compiled, which takes minutes where it has many.
A repository without a net of its own is left out of the mean share, which weighs all others alike.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import check_nets  # noqa: E402

from caffelite.errors import CaffeliteError  # noqa: E402
from caffelite.fork import option as forks, tree  # noqa: E402

GOOD = ("builds", "needs Python", "needs shapes")


class Apart:
    """Nets that do not count: those of a folder, by their texts and by the names of their folders and files."""

    def __init__(self, folder: str | None):
        every = list(check_nets.texts([folder] if folder else []))
        self.digests = {check_nets.digest(text) for _, text in every}
        self.names = {path.parts[-2:] for path, _ in every}

    def has(self, path: Path) -> bool:
        text = path.read_bytes().decode("utf-8-sig", "replace")
        return path.parts[-2:] in self.names or check_nets.digest(text) in self.digests


def own(folder: str, apart: Apart) -> list[tuple[str, int]]:
    """The distinct nets of a folder, without those of others."""
    return [net for net in check_nets.distinct([folder]) if not apart.has(Path(net[0]))]


def drawn(nets: list[tuple[str, int]], most: int | None, seed: str) -> list[tuple[str, int]]:
    """At most so many nets, chosen by a seed, in their order."""
    if most is None or len(nets) <= most:
        return nets
    return sorted(random.Random(seed).sample(nets, most))


def has_sources(folder: str) -> bool:
    """Whether it is the folder of a fork."""
    try:
        return bool(tree.read(folder))
    except CaffeliteError:
        return False


def outcomes(nets: list[tuple[str, int]], fork: str | None) -> list[check_nets.Outcome]:
    """What becomes of each net, in a process of its own: a process reads nets of one fork."""
    with ProcessPoolExecutor(1, initializer=forks.use, initargs=(fork,)) as pool:
        return list(pool.map(check_nets.outcome, nets))


def finished(found: list[check_nets.Outcome]) -> list[check_nets.Outcome]:
    return [one for one in found if not one.unfinished]


def passed(found: list[check_nets.Outcome]) -> int:
    return sum(one.state in GOOD for one in found)


def share(count: int, total: int) -> str:
    return f"{100 * count / total:3.0f} %" if total else "    -"


def rows(counts: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    """A row for each fork and the sums. counts: by fork (nets, passed without -fork, passed with it)."""
    yield " nets  without         with  fork"
    sums = [sum(column) for column in zip(*counts.values(), strict=True)]
    for name, (nets, without, with_fork) in (*counts.items(), ("all", sums)):
        yield f"{nets:5d} {without:4d} {share(without, nets)}  {with_fork:4d} {share(with_fork, nets)}  {name}"
    some = [row for row in counts.values() if row[0]]
    means = [100 * sum(row[index] / row[0] for row in some) / max(len(some), 1) for index in (1, 2)]
    yield f"mean share of {len(some)} forks: {means[0]:.0f} % without, {means[1]:.0f} % with"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the states of all nets")
    parser.add_argument("--apart", metavar="FOLDER", help="nets that do not count, as those of BVLC's Caffe")
    parser.add_argument("--sample", type=int, metavar="N", help="at most so many nets of a folder")
    parser.add_argument("--seed", type=int, default=0, help="by which they are drawn")
    options = parser.parse_args()
    if missing := [folder for folder in options.folders if not os.path.isdir(folder)]:
        parser.error(f"there is no folder {missing[0]}")
    apart = Apart(options.apart)
    counts, every = {}, {}
    for folder in options.folders:
        nets = drawn(own(folder, apart), options.sample, f"{Path(folder).name} {options.seed}")
        without = finished(outcomes(nets, None))
        with_fork = finished(outcomes(nets, folder)) if has_sources(folder) else without
        judged = {one.path for one in with_fork}
        without = [one for one in without if one.path in judged]
        counts[Path(folder).name] = len(with_fork), passed(without), passed(with_fork)
        every[folder] = {"without": [asdict(one) for one in without], "with": [asdict(one) for one in with_fork]}
        print(f"{Path(folder).name}: {counts[Path(folder).name]}", file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(every, indent=1))
    print("\n".join(rows(counts)))
    print("\n".join(check_nets.table([check_nets.Outcome(**one) for fork in every.values() for one in fork["with"]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
