"""caffelite trains Caffe nets: any prototxt and caffemodel, Caffe's numbers, on CPUs and NVIDIA GPUs."""

__version__ = "0.1.0"
__all__ = [
    "TEST",
    "TRAIN",
    "Net",
    "Run",
    "Solver",
    "__version__",
    "compare",
    "load",
    "models",
    "list_runs",
    "new_project",
    "train",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """The Python API, loaded on first use, so that the command line starts fast."""
    if name in ("Net", "Solver", "TRAIN", "TEST", "load"):
        from . import api

        return getattr(api, name)
    if name in ("Run", "list_runs", "train"):
        from . import run

        return getattr(run, name)
    if name == "compare":
        from .comparison.compare import compare

        return compare
    if name == "new_project":
        from .scaffold.project import new_project

        return new_project
    if name == "models":
        from .zoo.catalog import shipped

        return shipped
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
