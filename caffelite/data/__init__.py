"""Data loading: sources of samples, their transforms, and the threads that prefetch batches."""

from .fingerprint import Facts
from .pipeline import Shard, Source, set_workers
from .sources import open_source

__all__ = ["Facts", "Shard", "Source", "open_source", "set_workers"]
