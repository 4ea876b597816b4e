"""Shipped nets and solvers, damaged at random, given to the commands that read prototxts: each ends in an answer or in
mistakes.

python tests/fuzz_commands.py --runs 2000 [--seed 0] [--command check]
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

import fuzz_workers
from click.testing import CliRunner
from fuzz_workers import attempt
from test_prototxt_mutations import SHIPPED, mutate

import caffelite
from caffelite import cli, user_modules
from caffelite.errors import CaffeliteError

ROOT = Path(caffelite.__file__).parent.parent
SOLVERS = [path for path in SHIPPED if path.parent.name == "solvers"]
NETS = [path for path in SHIPPED if path.parent.name != "solvers"]
COMMANDS = {
    "check": (SHIPPED, ["check", "mutant.prototxt"]),
    "summary": (NETS, ["summary", "-model", "mutant.prototxt"]),
    "summary of a solver": (SOLVERS, ["summary", "-solver", "mutant.prototxt"]),
    "draw": (NETS, ["draw", "-model", "mutant.prototxt", "-out", "net.svg"]),
    "explain": (NETS, ["explain", "{layer}", "-model", "mutant.prototxt"]),
    "diff": (NETS, ["diff", "{original}", "mutant.prototxt"]),
    "deploy": (
        NETS,
        ["deploy", "-model", "mutant.prototxt", "-out", "deploy.prototxt", "-samples", "0", "-shape", "3x224x224"],
    ),
    "upgrade": (SHIPPED, ["upgrade", "mutant.prototxt", "new.prototxt"]),
    "schedule": (SOLVERS, ["schedule", "-solver", "mutant.prototxt"]),
}  # the shipped files to damage, and what is called with one; without the proof of deploy, which runs nets


class Damaged(Exception):
    """What a command must not do: end with another status than 0, 1 or 2, or say nothing of its mistakes."""


def call(arguments: Sequence[str]) -> None:
    """Runs a command as ``main`` does. Errors: CaffeliteError or MemoryError as raised; Damaged."""
    words = [cli.normalise(word) for word in arguments]
    with user_modules.forbidden():
        result = CliRunner().invoke(cli.caffelite, words)
    error = result.exception
    if isinstance(error, (CaffeliteError, MemoryError)):
        raise error
    if isinstance(error, RecursionError):
        return  # main says in a line that the input is nested too deeply
    if error is not None and not isinstance(error, SystemExit):
        raise error
    if result.exit_code not in (0, 1, 2):
        raise Damaged(f"status {result.exit_code}: {result.output}")
    if result.exit_code and not result.output.strip():
        raise Damaged(f"status {result.exit_code} without a word")


class Fuzz:
    """Damages and calls below a folder. A mutant lies beside links to the shipped nets, where solvers look for them.

    outcomes: how many mutants came to what; failures: (command, seed, outcome, what was said).
    """

    def __init__(self, folder: Path, commands: Sequence[str] = tuple(COMMANDS)):
        self.folder, self.commands = folder, commands
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.failures: list[tuple[str, int, str, str]] = []
        for command in commands:  # imports what it needs, before the processes are forked
            call([command.split()[0], "--help"])
        call(["check", str(SOLVERS[0])])

    def mutant(self, command: str, seed: int) -> tuple[str, list[str]]:
        """(the damaged text, the command's arguments), as the seed decides."""
        rng = random.Random(f"{command} {seed}")
        files, arguments = COMMANDS[command]
        path = rng.choice(files)
        text = path.read_text()
        layers = [part.split('"')[1] for part in text.split("name:")[1:] if part.count('"') > 1] or ["x"]
        values = {"layer": rng.choice(layers), "original": str(path)}
        return mutate(text, rng), [argument.format(**values) for argument in arguments]

    def one(self, command: str, seed: int) -> str:
        """The outcome of a mutant."""
        text, arguments = self.mutant(command, seed)
        work = self.folder / "work"
        work.mkdir()
        for name in ("models", "solvers"):
            (work / name).symlink_to(ROOT / name)
        try:
            (work / "mutant.prototxt").write_bytes(text.encode(errors="surrogatepass"))
            os.chdir(work)
            outcome, said = attempt(lambda: call(arguments))
        finally:
            os.chdir(self.folder)
            shutil.rmtree(work)
        self.outcomes[outcome] += 1
        if outcome not in fuzz_workers.GOOD:
            self.failures.append((command, seed, outcome, said))
        return outcome

    def campaign(self, runs: int, first: int = 0, say: Callable[[str], None] = lambda text: None) -> None:
        """As many mutants, the commands in turn."""
        for i in range(runs):
            told = len(self.failures)
            self.one(self.commands[i % len(self.commands)], first + i)
            for failed in self.failures[told:]:
                say("--- {} {}: {}\n{}".format(*failed))
            if (i + 1) % 500 == 0:
                say(f"{i + 1}: {dict(self.outcomes)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant; each takes the next one")
    parser.add_argument("--command", choices=COMMANDS, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(Path(folder), options.command or tuple(COMMANDS))
        fuzz.campaign(options.runs, options.seed, lambda text: print(text, flush=True))
        print(dict(fuzz.outcomes))
        os.chdir("/")
    sys.exit(bool(fuzz.failures))


if __name__ == "__main__":
    main()
