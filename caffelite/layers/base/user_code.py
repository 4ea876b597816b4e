"""Code of users that layers run: imports its modules, provides ``caffe`` to them, and describes their mistakes."""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import traceback
import types
from collections.abc import Iterator, Sequence

from ... import user_modules
from ...errors import quoted

PYCAFFE = "caffelite.pycaffe.alias"  # imported by name when a module imports caffe: it stands above the layers

# What only Python 2 has: syntax, by the line and by Python's message; modules, names and methods
_OLD_LINES = re.compile(
    r"""^\s*(print\s+[^(=\s.]|print\s*>>|exec\s+['"\w]|raise\s+\w[\w.]*\s*,|except\s+[\w.]+\s*,\s*\w+\s*:)"""
    r"""|`|<>|\b\d+[lL]\b|\b0\d+\b|\bur['"]|lambda\s*\(|def\s+\w+\(.*\(\w+,"""
)
_OLD_SYNTAX = re.compile(
    r"Missing parentheses in call to|multiple exception types must be parenthesized|inconsistent use of tabs"
    r"|leading zeros"
)
_OLD_MODULES = frozenset(
    "cPickle StringIO cStringIO Queue ConfigParser urllib2 httplib Tkinter __builtin__ copy_reg thread".split()
)
_OLD_NAMES = frozenset(
    "xrange unicode raw_input basestring long unichr reduce cmp execfile reload izip imap iteritems itervalues "
    "iterkeys has_key".split()
)


class _CaffeFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``caffe`` where no other finder does: the package caffelite.pycaffe, under that name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "caffe":
            return None
        modules: dict[str, types.ModuleType] = importlib.import_module(PYCAFFE).modules()
        self.names, self._package = list(modules), modules.pop("caffe")
        sys.modules.update(modules)  # without caffe: Python would take the package's own spec, and execute it again
        self._spec = self._package.__spec__
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._package

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has replaced it


@contextlib.contextmanager
def caffe_importable() -> Iterator[None]:
    """Within it ``import caffe`` gives caffelite.pycaffe, unless a caffe is installed; afterwards no module is
    registered under that name."""
    finder = _CaffeFinder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in finder.names:
            sys.modules.pop(name, None)


def load(name: str) -> types.ModuleType:
    """Imports a module by name from the folders of `user_modules`."""
    importlib.invalidate_caches()
    known = list(sys.path)
    sys.path[:] = user_modules.search_path()
    try:
        with caffe_importable():
            return importlib.import_module(name)
    finally:
        sys.path[:] = known + [
            f for f in user_modules.folders() if f not in known
        ]  # last: for what the module imports later


def described(mistake: Exception, file: str | None) -> str:
    """The exception of user code and its location: the last line in the user's file, else the last of the traceback."""
    if isinstance(mistake, SyntaxError) and mistake.filename:
        return f"does not parse: {mistake.msg} ({mistake.filename}:{mistake.lineno})"
    frame = _place(mistake, file)
    return f"raised {type(mistake).__name__}: {mistake} ({frame.filename}:{frame.lineno})"


def _place(mistake: Exception, file: str | None) -> traceback.FrameSummary:
    frames = traceback.extract_tb(mistake.__traceback__)
    layers = (__file__, __file__.replace("user_code", "python"))
    own = [f for f in frames if f.filename == file] or [
        f for f in frames if "importlib" not in f.filename and f.filename not in layers
    ]
    return (own or frames)[-1]


def conversion(mistake: Exception, file: str | None) -> str | None:
    """The remedy where the exception shows that a file is written for Python 2, else None."""
    if isinstance(mistake, SyntaxError):
        old = bool(_OLD_SYNTAX.search(mistake.msg or "") or _OLD_LINES.search(mistake.text or ""))
    else:
        names = _OLD_MODULES if isinstance(mistake, ModuleNotFoundError) else _OLD_NAMES
        old = getattr(mistake, "name", None) in names
    if not old:
        return None
    path = mistake.filename if isinstance(mistake, SyntaxError) else _place(mistake, file).filename
    return f"the file is written for Python 2: convert it with python -m fissix -w {quoted(path)} (pip install fissix)"
