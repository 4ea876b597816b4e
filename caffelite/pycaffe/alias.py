"""The package under the name ``caffe``: for programs and layers that say ``import caffe``."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence

from ..errors import CaffeliteError

_SUBMODULES = (
    *("_caffe", "classifier", "coord_map", "detector", "draw", "io", "model_libs", "net_spec"),
    *("proto", "proto.caffe_pb2"),
)
_PACKAGE = __name__.rpartition(".")[0]


def modules() -> dict[str, types.ModuleType]:
    """The package and its public modules by their names under ``caffe``; ``caffe.pycaffe`` is the package too."""
    package = importlib.import_module(_PACKAGE)
    package_modules = {"caffe": package, "caffe.pycaffe": package}
    return package_modules | {f"caffe.{name}": importlib.import_module(f"{_PACKAGE}.{name}") for name in _SUBMODULES}


class Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``caffe.io`` and its like once a program has put this package into ``sys.modules`` as ``caffe``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("caffe.") or sys.modules.get("caffe") is not sys.modules.get(_PACKAGE):
            return None
        return importlib.util.spec_from_loader(name, self) if name in modules() else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = modules()[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:  # the import system has replaced it
            module.__spec__ = module.__spec__.loader_state


def register_as_caffe() -> None:
    """From now on ``import caffe`` gives this package in this process. Errors: another caffe can be imported."""
    if sys.modules.get("caffe") is sys.modules[_PACKAGE]:
        return
    spec = None if "caffe" in sys.modules else importlib.util.find_spec("caffe")
    if "caffe" in sys.modules or spec is not None and spec.origin is not None:  # a mere folder has no origin
        known = sys.modules.get("caffe")
        file = getattr(known, "__file__", None) or (spec.origin if spec else None)
        remedy = "remove its folder from PYTHONPATH and sys.path, or import caffelite.pycaffe by its own name"
        raise CaffeliteError("another caffe can be imported", found=file, remedy=remedy)
    sys.modules.update(modules())
