"""Which modules the Python layers of a net may import, and from where.

Importing a module runs its code, and a prototxt names the module. So no module is imported unless the command runs
nets, the user requests it (`-python DIR`), or a program uses the Python API. The current folder and the folder of the
prototxt are searched only if the user names them.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import CaffeliteError, reporting

VARIABLE = "CAFFELITE_PYTHON"

_refused = False
_given: tuple[str, ...] | None = None  # the user's folders and files; None: nothing may be imported


class NotImported(CaffeliteError):
    """A Python layer in a command that imports no modules: what the layer does is unknown, which is no mistake of the
    net."""


def permit(paths: Iterable[str | Path] = ()) -> None:
    """From now on layers import modules: from these folders, those of CAFFELITE_PYTHON, and where Python finds
    installed modules. Files among the paths are layer types of the user's own."""
    global _given
    _given = (*(_given or ()), *(str(Path(path).resolve()) for path in paths))


def refuse() -> None:
    """From now on this process imports no module, whatever is permitted later."""
    global _refused
    _refused = True


def permitted() -> bool:
    return _given is not None and not _refused


@contextmanager
def forbidden() -> Iterator[None]:
    """Within it layers import nothing until ``permit`` is called; afterwards everything is as before."""
    global _given
    before, _given = _given, None
    try:
        yield
    finally:
        _given = before


def folders() -> list[str]:
    """The folders that the user gave, by option or by CAFFELITE_PYTHON, each once."""
    return [path for path in _paths() if not os.path.isfile(path)]


def files() -> list[str]:
    """The files that the user gave in the same ways: layer types of the user's own."""
    return [path for path in _paths() if os.path.isfile(path)]


def _paths() -> list[str]:
    return list(dict.fromkeys([*(_given or ()), *_named()]))


def _named() -> list[str]:
    return [str(Path(part).resolve()) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]


def search_path() -> list[str]:
    """Where a layer's module is looked for: the user's folders, then sys.path without the current folder that an empty
    entry means."""
    return [*folders(), *(entry for entry in sys.path if entry)]


def leave_current_folder() -> None:
    """Takes the current folder off sys.path where `python -m` or an empty entry of PYTHONPATH put it, not where
    PYTHONPATH names it. Relative folders of CAFFELITE_PYTHON stay those of the current folder, also where a command
    changes to another one. Errors: it has been deleted."""
    with reporting("find the current folder", "change to one that exists: cd DIR"):
        here = os.path.realpath(os.getcwd())
    if VARIABLE in os.environ:
        os.environ[VARIABLE] = os.pathsep.join(_named())
    named = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if not any(os.path.realpath(part) == here for part in named):
        sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
