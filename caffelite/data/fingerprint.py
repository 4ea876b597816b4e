"""What a data set is known by, so that a resumed run notices that it has changed: a few facts in words."""

import hashlib
from collections.abc import Iterable

import numpy as np

SAMPLED = 64  # samples whose content counts
MOST_LABELS = 40  # a longer list of labels becomes its digest

Facts = dict[str, str]  # in words, by name


def sampled(length: int) -> np.ndarray:
    """The numbers of the samples whose content counts, evenly spaced."""
    return np.unique(np.linspace(0, length - 1, min(length, SAMPLED)).astype(np.int64))


def digest(contents: Iterable[bytes | np.ndarray]) -> str:
    """Of bytes, and of arrays with their shapes."""
    hashed = hashlib.blake2b(digest_size=8)
    for content in contents:
        if isinstance(content, np.ndarray):
            hashed.update(f"{content.dtype.str}{content.shape}".encode())
            content = np.ascontiguousarray(content).tobytes()
        hashed.update(b"%d " % len(content))
        hashed.update(content)
    return hashed.hexdigest()


def histogram(labels: np.ndarray) -> str:
    """How often each label comes."""
    values, counts = np.unique(labels, return_counts=True)
    if len(values) > MOST_LABELS:
        return f"{len(values)} labels, digest {digest([values, counts])}"
    return ", ".join(f"{count} of {value:g}" for value, count in zip(values.tolist(), counts.tolist(), strict=True))


def shown(values: np.ndarray) -> str:
    """Numbers in words."""
    if values.size > MOST_LABELS:
        return f"{values.size} values, digest {digest([values])}"
    return ", ".join(f"{value:g}" for value in values.reshape(-1).tolist())
