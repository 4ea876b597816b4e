"""Names of samples: their index, with the key or file where the source has one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .database import Datums
from .files import Pictures
from .pipeline import Source
from .samples import DataSource, Samples


def sample_names(source: Source, positions: Sequence[int]) -> list[str]:
    """For each position of a run, "sample NUMBER", with the record's key or the file's name in brackets where there is
    one.

    Of sources without numbers, HDF5's, it is the place in the epoch.
    """
    found = []
    for position in positions:
        if not isinstance(source, DataSource):
            found.append("place {1} of epoch {0}".format(*divmod(position, source.length)))
            continue
        number = int(source.order(position, 1)[0])
        name = _name(source.samples, number)
        found.append(f"sample {number}" + f" ({name})" * bool(name))
    return found


def _name(samples: Samples, number: int) -> str:
    if isinstance(samples, Pictures):
        return samples.place(number)[0]
    if isinstance(samples, Datums):
        (content,) = samples.read(np.array([number]))
        return bytes(content[0]).decode(errors="backslashreplace")
    return ""
