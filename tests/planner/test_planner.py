"""Costs of stages and shards against their definitions, and the choice of an arrangement against enumeration."""

import itertools
import random

import numpy as np
import pytest
from deep_nets import resnet
from random_plans import random_net
from seeds import seeds
from textnet import build, inputs, wired

from caffelite.devices.traits import cpu_traits, cuda_traits
from caffelite.net.compile import compile
from caffelite.net.partition.partition import partition
from caffelite.net.partition.placement import DevicePosition, LayerPlacement, Placement
from caffelite.parallel.forecast import Link, Network
from caffelite.planner.choice import Request, _Descent, arrangements, fastest_sharding, plan, stage_seconds
from caffelite.planner.costs import RATES, Measured, Modelled, Rates, Times
from caffelite.planner.planner import Arrangement, Job, Planner, _Run, activations, boundaries, boundary_traffic, sums
from caffelite.planner.sharding import Divisions, Sharding, exchange as exchange_of, hybrid, size
from caffelite.planner.stages import evaluated

CPU = cpu_traits(onednn=False)
NETWORK = Network(Link(4e9, 5e-6), Link(1e9, 1e-5), 4)
DENSE = inputs(data=(8, 64), label=(8,))
for i, below in enumerate(("data", "ip0", "ip1", "ip2")):
    DENSE += wired("InnerProduct", below, f"ip{i}", "num_output: 64")
    DENSE += wired("ReLU", f"ip{i}", f"ip{i}", name=f"relu{i}")
DENSE += wired("SoftmaxWithLoss", "ip3 label", "loss")


def planner(graph, devices=2, rates=RATES["cpu"], **options) -> Planner:
    compiled = compile(graph, CPU)
    return Planner(graph, compiled, Modelled(graph, compiled, rates), Job(devices, NETWORK, **options))


def exchange(graph, sharding):
    return exchange_of(Divisions(graph, sharding.shards), sharding)


def all_outputs(graph, shards):
    return Divisions(graph, shards).all_outputs()


@pytest.mark.parametrize("seed", seeds(40))
def test_crossing_counts_what_stages_exchange(seed):
    graph = build(random_net(seed))
    places = list(range(len(graph.nodes) + 1))
    actual = boundary_traffic(graph, places, {})
    for i, j in itertools.combinations(places, 2):
        received, sent = set(), set()
        for value in (v for n in graph.nodes for v in n.tops):
            readers = [r.index for r, _ in value.readers]
            if value.node.index < i and any(i <= r < j for r in readers):
                received.add(value)
            if i <= value.node.index < j and any(r >= j for r in readers):
                sent.add(value)
        assert actual.received[i, j] == sum(map(size, received)) and actual.sent[i, j] == sum(map(size, sent))
        assert actual.received_back[i, j] == sum(size(v) for v in received if v.gradient)
        assert actual.sent_back[i, j] == sum(size(v) for v in sent if v.gradient)


@pytest.mark.parametrize("seed", seeds(40))
def test_activations_of_one_stage_are_those_of_the_net(seed):
    """The peak of what is in use at once is at most the arena, and a stage needs no more than a longer one."""
    graph = build(random_net(seed))
    compiled = compile(graph, CPU)
    places = list(range(len(graph.nodes) + 1))
    actual = activations(graph, compiled, places, {})
    assert 0 < actual[0, -1] <= compiled.arena
    for i, j in itertools.combinations(places, 2):
        assert actual[i, j] <= actual[0, -1]
        assert j == places[-1] or actual[i, j] <= actual[i, j + 1]


def test_layers_of_one_step_and_of_one_parameter_stay_together():
    text = inputs(data=(2, 3, 8, 8), t=(2, 3, 8, 8))
    for name, bottom in (("a", "data"), ("b", "a"), ("c", "b")):
        body = 'param { name: "w" }' * (name in "ab") + " convolution_param { num_output: 3 kernel_size: 3 pad: 1 }"
        text += wired("Convolution", bottom, name, body) + wired("ReLU", name, name, name=f"{name}_relu")
    graph = build(text + wired("EuclideanLoss", "c t", "loss"))
    names = [n.name for n in graph.nodes]
    behind = {names[b] for b in boundaries(graph, compile(graph, CPU)) if 0 < b < len(names)}
    assert behind == {"t", "a", "c", "loss"}


@pytest.mark.parametrize("seed", seeds(30))
def test_best_stages_of_random_nets(seed):
    """No cut of the net's layers has a shorter iteration, by the costs of its stages, within the memory."""
    rng = random.Random(seed)
    graph = build(random_net(seed))
    stages, passes = rng.randint(2, 3), rng.choice([1, 2, 4])
    if stages >= len(boundaries(graph, compile(graph, CPU))):
        return
    actual = planner(graph, stages, Rates(1e9, 1e9, 1e-6))
    run = _Run(actual, Arrangement(1, stages, passes, Sharding()))
    last = run.segments.boundaries - 1
    best = min(
        evaluated(run.segments.seconds, (0, *inner, last), passes).seconds
        for inner in itertools.combinations(range(1, last), stages - 1)
    )
    forecast = actual.forecast(Arrangement(1, stages, passes, Sharding()))
    places = [actual.boundaries.index(p) for p in (*(s.layers[0] for s in forecast.stages), len(graph.nodes))]
    allowed = best * (1.02 if passes == 1 else 1) * (1 + 1e-9)
    assert evaluated(run.segments.seconds, places, passes).seconds <= allowed


def test_stages_of_equal_work_and_their_bubble():
    """Two of four equal layers on each of two stages; the first has no gradient of its bottom: 2 + 3 and 3 + 3
    products, 8 micro-batches in 7 · 6 + 11."""
    actual = planner(build(DENSE), 2, Rates(1e5, 1e15, 0.0))
    forecast = actual.forecast(Arrangement(1, 2, 8, Sharding()))
    assert [actual.graph.nodes[s.layers[0]].name for s in forecast.stages] == ["data", "ip2"]
    assert forecast.bubble == pytest.approx(1 - 8 * 11 / 2 / 53, abs=1e-3)


def test_exchange_of_divided_inner_products():
    """ip1 reads all of ip0's outputs, which are divided: a gather forward, and a scattered sum backward."""
    graph = build(DENSE)
    index = {n.name: n.index for n in graph.nodes}
    actual = exchange(graph, Sharding(2, frozenset({index["ip0"], index["ip1"]})))
    half = 8 * 64 * 4 / 2
    assert actual.sent[0, index["ip1"]] == half and actual.sent[1, index["ip1"]] == half
    assert actual.sent[0, index["ip2"]] == half and actual.sent[1, index["ip2"]] == 0
    assert actual.sent.sum() == 3 * half
    divided = {n.name for n in graph.nodes if actual.parts[n.index] == 2}
    assert divided == {"ip0", "relu0", "ip1", "relu1"}


def test_a_reader_of_all_channels_needs_the_complete_sum():
    graph = build(DENSE + wired("Reduction", "ip0", "sum", "loss_weight: 1"))
    index = {n.name: n.index for n in graph.nodes}
    actual = exchange(graph, Sharding(2, frozenset({index["ip0"], index["ip1"]})))
    half = 8 * 64 * 4 / 2
    assert actual.sent[0, index["ip1"]] == half and actual.sent[1, index["ip1"]] == 2 * half


def test_columns_of_a_grouped_convolution_exchange_nothing():
    text = inputs(data=(2, 4, 8, 8), t=(2, 8, 8, 8))
    for name, bottom, group in (("a", "data", 1), ("b", "a", 2)):
        text += wired("Convolution", bottom, name, f"num_output: 8 kernel_size: 3 pad: 1 group: {group}")
    graph = build(text + wired("EuclideanLoss", "b t", "loss"))
    index = {n.name: n.index for n in graph.nodes}
    actual = exchange(graph, Sharding(2, frozenset({index["a"], index["b"]})))
    assert actual.sent[:, index["b"]].sum() == 0 and actual.sent[0, index["loss"]] == 2 * 8 * 8 * 8 * 4 / 2
    alone = exchange(graph, Sharding(2, frozenset({index["b"]})))
    assert alone.sent[0, index["b"]] == 0 and alone.sent[1, index["b"]] == 2 * 8 * 8 * 8 * 4 / 2


@pytest.mark.parametrize("seed", seeds(60))
def test_exchange_is_that_of_the_partition(seed):
    """The layers that `partition` inserts send as many bytes."""
    rng, shards = random.Random(seed), 3
    graph = build(random_net(seed))
    chosen = frozenset(i for i in sorted(all_outputs(graph, shards)) if rng.random() < 0.6)
    sharding = Sharding(shards, chosen)
    actual = exchange(graph, sharding)
    layers = {n.name: LayerPlacement(0, sharding.division(n.index)) for n in graph.nodes}
    expected = np.zeros(2)
    for node in partition(graph, Placement(1, shards, 1, layers), DevicePosition()).nodes:
        amount = max(4 * np.prod(v.shape) for v in (*node.bottoms, *node.tops)) * (shards - 1) / shards
        if node.layer.spec.type == "AllGather":
            expected += (amount, amount * (node.backward and node.layer.partial))
        elif node.layer.spec.type in ("ShardSlice", "SumGradients"):
            expected[1] += amount * node.backward * (1 if node.layer.spec.type == "ShardSlice" else 2)
    assert actual.sent.sum(axis=1) == pytest.approx(expected)


@pytest.mark.parametrize("seed", seeds(12))
def test_fastest_sharding_is_best_of_all_subsets(seed):
    rng = random.Random(seed)
    graph = build(DENSE)
    actual = planner(graph, 2, Rates(10 ** rng.uniform(8, 11), 10 ** rng.uniform(8, 11), 1e-7))
    every = sorted(all_outputs(graph, 2))
    subsets = itertools.chain.from_iterable(itertools.combinations(every, n) for n in range(len(every) + 1))
    best = min(stage_seconds(actual, Sharding(2, frozenset(s))) for s in subsets)
    assert stage_seconds(actual, fastest_sharding(actual, 2)) == best
    starts = (frozenset(), frozenset(every))
    descended = min(stage_seconds(actual, _Descent(actual, Sharding(2, s)).run(every)) for s in starts)
    assert best <= descended <= min(stage_seconds(actual, Sharding(2, s)) for s in starts) * (1 + 1e-9)


@pytest.mark.parametrize("seed", seeds(20))
def test_costs_of_a_changed_division_are_those_of_the_net(seed):
    """The costs of the layers that a change concerns differ by as much as those of all layers."""
    graph = build(random_net(seed))
    actual = planner(graph, 3)
    every = sorted(all_outputs(graph, 3))
    descent = _Descent(actual, Sharding(3))
    chosen = frozenset()
    for index in every:
        chosen |= {index}
        touched = descent.plans.set(index, Sharding(3, chosen).division(index))
        after = descent._cost(touched)
        descent.plans.set(index, Sharding(3).division(index))
        before = descent._cost(touched)
        descent.plans.set(index, Sharding(3, chosen).division(index))
        whole = stage_seconds(actual, Sharding(3, chosen)) - stage_seconds(actual, Sharding(3, chosen - {index}))
        assert after - before == pytest.approx(whole, abs=1e-12)


def test_hybrid_divides_samples_first_then_outputs():
    text = inputs(data=(8, 3, 8, 8), label=(8,)) + wired("Convolution", "data", "conv", "num_output: 4 kernel_size: 3")
    text += wired("InnerProduct", "conv", "ip", "num_output: 10") + wired("SoftmaxWithLoss", "ip label", "loss")
    graph = build(text)
    actual = hybrid(Divisions(graph, 2))
    assert actual.batch == {2} and actual.outputs == {3}
    moved = exchange(graph, actual)
    assert moved.summed.sum() == 4 * (4 * 3 * 9 + 4) and moved.sent[1, 3] == 8 * 4 * 36 * 4 / 2
    assert hybrid(Divisions(build(DENSE), 16)) is None


def test_memory_limit_excludes_arrangements():
    graph = build(DENSE)
    every = plan(planner(graph, 4), Request())
    assert any(f.name == "data parallel" for f in every)
    least = min(f.memory for f in plan(planner(graph, 4, memory=1e9), Request()))
    limited = plan(planner(graph, 4, memory=least), Request())
    assert limited and all(f.memory <= least for f in limited) and len(limited) < len(every)
    assert plan(planner(graph, 4, memory=100), Request()) == []


def test_requests_limit_the_arrangements():
    actual = planner(build(DENSE), 4)
    kinds = {(a.groups, a.stages, a.sharding.shards) for a in arrangements(actual, Request(devices=2))}
    assert kinds == {(2, 2, 1), (2, 1, 2)}
    some = list(arrangements(actual, Request(stages=2, shards=2, micro_batches=4)))
    assert {(a.groups, a.stages, a.sharding.shards, a.micro_batches) for a in some} == {(1, 2, 2, 4)}


def test_measured_times_are_linear_in_the_share():
    one = np.ones(2)
    actual = Measured((0.25, 1.0), Times(one, 2 * one, 0 * one), Times(2.5 * one, 8 * one, 0 * one), 1e9)
    assert actual.times(0.5, one).forward == pytest.approx(1.5 * one)
    assert actual.times(0.25, 2 * one).backward == pytest.approx(one)
    assert actual.update(2e9) == 2


def test_deep_residual_net_is_planned_deterministically():
    graph = build(resnet((2, 3, 4, 2)))
    compiled = compile(graph, cuda_traits())
    network = Network(Link(450e9, 5e-6), Link(50e9, 1e-5), 8)

    def found():
        planned = Planner(graph, compiled, Modelled(graph, compiled, RATES["h100"]), Job(4, network, 3e9))
        return plan(planned, Request())

    first = found()
    assert first == found() and all(f.memory <= 3e9 for f in first)
    stages = next(f for f in first if f.name == "4 stages")
    assert [s.layers[1] for s in stages.stages][-1] == len(graph.nodes) and stages.placement.stages == 4
    assert {p.stage for p in stages.placement.layers.values()} == set(range(4))


def test_sums_of_runs():
    assert sums(np.array([1.0, 2, 4]), [0, 2, 3]).tolist() == [[0, 3, 7], [-3, 0, 4], [-7, -4, 0]]
