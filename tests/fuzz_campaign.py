"""Runs many mutants, each in a process of its own, and counts how they end."""

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz_workers import GOOD, attempt


class Campaign:
    """Mutants of several subjects. Subclasses implement ``prepare``.

    folder: where the mutants are made and used, one at a time. outcomes: how many mutants ended how, by_subject: the
    same for each subject; failures: (subject, seed, outcome, message).
    """

    def __init__(self, folder: Path, subjects: Sequence[str]):
        self.folder, self.subjects = folder, tuple(subjects)
        self.by_subject = {subject: collections.Counter() for subject in self.subjects}
        self.failures: list[tuple[str, int, str, str]] = []

    @property
    def outcomes(self) -> collections.Counter[str]:
        return sum(self.by_subject.values(), collections.Counter())

    def prepare(self, subject: str, rng: random.Random, work: Path) -> Callable[[], None]:
        """Makes the folder ``work`` with a mutant in it; returns what uses it, called in another process."""
        raise NotImplementedError

    def one(self, subject: str, seed: int) -> str:
        """The outcome of one mutant, which depends on the subject and the seed alone."""
        work = self.folder / "work"
        try:
            use = self.prepare(subject, random.Random(f"{subject} {seed}"), work)
            os.chdir(work)
            outcome, message = attempt(use)
        finally:
            os.chdir(self.folder)
            shutil.rmtree(work)
        self.by_subject[subject][outcome] += 1
        if outcome not in GOOD:
            self.failures.append((subject, seed, outcome, message))
        return outcome

    def run(self, runs: int, first: int = 0, report: Callable[[str], None] = lambda text: None) -> None:
        """So many mutants, the subjects in turn. first: the seed of the first mutant."""
        for i in range(runs):
            before = len(self.failures)
            self.one(self.subjects[i % len(self.subjects)], first + i)
            for failure in self.failures[before:]:
                report("--- {} {}: {}\n{}".format(*failure))
            if (i + 1) % 500 == 0:
                report(f"{i + 1}: {dict(self.outcomes)}")


def main(campaign: Callable[[Path, Sequence[str]], Campaign], subjects: Sequence[str], option: str, runs: int) -> None:
    """The command line of a campaign. option: the name of the option that chooses subjects; runs: the default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant; the others count up")
    parser.add_argument(option, choices=subjects, action="append", dest="chosen")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        actual = campaign(Path(folder), options.chosen or subjects)
        actual.run(options.runs, options.seed, lambda text: print(text, flush=True))
        for subject, outcomes in actual.by_subject.items():
            print(f"{subject}: {dict(outcomes)}")
        print(dict(actual.outcomes))
        os.chdir("/")
    sys.exit(bool(actual.failures))
