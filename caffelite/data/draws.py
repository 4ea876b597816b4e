"""Counter-based random numbers: a pure function of seed, layer and sample, so that a resume needs only a position.

They are raw words of Philox 4x64 (Salmon et al., 2011), which are the same in every release of NumPy.
"""

from __future__ import annotations

import hashlib

import numpy as np

Key = tuple[int, int]


def key(seed: int, *names: str | int) -> Key:
    """The key of one purpose; different names draw unrelated numbers."""
    digest = hashlib.blake2b(repr((seed, *names)).encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def per_sample(key: Key, start: int, samples: int) -> np.ndarray:
    """samples×4 of uint64: row i belongs to sample start + i of the run, whatever the batch around it."""
    return _words(key, start, 4 * samples).reshape(samples, 4)


def below(words: np.ndarray, limit: int | np.ndarray) -> np.ndarray:
    """Integers from 0 to limit - 1, one for each word; limit is less than 2^32."""
    return ((words >> np.uint64(32)) * np.asarray(limit, np.uint64)) >> np.uint64(32)


def permutation(key: Key, epoch: int, part: int, items: int) -> np.ndarray:
    """A permutation of 0 … items - 1 for one part of one epoch."""
    return np.argsort(_words(key, epoch << 128 | part << 64, items), kind="stable")


def of_sample(key: Key, sample: int, words: int, first: int = 0) -> np.ndarray:
    """Words first … first + words - 1 (uint64) of the endless row that belongs to one sample of the run; first is a
    multiple of 4."""
    return _words(key, (sample << 64) + first // 4, words)


def uniform(words: np.ndarray) -> np.ndarray:
    """Numbers of [0, 1), one for each word: its upper 53 bits."""
    return (words >> np.uint64(11)) * 2.0**-53


def _words(key: Key, counter: int, words: int) -> np.ndarray:
    return np.random.Philox(key=np.array(key, np.uint64), counter=counter).random_raw(words)
