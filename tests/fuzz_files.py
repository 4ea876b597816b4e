"""Damages files of every kind at random and reads each in a process of its own: each must be read, or one line must say
what is wrong with it.

python tests/fuzz_files.py --runs 5000 [--kind lmdb]
"""

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz_campaign import Campaign, main
from fuzz_kinds import KINDS


class FileFuzz(Campaign):
    """Damages one file of a data set and reads the data set."""

    def __init__(self, folder: Path, kinds: Sequence[str] = tuple(KINDS)):
        super().__init__(folder, kinds)
        for kind in kinds:
            original = self._original(kind)
            original.mkdir()
            os.chdir(original)
            KINDS[kind].make()
        os.chdir(folder)

    def _original(self, kind: str) -> Path:
        return self.folder / kind.replace(" ", "_")

    def prepare(self, subject: str, rng: random.Random, work: Path) -> Callable[[], None]:
        shutil.copytree(self._original(subject), work)
        path = rng.choice(sorted(work.glob(KINDS[subject].damaged)))
        path.write_bytes(KINDS[subject].mutator(path.read_bytes(), rng))
        return KINDS[subject].use


if __name__ == "__main__":
    main(FileFuzz, tuple(KINDS), "--kind", 5000)
