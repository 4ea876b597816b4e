"""The terms of a job, which its processes inherit in an environment variable: its bounds, and the texts of its solver
and nets as they were when it was added."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ... import inputs, stored, user_modules
from ...errors import CaffeliteError
from . import checks
from .bounds import Bounds
from .texts import STORED, Texts

VARIABLE = "CAFFELITE_TERMS"  # {"bounds", "texts": a file of `Texts`, or ""}


def environment(bounds: Bounds, texts: Path | None) -> dict[str, str]:
    """The variable for the processes of a job. texts: the file of its texts."""
    return {VARIABLE: json.dumps({"bounds": bounds.to_json(), "texts": str(texts or "")})}


def inherited() -> Bounds:
    """The bounds of this process, which hold for the jobs that it adds."""
    text = os.environ.get(VARIABLE)
    return Bounds.from_json(json.loads(text)["bounds"]) if text else Bounds()


def apply(words: Sequence[str]) -> None:
    """Makes this process, which runs a command of a job, read the texts of the job, and refuses what its bounds forbid.
    Errors: as for `checks.refuse_command`; the texts are gone."""
    texts = _texts()
    if texts:
        inputs.replace(texts.bodies())
    bounds = inherited()
    if not bounds.python:
        user_modules.refuse()
    checks.refuse_command(bounds, words, Path.cwd())


def changes() -> Iterator[str]:
    """A sentence for each file of the job that has changed since it was added."""
    texts = _texts()
    for path in texts.changed() if texts else ():
        use = f"as it was on {texts.added}" if texts and path in texts.copies else "as it is now"
        yield f"{path} has changed since this job was added; the job uses it {use}"


def _texts() -> Texts | None:
    path = json.loads(os.environ.get(VARIABLE, "{}")).get("texts")
    try:
        return Texts.from_json(stored.load(path, STORED, most=inputs.LIST)) if path else None
    except CaffeliteError as error:
        raise CaffeliteError(f"the texts of this job cannot be read: {error}", remedy="add the job again") from None
