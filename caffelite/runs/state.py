"""The user's own folder of state: what this user accepted, out of the reach of whoever writes into the folders of runs.

It is `CAFFELITE_STATE`, else `caffelite` in `XDG_STATE_HOME`, else `~/.local/state/caffelite`.
"""

import os
import stat
from pathlib import Path

from ..errors import CaffeliteError, reporting

VARIABLE = "CAFFELITE_STATE"
REMEDY = f"name another folder in the environment variable {VARIABLE}"


def folder() -> Path:
    """The folder, with symbolic links resolved. It need not exist."""
    named = os.environ.get(VARIABLE)
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(os.path.realpath(named or os.path.join(base, "caffelite")))


def made(name: str) -> Path:
    """A folder in the user's folder, which is made where it is missing. Errors: it cannot be written; other users can
    write it."""
    path = folder() / name
    with reporting(f"write {path}", REMEDY):
        for each in (path.parent, path):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = each.stat()
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
                raise CaffeliteError(f"other users can write {each}", expected="mode 700, owned by you", remedy=REMEDY)
    return path
