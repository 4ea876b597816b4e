"""Counter-based random numbers: a pure function of seed, layer and sample, so that a resume needs only a position.

They are raw words of Philox 4x64 (Salmon et al., 2011), which are the same in every release of NumPy.
"""

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


def of_samples(key: Key, first: int, samples: int, words: int) -> np.ndarray:
    """samples×words: ``of_sample`` of each sample from ``first`` on, all at once. words: a multiple of 4."""
    if samples < FEW:
        return np.stack([of_sample(key, first + i, words) for i in range(samples)])
    blocks = words // 4
    counters = np.zeros((4, samples, blocks), np.uint64)
    counters[0], counters[1] = np.arange(1, blocks + 1), np.arange(first, first + samples)[:, None]
    return np.stack(_philox(key, counters), -1).reshape(samples, words)


FEW = 16  # samples that are drawn faster one by one
MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157  # of Philox 4x64, and what its key grows by each round
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
ROUNDS, LOW = 10, np.uint64(0xFFFFFFFF)


def _philox(key: Key, counters: np.ndarray) -> tuple[np.ndarray, ...]:
    """The four words of each counter, four words too: counters 4×..."""
    a, b, c, d = counters
    for step in range(ROUNDS):
        k0, k1 = (np.uint64((word + step * weyl) % (1 << 64)) for word, weyl in zip(key, WEYL, strict=True))
        high, low = _product(a, MULTIPLIERS[0])
        other_high, other_low = _product(c, MULTIPLIERS[1])
        a, b, c, d = other_high ^ b ^ k0, other_low, high ^ d ^ k1, low
    return a, b, c, d


def _product(x: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """The high and the low 64 bits of x · factor."""
    half = np.uint64(32)
    f0, f1 = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    x0, x1 = x & LOW, x >> half
    right, left = x0 * f1, x1 * f0
    middle = (x0 * f0 >> half) + (right & LOW) + (left & LOW)
    return x1 * f1 + (right >> half) + (left >> half) + (middle >> half), x * np.uint64(factor)


def uniform(words: np.ndarray) -> np.ndarray:
    """Numbers of [0, 1), one for each word: its upper 53 bits."""
    return (words >> np.uint64(11)) * 2.0**-53


def _words(key: Key, counter: int, words: int) -> np.ndarray:
    return np.random.Philox(key=np.array(key, np.uint64), counter=counter).random_raw(words)
