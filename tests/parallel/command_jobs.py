"""A job whose ranks run commands one after the other: mpirun -n N python command_jobs.py COMMANDS

COMMANDS: JSON with the arguments of each command by its name. At the end rank 0 prints, as JSON, the statuses of all
ranks by name, and what they wrote, joined.
"""

import contextlib
import io
import json
import logging
import sys

from caffelite import cli
from caffelite.parallel.transports.mpi import World


def run(commands: dict[str, list[str]]) -> dict[str, tuple[int, str]]:
    """The status and what each command wrote, in this process."""
    log, actual = logging.getLogger("caffelite"), {}
    before = log.handlers[:], log.level, log.propagate
    for name, words in commands.items():
        status, message = 0, io.StringIO()
        with contextlib.redirect_stdout(message), contextlib.redirect_stderr(message):
            try:
                cli.main(words)
            except SystemExit as end:
                status = end.code or 0
        log.handlers[:], log.level, log.propagate = before
        actual[name] = status, message.getvalue()
    return actual


def main() -> None:
    close, World.close = World.close, lambda world: None  # a process cannot start MPI again
    actual = run(json.loads(sys.argv[1]))
    world = World()
    every = world.gather(actual)
    if not world.rank:
        statuses = {name: [each[name][0] for each in every] for name in actual}
        print(json.dumps({name: (statuses[name], "".join(each[name][1] for each in every)) for name in actual}))
    close(world)


if __name__ == "__main__":
    main()
