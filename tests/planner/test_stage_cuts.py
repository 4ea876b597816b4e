"""The exact choice of pipeline stages, against enumeration, and the time of the schedule."""

import itertools
import random
import time

import numpy as np
import pytest
from seeds import seeds

from caffelite.planner.stages import Segments, best_cut, evaluated, pass_order, timeline, within


def random_segments(rng: random.Random, layers: int, stages: int) -> Segments:
    """Stages of layers with random times, parameters and blobs; a stage receives and sends the blobs at its ends."""
    times = np.array([rng.choice([0, 1, 2, 5, 9]) * rng.random() for _ in range(layers)])
    sizes = np.array([rng.choice([0, 1, 50]) * rng.random() for _ in range(layers)])
    crossing = np.array([0, *[rng.choice([0, 1, 3]) * rng.random() for _ in range(layers - 1)], 0])

    def between(values: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0], np.cumsum(values)])
        return sums[None, :] - sums[:, None]

    one = between(times) + crossing[:, None] + crossing[None, :]
    every = np.stack([one * (1 + 0.5 * s) for s in range(stages)])
    for boundary in rng.sample(range(1, layers), min(2, layers - 1)):
        if rng.random() < 0.3:
            every[:, boundary, :] = every[:, :, boundary] = np.inf
    return Segments(every, between(sizes), between(np.array([rng.random() for _ in range(layers)])))


def enumerated(segments: Segments, micro_batches: int, limit: float | None) -> float:
    seconds, last = within(segments, micro_batches, limit), segments.boundaries - 1
    return min(
        (
            evaluated(seconds, (0, *inner, last), micro_batches).seconds
            for inner in itertools.combinations(range(1, last), segments.stages - 1)
        ),
        default=np.inf,
    )


@pytest.mark.parametrize("seed", seeds(150))
def test_cut_is_best_of_all_cuts(seed):
    rng = random.Random(seed)
    layers, stages = rng.randint(2, 9), rng.randint(1, 4)
    segments = random_segments(rng, layers, stages)
    micro_batches = rng.choice([1, 2, 4, 8])
    limit = rng.choice([None, rng.random() * 60])
    expected = enumerated(segments, micro_batches, limit)
    actual = best_cut(segments, micro_batches, limit)
    if not np.isfinite(expected):
        assert actual is None
        return
    assert actual is not None and actual.seconds == pytest.approx(expected, rel=1e-12)
    assert actual.boundaries[0] == 0 and actual.boundaries[-1] == layers
    assert best_cut(segments, micro_batches, limit) == actual


def test_memory_limit_counts_micro_batches_in_flight():
    """Two layers that take 1 s and 10 bytes a micro-batch: the first stage holds two of them, the second one."""
    one = np.array([[0, 1, 2], [0, 0, 1], [0, 0, 0]], float)
    segments = Segments(np.stack([one, one]), 0 * one, 10 * one)
    assert best_cut(segments, 4, 20).boundaries == (0, 1, 2)
    assert best_cut(segments, 4, 19) is None
    assert best_cut(segments, 1, 19).boundaries == (0, 1, 2)


def test_five_hundred_layers_take_no_time_to_speak_of():
    rng = random.Random(0)
    segments = random_segments(rng, 500, 8)
    begin = time.process_time()
    actual = best_cut(segments, 16, 1e5)
    print(f"{time.process_time() - begin:.2f} s")
    assert actual is not None and len(actual.boundaries) == 9


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 9])
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_equal_stages_take_the_known_time(stages, micro_batches):
    actual = timeline([1.0] * stages, [2.0] * stages, micro_batches)
    assert actual.seconds == pytest.approx(3 * (micro_batches + stages - 1))
    assert actual.bubble == pytest.approx((stages - 1) / (micro_batches + stages - 1))


@pytest.mark.parametrize("seed", seeds(60))
def test_schedule_is_within_the_bound_of_the_cut(seed):
    """Never later than (M - 1) slowest + sum, never earlier than the slowest stage and one pass over all others."""
    rng = random.Random(seed)
    stages, micro_batches = rng.randint(1, 5), rng.randint(1, 9)
    forward = [rng.random() for _ in range(stages)]
    backward = [2 * f for f in forward]
    each = [f + b for f, b in zip(forward, backward, strict=True)]
    actual = timeline(forward, backward, micro_batches).seconds
    assert actual <= (micro_batches - 1) * max(each) + sum(each) + 1e-9
    assert actual >= micro_batches * max(each) - 1e-9 and actual >= sum(each) - 1e-9


def test_schedule_holds_few_micro_batches():
    for stages, micro_batches in itertools.product((1, 2, 4), (1, 3, 8)):
        for stage in range(stages):
            held = most = 0
            for backward, _ in pass_order(stages, stage, micro_batches):
                held += -1 if backward else 1
                most = max(most, held)
            assert not held and most == min(stages - stage, micro_batches)
