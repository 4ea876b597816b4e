"""The package under the name ``caffe``: for programs and layers that say ``import caffe``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types

from ..errors import CaffeliteError

_SUBMODULES = ("classifier", "coord_map", "detector", "draw", "io", "net_spec", "proto", "proto.caffe_pb2")
_PACKAGE = __name__.rpartition(".")[0]


def modules() -> dict[str, types.ModuleType]:
    """The package and its public modules by their names under ``caffe``; ``caffe.pycaffe`` is the package too."""
    package = importlib.import_module(_PACKAGE)
    found = {"caffe": package, "caffe.pycaffe": package}
    return found | {f"caffe.{name}": importlib.import_module(f"{_PACKAGE}.{name}") for name in _SUBMODULES}


def register_as_caffe() -> None:
    """From now on ``import caffe`` gives this package in this process. Errors: another caffe can be imported."""
    if sys.modules.get("caffe") is sys.modules[_PACKAGE]:
        return
    if "caffe" in sys.modules or importlib.util.find_spec("caffe") is not None:
        known = sys.modules.get("caffe")
        spec = importlib.util.find_spec("caffe") if known is None else None
        place = getattr(known, "__file__", None) or (spec.origin if spec else None)
        remedy = "remove its folder from PYTHONPATH and sys.path, or import caffelite.pycaffe by its own name"
        raise CaffeliteError("another caffe can be imported", found=place, remedy=remedy)
    sys.modules.update(modules())
