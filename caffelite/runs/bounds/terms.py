"""The terms of a job, which its processes inherit in an environment variable: its bounds, and the texts of its solver
and nets as they were when it was added.

The texts are copies of the solver, the nets and short files that these name, and the digests of all. A later edit of a
file does not change the job; where no copy is kept, as of lists, the change is named.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ... import caffelite_pb2 as pb
from ... import inputs, stored, user_modules
from ...errors import CaffeliteError
from ...inspection.reading import Findings, read
from ...prototxt import Document
from ...prototxt.overrides import Overrides
from . import checks
from .bounds import Bounds
from .named_files import NETS, named_files

SHORT = 1 << 20  # bytes of a file that is copied besides solvers and nets
STORED_TEXTS = {"copies": {str: str}, "digests": {str: str}, "added": str}
LISTS = ("source", "label_source", "root_folder")  # fields of which no copy is kept: lists may be long


@dataclass
class Texts:
    """copies: text by path, links resolved. digests: of every file, also those without a copy. added: when."""

    copies: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    added: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))

    def bodies(self) -> dict[str, bytes]:
        """The copies as bytes."""
        return {path: text.encode("utf-8", "surrogateescape") for path, text in self.copies.items()}

    def add(self, path: Path, copy: bool, most: int = inputs.TEXT) -> None:
        """Adds a file; one that cannot be read, or is no file, is left out."""
        name = os.path.realpath(path)
        body = _body(path)
        if body is None:
            return
        self.digests[name] = hashlib.sha256(body).hexdigest()
        if copy and len(body) <= most and b"\0" not in body:
            self.copies[name] = body.decode("utf-8", "surrogateescape")

    def changed(self) -> Iterator[str]:
        """The files that are not what they were, or are gone."""
        for path, digest in self.digests.items():
            body = _body(Path(path), raw=True)
            if body is None or hashlib.sha256(body).hexdigest() != digest:
                yield path

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"copies": self.copies, "digests": self.digests, "added": self.added}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Texts:
        """The texts of ``to_json``."""
        return cls(content["copies"], content["digests"], content["added"])


def _body(path: Path, raw: bool = False) -> bytes | None:
    """The content of a regular file of at most inputs.TEXT bytes; None for others. raw: on the disk, not the copy that
    this process may have."""
    try:
        if raw:
            with inputs.open_file(path, inputs.TEXT) as file:
                return file.readall()
        return inputs.read(path, inputs.TEXT)
    except OSError:
        return None


def of_solver(solver: Path, overrides: Overrides, directory: Path) -> Texts:
    """The texts of a training run. directory: where relative paths start. A file that cannot be read is left out: the
    run reports it."""
    texts = Texts()
    texts.add(solver, copy=True)
    reading = read(str(solver), Findings(), (pb.SolverParameter,))
    if reading is None:
        return texts
    document = Document(reading.message, reading.locate)
    with suppress(CaffeliteError):
        document = overrides.solver(document)
    message = document.message
    specs = [SimpleNamespace(message=net, locate=document.locate) for net in _inside(message)]
    for name in NETS:
        value = getattr(message, name)
        for text in [value] if isinstance(value, str) else value:
            path = _place(text, directory, solver.parent) if text else None
            if path is None:
                continue
            texts.add(path, copy=True)
            net = read(str(path), Findings(), (pb.NetParameter,))
            if net is not None:
                specs.append(SimpleNamespace(message=net.message, locate=net.locate))
    with suppress(CaffeliteError):
        overrides.nets(specs)
    for spec in specs:
        folder = Path(spec.locate.file).parent
        for each in named_files(spec.message):
            if path := _place(each.text, directory, folder):
                texts.add(path, each.field not in LISTS, SHORT)
    return texts


def _inside(message: pb.SolverParameter) -> list[pb.NetParameter]:
    return [message.net_param, message.train_net_param, *message.test_net_param]


def _place(text: str, directory: Path, folder: Path) -> Path | None:
    """The regular file that a text names, as ``prototxt.resolve`` finds it."""
    for path in (directory / text, folder / text):
        with suppress(OSError, ValueError):
            if stat.S_ISREG(os.stat(path).st_mode):
                return path
    return None


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
        return Texts.from_json(stored.load(path, STORED_TEXTS, most=inputs.LIST)) if path else None
    except CaffeliteError as error:
        raise CaffeliteError(f"the texts of this job cannot be read: {error}", remedy="add the job again") from None
