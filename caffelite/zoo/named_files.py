"""What -model and -solver name: a file, the folder of a project, or a net that ships with weights."""

import os
from collections.abc import Sequence

from ..errors import CaffeliteError
from ..file_names import SOLVER

SHOWN_FILES = 5


def solver(text: str | None) -> str | None:
    """The path of a solver, which a folder of a project has too."""
    return in_folder(text, (SOLVER,)) if text and os.path.isdir(text) else text


def net(names: Sequence[str], text: str | None) -> str | None:
    """The path of a net. text: a file, a folder with one of these files, or the name of a net that ships with weights,
    also where a folder of that name has none of them. Errors: none of them."""
    if text and os.path.isdir(text):
        try:
            return in_folder(text, names)
        except CaffeliteError as error:
            without = error
    elif not text or "." in text or os.sep in text or os.path.isfile(text):
        return text
    else:
        without = None
    from ..zoo import trained

    try:
        return str(trained.find(text).deploy)
    except CaffeliteError as error:
        raise without or CaffeliteError(f"no file {text}, and {error}") from None


def in_folder(folder: str, names: Sequence[str]) -> str:
    """The first of these files in a folder, as caffelite new names them. Errors: there is none."""
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    prototxts = sorted(name for name in os.listdir(folder) if name.endswith(".prototxt"))[:SHOWN_FILES]
    expected = f"a file, or a folder with {' or '.join(names)}"
    raise CaffeliteError(f"{folder} is a folder", expected=expected, found=", ".join(prototxts) or "no prototxt in it")
