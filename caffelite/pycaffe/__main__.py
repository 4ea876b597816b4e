"""``python -m caffelite.pycaffe PROGRAM [ARGUMENT]...``: runs a Python program that imports caffe."""

import os
import runpy
import sys

from ..errors import CaffeliteError
from ..layers.base.user_code import conversion, described
from .alias import modules

USAGE = "usage: python -m caffelite.pycaffe PROGRAM [ARGUMENT]..."


def main(arguments: list[str]) -> int:
    """Runs a program with ``caffe`` registered, even where another caffe can be imported. Returns the exit status."""
    if not arguments or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    program = arguments[0]
    if not os.path.isfile(program):
        print(f"python -m caffelite.pycaffe: there is no file {program}", file=sys.stderr)
        return 2
    sys.modules.update(modules())
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    try:
        runpy.run_path(program, run_name="__main__")
    except CaffeliteError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except Exception as mistake:
        remedy = conversion(mistake, None)
        if remedy is None:
            raise  # with its traceback, as Python shows it
        print(f"{program} {described(mistake, None)}; {remedy}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
