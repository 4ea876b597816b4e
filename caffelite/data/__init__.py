"""Where a net's samples come from: sources (LMDB, HDF5), their transforms, and the thread that keeps batches ready."""

from caffelite.data.pipeline import Share, Source
from caffelite.data.sources import open_source

__all__ = ["Share", "Source", "open_source"]
