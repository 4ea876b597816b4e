"""The order of passes in a pipeline of stages."""

import itertools

import pytest

from caffelite.training.pipeline import Pass, in_flight, schedule

CASES = [(stages, count) for stages in (1, 2, 3, 4, 7) for count in (1, 2, 3, 4, 8, 11)]


def test_one_stage_runs_each_micro_batch_forward_then_backward():
    assert list(schedule(0, 1, 3)) == [Pass(forward, i) for i in range(3) for forward in (True, False)]


def test_one_forward_one_backward_after_the_first_passes():
    text = " ".join(f"{'F' if p.forward else 'B'}{p.micro_batch}" for p in schedule(1, 4, 5))
    assert text == "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4"


@pytest.mark.parametrize("stages, count", CASES)
def test_every_micro_batch_runs_once_in_each_direction(stages, count):
    for stage in range(stages):
        actual = list(schedule(stage, stages, count))
        for forward in (True, False):
            assert [p.micro_batch for p in actual if p.forward is forward] == list(range(count))


@pytest.mark.parametrize("stages, count", CASES)
def test_a_stage_holds_no_more_micro_batches_than_stated(stages, count):
    for stage in range(stages):
        held = list(itertools.accumulate(1 if p.forward else -1 for p in schedule(stage, stages, count)))
        assert max(held) == in_flight(stage, stages, count) == min(stages - stage, count)
        assert min(held) >= 0 and held[-1] == 0


def test_passes_that_count_together_run_forward_first():
    for stage in range(3):
        text = " ".join(f"{'F' if p.forward else 'B'}{p.micro_batch}" for p in schedule(stage, 3, 4, together=2))
        assert text == "F0 F1 B0 B1 F2 F3 B2 B3"
    assert in_flight(0, 1, 4, together=2) == in_flight(2, 3, 4, together=2) == 2


def run(stages: int, count: int, capacity: int, together: int = 1) -> int:
    """Runs all stages in turn with links that hold ``capacity`` arrays each; the steps of the slowest stage.

    A forward pass sends to every later stage, a backward pass to every earlier one. A stage waits where an array that
    it receives was not sent yet, or a link is full.
    """
    orders = [list(schedule(stage, stages, count, together)) for stage in range(stages)]
    at, links, steps = [0] * stages, {}, 0
    while any(i < len(order) for i, order in zip(at, orders, strict=True)):
        ready = []
        for stage, order in enumerate(orders):
            if at[stage] == len(order):
                continue
            forward = order[at[stage]].forward
            before, after = range(stage), range(stage + 1, stages)
            received = ((other, stage) for other in (before if forward else after))
            sent = after if forward else before
            if all(links.get((*link, forward), 0) for link in received) and all(
                links.get((stage, other, forward), 0) < (capacity or stages - stage) for other in sent
            ):
                ready.append(stage)
        assert ready, "a deadlock"
        for stage in ready:
            forward = orders[stage][at[stage]].forward
            for other in range(stages):
                if other != stage and (other < stage) == forward:
                    links[other, stage, forward] -= 1
                elif other != stage:
                    links[stage, other, forward] = links.get((stage, other, forward), 0) + 1
            at[stage] += 1
        steps += 1
    assert not any(links.values()), "an array was sent that nobody received"
    return steps


@pytest.mark.parametrize("capacity", [0, 99])
@pytest.mark.parametrize("stages, count", CASES)
def test_no_deadlock_with_an_array_between_any_two_stages(stages, count, capacity):
    steps = run(stages, count, capacity)
    if capacity >= stages:
        assert steps == 2 * (count + stages - 1), "no more waiting than filling and draining the pipeline"
    run(stages, 2 * count, 1, together=count)
