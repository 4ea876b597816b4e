"""Tags and a note that a user gives a run, in its folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import inputs, stored
from ..errors import CaffeliteError, printable
from . import folder as files

LONGEST_TAG, MOST_TAGS, LONGEST_NOTE = 50, 50, 10_000  # characters, tags, characters


@dataclass(frozen=True)
class Notes:
    """tags: in alphabetical order, each once. note: any text."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read(folder: Path) -> Notes:
    """The notes of a run; empty where it has none."""
    found = stored.read(folder / files.NOTES, {"tags": [str], "note": str})
    return Notes(tuple(sorted({*found.get("tags", ())})), found.get("note", ""))


def change(folder: Path, *, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None) -> Notes:
    """Adds and removes tags, and replaces the note unless it is None.

    Errors: not the folder of a run; a tag with a comma or a control character; too long a text; the folder cannot be
    written.
    """
    if not any((folder / name).exists() for name in (files.RUN, files.CONFIG)):
        raise CaffeliteError(f"{folder} is not the folder of a run", expected="one that caffelite train wrote")
    before = read(folder)
    tags = ({*before.tags} | {_tag(tag) for tag in add}) - {tag.strip() for tag in remove}
    if len(tags) > MOST_TAGS:
        raise CaffeliteError("a run has too many tags", expected=f"at most {MOST_TAGS}", found=len(tags))
    if note is not None and len(note) > LONGEST_NOTE:
        raise CaffeliteError("the note is too long", expected=f"at most {LONGEST_NOTE} characters", found=len(note))
    found = Notes(tuple(sorted(tags)), before.note if note is None else note.replace("\r\n", "\n"))
    try:
        files.write_json(folder / files.NOTES, {"tags": list(found.tags), "note": found.note})
    except (OSError, UnicodeEncodeError) as error:
        raise CaffeliteError(f"cannot write {folder / files.NOTES}: {inputs.reason(error).lower()}") from None
    return found


def _tag(text: str) -> str:
    tag = text.strip()
    if not tag or len(tag) > LONGEST_TAG or "," in tag or not tag.isprintable():
        expected = f"1 to {LONGEST_TAG} characters without a comma"
        raise CaffeliteError("a tag cannot be used", expected=expected, found=f'"{printable(text, keep="")[:80]}"')
    return tag
