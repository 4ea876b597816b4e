"""pycaffe's interface: ``import caffelite.pycaffe as caffe``.

Nets, solvers, layer messages and image helpers have the names, arguments and results of BVLC's Python package. Programs
that say ``import caffe`` run unchanged under ``python -m caffelite.pycaffe PROGRAM``, or after ``register_as_caffe()``.
"""

import importlib
import sys

from .. import user_modules
from ..caffelite_pb2 import TEST, TRAIN
from ..layers.base.extension_files import load_permitted
from ..layers.python import UserLayer as Layer
from . import proto
from .alias import Submodules
from .modes import (
    Timer,
    has_nccl,
    init_log,
    log,
    set_device,
    set_mode_cpu,
    set_mode_gpu,
    set_multiprocess,
    set_random_seed,
    set_solver_count,
    set_solver_rank,
    solver_count,
    solver_rank,
)

__version__ = "1.0.0"  # of the interface: BVLC's last release

_NAMES = {  # module: its names here; it is loaded on first use of one
    "net": "Net",
    "blob": "Blob",
    "solver": "Solver SGDSolver NesterovSolver AdaGradSolver RMSPropSolver AdaDeltaSolver AdamSolver NCCL get_solver",
    "net_spec": "NetSpec layers params to_proto layer_type_list layer_type_count",
    "classifier": "Classifier",
    "detector": "Detector",
    "alias": "register_as_caffe",
}
_LAZY = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = (
    *("_caffe", "alias", "blob", "classifier", "coord_map", "detector", "draw", "io", "model_libs", "net_spec"),
    "solver",
)

__all__ = [
    "TEST",
    "TRAIN",
    "Layer",
    "Timer",
    "__version__",
    "has_nccl",
    "init_log",
    "log",
    "proto",
    "set_device",
    "set_mode_cpu",
    "set_mode_gpu",
    "set_multiprocess",
    "set_random_seed",
    "set_solver_count",
    "set_solver_rank",
    "solver_count",
    "solver_rank",
    *_LAZY,
    "coord_map",
    "draw",
    "io",
]


if not any(isinstance(finder, Submodules) for finder in sys.meta_path):
    sys.meta_path.insert(0, Submodules())


def __getattr__(name: str) -> object:
    if name in _LAZY:
        value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


user_modules.permit()  # a program's sys.path is its own choice
load_permitted()
