"""Damages shipped nets and solvers at random and gives them to the commands that read prototxts: each must end with a
result or with reported mistakes.

python tests/fuzz_commands.py --runs 2000 [--seed 0] [--command check]
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from click.testing import CliRunner
from fuzz_campaign import Campaign, main
from prototxt.test_prototxt_mutations import SHIPPED, mutate

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


class BadEnd(Exception):
    """A command ended with another status than 0, 1 or 2, or failed without a message."""


def call(arguments: Sequence[str]) -> None:
    """Runs a command as ``main`` does. Errors: CaffeliteError or MemoryError as raised; BadEnd."""
    words = [cli.normalize(word) for word in arguments]
    with user_modules.forbidden():
        result = CliRunner().invoke(cli.caffelite, words)
    error = result.exception
    if isinstance(error, (CaffeliteError, MemoryError)):
        raise error
    if isinstance(error, RecursionError):
        return  # main reports it in one line: the input is nested too deeply
    if error is not None and not isinstance(error, SystemExit):
        raise error
    if result.exit_code not in (0, 1, 2):
        raise BadEnd(f"status {result.exit_code}: {result.output}")
    if result.exit_code and not result.output.strip():
        raise BadEnd(f"status {result.exit_code} without a message")


class CommandFuzz(Campaign):
    """Damages prototxts and calls commands. A mutant is next to links to the shipped nets, where solvers find
    them."""

    def __init__(self, folder: Path, commands: Sequence[str] = tuple(COMMANDS)):
        super().__init__(folder, commands)
        for command in commands:  # imports what it needs, before the processes are forked
            call([command.split()[0], "--help"])
        call(["check", str(SOLVERS[0])])

    def mutant(self, command: str, rng: random.Random) -> tuple[str, list[str]]:
        """(the damaged text, the command's arguments)."""
        files, arguments = COMMANDS[command]
        path = rng.choice(files)
        text = path.read_text()
        layers = [part.split('"')[1] for part in text.split("name:")[1:] if part.count('"') > 1] or ["x"]
        values = {"layer": rng.choice(layers), "original": str(path)}
        return mutate(text, rng), [argument.format(**values) for argument in arguments]

    def prepare(self, subject: str, rng: random.Random, work: Path) -> Callable[[], None]:
        text, arguments = self.mutant(subject, rng)
        work.mkdir()
        for name in ("models", "solvers"):
            (work / name).symlink_to(ROOT / name)
        (work / "mutant.prototxt").write_bytes(text.encode(errors="surrogatepass"))
        return partial(call, arguments)


if __name__ == "__main__":
    main(CommandFuzz, tuple(COMMANDS), "--command", 2000)
