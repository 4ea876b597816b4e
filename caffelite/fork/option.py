"""Which fork's schema and code this process uses: that of `-fork DIR`, of CAFFELITE_FORK, or of a program's argument.

The code of a fork is compiled and run, so only the user's own word names one: never a prototxt, a run folder, a page or
somebody else's job.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError
from ..layers import REGISTRY
from ..layers.base.feeding import Feeding
from ..layers.base.layer import Layer
from ..prototxt import foreign
from ..prototxt.dialects import modern_type
from ..weights import layout
from . import history, schema as schemas
from .text import MODES, ForkText
from .wire import ForkFiles

VARIABLE = "CAFFELITE_FORK"
_CASE = re.compile(r"case\s+V1LayerParameter_LayerType_(\w+)\s*:\s*return\s+\"(\w+)\"")

_current: "Fork | None" = None
_refused = False


class Fork:
    """A fork in use. tree: its sources; schema: of its messages. mode: which layers its code runs, of ``MODES``."""

    def __init__(self, path: str | Path, mode: str = "missing"):
        from . import tree as trees

        if mode not in MODES:
            raise CaffeliteError("-fork-layers is unknown", expected=f"one of {', '.join(MODES)}", found=mode)
        self.path, self.mode = Path(path).resolve(), mode
        self.tree = trees.read(path)
        self.schema = schemas.read(self.tree.proto) if self.tree.proto else schemas.bvlc()
        self.text = ForkText(self.schema, self, self.name, mode)
        self._added: list[type[Layer]] = []
        self._replaced: dict[str, type[Layer]] = {}

    @property
    def name(self) -> str:
        """As messages name the fork."""
        return self.path.name or str(self.path)

    @cached_property
    def _digests(self) -> dict[str, str]:
        sources = hashlib.blake2b(digest_size=16)
        for path, text in sorted(self.tree.files.items()):
            sources.update(f"{self.tree.location(path)}\0{text}\0".encode("utf-8", "surrogateescape"))
        proto = hashlib.blake2b(self.schema.descriptor_set, digest_size=16)
        return {"proto": proto.hexdigest(), "sources": sources.hexdigest()}

    def digests(self) -> dict[str, str]:
        """What identifies the files: of caffe.proto and of all sources."""
        return self._digests

    def record(self) -> dict[str, str]:
        """What the record of a run says of the fork."""
        return {"path": str(self.path), "layers": self.mode, **self.digests()}

    # the types, as ForkText asks for them

    def source_name(self, name: str) -> str | None:
        candidates = (name, self.modern_name(name), self._words.get(name, name))
        return next((each for each in candidates if each in self.tree.types), None)

    def changed(self, name: str) -> bool:
        return bool(self.changed_files(name))

    def changed_files(self, name: str) -> list[Path]:
        """The sources of a type of BVLC's that are as in no version of BVLC's Caffe."""
        source = self.tree.types.get(self.source_name(name) or "")
        paths = [path for path in (*source.files, *source.cuda) if history.is_of_bvlc(path.name)] if source else []
        return [path for path in paths if not history.is_unchanged(path.name, self.tree.files[path])]

    def modern_name(self, word: str) -> str:
        if word in pb.V1LayerParameter.LayerType.keys():  # noqa: SIM118  # it is an enum
            return modern_type(word)
        return self._modern_names.get(word, word)

    @cached_property
    def _modern_names(self) -> dict[str, str]:
        """The names of types by V1's words, as the fork upgrades them."""
        return dict(pair for text in self.tree.files.values() for pair in _CASE.findall(text))

    @cached_property
    def _words(self) -> dict[str, str]:
        """V1's words by the names of types, in a fork whose types are an enum."""
        return {self.modern_name(word): word for word in self.tree.types} if self.schema.enum else {}

    def register(self, name: str) -> type[Layer]:
        """Makes a type one of the fork's own code, beside caffelite's of this name if there is one."""
        from .layer import layer_class

        if added := next((kind for kind in self._added if kind.type == name), None):
            return added
        kind = layer_class(self, name)
        if (known := REGISTRY.get(name)) and issubclass(known, Feeding):
            self._replaced[name] = known  # how nets are fed is asked of a type
            REGISTRY.add(name, kind)
        elif known:
            kind.differentiable, kind.constant_bottoms = known.differentiable, known.constant_bottoms
            REGISTRY.add_variant(name, lambda spec: spec.HasField("fork"), kind, first=True)
        else:
            REGISTRY.add(name, kind)
        self._added.append(kind)
        return kind

    @contextmanager
    def reading(self, mode: str) -> Iterator[None]:
        """Within it nets are read with other layers for the fork's code."""
        before, foreign.current = foreign.current, ForkText(self.schema, self, self.name, mode)
        try:
            yield
        finally:
            foreign.current = before

    def own_types(self) -> list[str]:
        """The types that nets have asked for, as the sources name them."""
        return [source for kind in self._added if (source := self.source_name(kind.type))]

    def leave(self) -> None:
        """Takes the types out of the registry."""
        for kind in self._added:
            REGISTRY.remove_variant(kind)
            if REGISTRY.get(kind.type) is kind:
                REGISTRY.remove(kind.type)
        for name, kind in self._replaced.items():
            REGISTRY.add(name, kind)
        self._added.clear()
        self._replaced.clear()


def use(path: str | os.PathLike[str] | None = None, mode: str | None = None) -> None:
    """From now on this process reads and runs nets as the fork in a folder has them; None: the one that CAFFELITE_FORK
    names, if it does. Errors: CaffeliteError; another fork is in use; nothing that is native may run here."""
    global _current
    if path and _refused:
        raise CaffeliteError("no code of a fork may run here", found=f"-fork {path}", remedy="run it yourself")
    path = path or (None if _refused else os.environ.get(VARIABLE))
    if not path:
        if mode:
            raise CaffeliteError("-fork-layers goes with -fork", remedy="name the folder of the fork: -fork DIR")
        return
    mode = mode or "missing"
    if _current is not None:
        if (_current.path, _current.mode) == (Path(path).resolve(), mode):
            return
        what = f"one process reads nets of one fork, and this one uses {_current.path}"
        raise CaffeliteError(what, found=str(path), remedy="start another process")
    fork = Fork(Path(path), mode)
    _current, foreign.current = fork, fork.text
    layout.use(ForkFiles(fork.schema, fork.text, fork.name))


def current() -> Fork | None:
    return _current


def refuse() -> None:
    """From now on this process uses no fork."""
    global _refused
    _refused = True
    leave()


def leave() -> None:
    """From now on nets are Caffe's."""
    global _current
    if _current is not None:
        _current.leave()
        layout.use(None)
    _current = foreign.current = None
