"""Loads the layer types of users: files and folders given by -python and CAFFELITE_PYTHON, and installed packages.

Loading runs code, so it happens only where Python layers may import modules (see ``user_modules``).
"""

import functools
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

from ... import user_modules
from ...errors import CaffeliteError, quoted
from .layer import REGISTRY
from .registry import import_modules
from .user_code import caffe_importable, conversion, described

GROUP = "caffelite.layers"  # of entry points
_IMPORT = re.compile(rb"^\s*(?:from|import)\s+caffelite\.extending\b", re.MULTILINE)
_loaded: set[str] = set()


def load_permitted() -> None:
    """Loads, each once, what the user has given, where modules may be imported. In a folder these are the files that
    import caffelite.extending, or all of them if it is a package. Errors: a file that raises, or that has no layer."""
    if not user_modules.permitted():
        return
    for path in user_modules.files():
        module = _load(Path(path))
        if module and not any(kind.__module__ == module for kind in REGISTRY.values()):
            remedy = f"modules of Python layers are given by their folder: -python {quoted(Path(path).parent)}"
            raise CaffeliteError(f"{path} defines no layer type", expected='a class with @layer("Name")', remedy=remedy)
    for folder in map(Path, user_modules.folders()):
        if (folder / "__init__.py").is_file():
            _load(folder)
            continue
        for file in sorted(folder.glob("*.py")):
            if file.is_file() and _IMPORT.search(file.read_bytes()):
                _load(file)
    for point in _entry_points(tuple(sys.path)):
        if point.value not in _loaded:
            _loaded.add(point.value)
            try:
                point.load()
            except CaffeliteError:
                raise
            except Exception as mistake:  # an installed package may raise anything
                name = point.dist.name if point.dist else point.name
                raise CaffeliteError(f"the installed package {name} {described(mistake, None)}") from mistake


@functools.cache
def _entry_points(folders: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """Those of our group in the packages of these folders, which are those of sys.path."""
    return importlib.metadata.entry_points(group=GROUP)


def _load(path: Path) -> str | None:
    """Imports a file or a package under a name that no other module has, and returns it; None: it is loaded already."""
    if str(path) in _loaded:
        return None
    name, package = f"caffelite_extension_{path.stem}", path.is_dir()
    if name in sys.modules:
        name += f"_{len(_loaded)}"
    start = path / "__init__.py" if package else path
    folders = [str(path)] if package else None
    spec = importlib.util.spec_from_file_location(name, start, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise CaffeliteError(f"{path} is no Python file", expected="a name that ends in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    _loaded.add(str(path))  # before it runs: it may import caffe, which loads what is permitted
    try:
        with caffe_importable():
            spec.loader.exec_module(module)
            if package:
                import_modules(name)
    except Exception as mistake:  # a user's file may raise anything
        del sys.modules[name]
        _loaded.discard(str(path))
        if isinstance(mistake, CaffeliteError):
            raise CaffeliteError(f"{path}: {mistake}") from mistake
        what = f"{path} {described(mistake, str(start))}"
        raise CaffeliteError(what, remedy=conversion(mistake, str(start))) from mistake
    return name
