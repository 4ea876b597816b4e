"""caffelite trains Caffe nets: any prototxt and caffemodel, Caffe's numbers, on CPUs and NVIDIA GPUs."""

__version__ = "0.1.0"
__all__ = ["TEST", "TRAIN", "Net", "Solver", "__version__", "load", "models", "new"]


def __getattr__(name: str) -> object:
    """The Python API, loaded on first use, so that the command line starts fast."""
    if name in ("Net", "Solver", "TRAIN", "TEST", "load"):
        from . import api

        return getattr(api, name)
    if name == "new":
        from .scaffold.project import new

        return new
    if name == "models":
        from .zoo.catalog import shipped

        return shipped
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
