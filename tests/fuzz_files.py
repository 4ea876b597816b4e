"""Files of every kind, damaged at random, each read in a process of its own: each is read, or one line says what is
wrong with it.

python tests/fuzz_files.py --runs 5000 [--kind lmdb]
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz_kinds import KINDS
from fuzz_workers import GOOD, attempt


class Fuzz:
    """Damages and reads data sets below a folder.

    outcomes: how many mutants came to what, by_kind: the same for each kind; failures: (kind, seed, outcome, what was
    said).
    """

    def __init__(self, folder: Path, kinds: Sequence[str] = tuple(KINDS)):
        self.folder, self.kinds = folder, kinds
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.by_kind = {kind: collections.Counter() for kind in kinds}
        self.failures: list[tuple[str, int, str, str]] = []
        for kind in kinds:
            whole = self._whole(kind)
            whole.mkdir()
            os.chdir(whole)
            KINDS[kind].make()
        os.chdir(folder)

    def _whole(self, kind: str) -> Path:
        return self.folder / kind.replace(" ", "_")

    def one(self, kind: str, seed: int) -> str:
        """The outcome of a mutant, which its seed decides."""
        rng = random.Random(f"{kind} {seed}")
        work = self.folder / "work"
        shutil.copytree(self._whole(kind), work)
        try:
            path = rng.choice(sorted(work.glob(KINDS[kind].damaged)))
            path.write_bytes(KINDS[kind].mutator(path.read_bytes(), rng))
            os.chdir(work)
            outcome, said = attempt(KINDS[kind].use)
        finally:
            os.chdir(self.folder)
            shutil.rmtree(work)
        self.outcomes[outcome] += 1
        self.by_kind[kind][outcome] += 1
        if outcome not in GOOD:
            self.failures.append((kind, seed, outcome, said))
        return outcome

    def campaign(self, runs: int, first: int = 0, say: Callable[[str], None] = lambda text: None) -> None:
        """As many mutants, the kinds in turn."""
        for i in range(runs):
            kind = self.kinds[i % len(self.kinds)]
            told = len(self.failures)
            self.one(kind, first + i)
            for failure in self.failures[told:]:
                say("--- {} {}: {}\n{}".format(*failure))
            if (i + 1) % 500 == 0:
                say(f"{i + 1}: {dict(self.outcomes)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant; each takes the next one")
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder), options.kind or tuple(KINDS))
        fuzz.campaign(options.runs, options.seed, lambda text: print(text, flush=True))
        for kind, outcomes in fuzz.by_kind.items():
            print(f"{kind}: {dict(outcomes)}")
        print(dict(fuzz.outcomes))
        os.chdir("/")
    sys.exit(bool(fuzz.failures))


if __name__ == "__main__":
    main()
