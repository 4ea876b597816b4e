"""Where a net's samples come from: sources, their transforms, and the threads that keep batches ready."""

from .names import sample_names
from .pipeline import Share, Source, set_workers
from .sources import open_source

__all__ = ["Share", "Source", "open_source", "sample_names", "set_workers"]
