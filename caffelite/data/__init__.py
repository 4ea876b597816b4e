"""Data loading: sources of samples, their transforms, and the threads that prefetch batches."""

from .names import sample_names
from .pipeline import Shard, Source, set_workers
from .sources import open_source

__all__ = ["Shard", "Source", "open_source", "sample_names", "set_workers"]
