"""The jobs that this user added: a record of each, in the user's own folder (`runs/state.py`), until the job starts.

A folder of jobs may be written by others. So a scheduler starts a job only where job.json says what its record says;
what a job may do, and its texts, are in the record alone.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ... import inputs, stored
from ...errors import CaffeliteError
from .. import folder as files
from .. import state
from ..bounds.bounds import STORED, Bounds
from ..bounds.texts import Texts

FOLDER = "jobs"


def write(id: str, identity: dict[str, Any], bounds: Bounds, texts: Texts | None) -> None:
    """Records that this user added a job. identity: what it does, and in which folder. Errors: the user's folder cannot
    be written."""
    folder = state.made(FOLDER)
    try:
        if texts is not None:
            files.write_json(folder / f"{id}.texts.json", texts.to_json())
        files.write_json(folder / f"{id}.json", {**identity, "bounds": bounds.to_json()})
    except OSError as error:
        what = f"cannot write into {folder}: {inputs.reason(error).lower()}"
        raise CaffeliteError(what, remedy=state.REMEDY) from None


def read(id: str, identity: dict[str, Any]) -> Bounds | None:
    """The bounds of a job that this user added, which has not started; None for any other job."""
    found = stored.read(state.folder() / FOLDER / f"{id}.json", stored.ANY)
    bounds = found.pop("bounds", None)
    if not stored.fits(bounds, STORED) or _text(found) != _text(identity):
        return None
    return Bounds.from_json(bounds)


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)


def texts(id: str) -> Path | None:
    """The file with the texts of a job; None where it has none."""
    path = state.folder() / FOLDER / f"{id}.texts.json"
    return path if path.exists() else None


def begin(id: str) -> None:
    """Removes the record of a job that starts: it cannot start a second time. Errors: OSError."""
    (state.folder() / FOLDER / f"{id}.json").unlink()


def forget(id: str) -> None:
    """Removes what is left of a job that has ended."""
    for name in (f"{id}.json", f"{id}.texts.json"):
        with suppress(OSError):
            (state.folder() / FOLDER / name).unlink()
