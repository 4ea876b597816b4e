"""Packing: storages in use at the same time never overlap, and the arena is small."""

import random

import pytest

from caffelite.net import packing


@pytest.mark.parametrize("seed", range(30))
def test_pack_never_overlaps(seed):
    rng = random.Random(seed)
    storages = []
    for _ in range(60):
        first = rng.randrange(40)
        storages.append(packing.Storage(64 * rng.randint(1, 9), first, first + rng.randrange(12)))
    total = packing.pack(storages)
    for i, a in enumerate(storages):
        assert 0 <= a.offset and a.offset + a.bytes <= total
        for b in storages[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    busiest = max(sum(s.bytes for s in storages if s.first <= t <= s.last) for t in range(60))
    assert busiest <= total < 1.5 * busiest


def packed_one_by_one(storages):
    """What `pack` promises, in the plainest form: each storage is compared with all that have an offset."""
    placed = []
    for storage in sorted(storages, key=lambda s: -s.bytes):
        alive = [s for s in placed if s.first <= storage.last and storage.first <= s.last]
        starts = [0, *sorted(s.offset + s.bytes for s in alive)]
        free = (o for o in starts if all(o + storage.bytes <= s.offset or s.offset + s.bytes <= o for s in alive))
        storage.offset = next(free)
        placed.append(storage)
    return [s.offset for s in storages]


def life(kind, i, many, rng):
    """(first, last) time of the storage number i of ``many``."""
    if kind == "short":
        return i, i + rng.randrange(3)
    if kind == "nested":
        return (i, 2 * many - i) if rng.random() < 0.7 else (2 * many - i, 2 * many - i + rng.randrange(4))
    return sorted((rng.randrange(2 * many), rng.randrange(2 * many))) if kind == "mixed" else (i // 7, i // 7 + 1)


@pytest.mark.parametrize("kind", ["short", "nested", "mixed", "equal"])
def test_pack_takes_the_lowest_free_offset(kind, seed):
    for many in (1, 2, 70, 300):
        rng = random.Random(f"{seed} {kind} {many}")
        sizes = [64] if kind == "equal" else [64 * rng.randint(1, 40) for _ in range(9)]
        storages = [packing.Storage(rng.choice(sizes), *life(kind, i, many, rng)) for i in range(many)]
        total = packing.pack(storages)
        offsets = [s.offset for s in storages]
        assert offsets == packed_one_by_one(storages) and total == max(s.offset + s.bytes for s in storages)
