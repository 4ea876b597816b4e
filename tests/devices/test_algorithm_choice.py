"""The choice of a convolution's algorithm: by time, kept on disk, recorded for a resume, the same for all processes."""

import engines
import numpy as np
import pytest

from caffelite.devices import Window, algorithms, ops
from caffelite.devices.cpu import choices

WIDE, NARROW, DEEP = (8, 64, 56, 56), (8, 3, 56, 56), (8, 128, 56, 56)


@pytest.fixture
def new(tmp_path, monkeypatch):
    """Makes Choices with an empty cache folder that they share, and a clock that only algorithms move."""
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    now = [0.0]
    monkeypatch.setattr(choices.time, "perf_counter", lambda: now[0])

    def make(threads=2, instructions=0):
        made = choices.CpuChoices(threads, (3, 2, 0), instructions)
        made.runs = []

        def taking(name, seconds):
            def step():
                made.runs.append(name)
                now[0] += seconds

            return step

        made.timed = lambda **seconds: {name: taking(name, s) for name, s in seconds.items()}
        return made

    return make


@pytest.mark.parametrize(
    "seconds, best",
    [
        (dict(direct=3.0, winograd2=2.0, winograd4=1.0), "winograd4"),
        (dict(direct=1.0, winograd2=2.0, winograd4=3.0), "direct"),
        (dict(direct=1.0, winograd2=0.95, winograd4=0.96), "direct"),
        (dict(direct=3.0, winograd2=1.0, winograd4=0.95), "winograd2"),
    ],
)
def test_the_clearly_fastest_is_chosen(new, seconds, best):
    actual = new()
    assert actual.choose("a", actual.timed(**seconds)) == best


@pytest.mark.parametrize("disturbed", [{0, 1, 2}, {3, 4}, {5}, {4, 5}, {4, 5, 10, 11}])
def test_another_program_does_not_decide(new, disturbed):
    """Whatever falls into a burst of work of other programs takes many times as long."""
    actual, calls = new(), []

    def busy(step):
        def run():
            for _ in range(5 + len(calls) if len(calls) in disturbed else 1):
                step()
            calls.append(step)

        return run

    timed = actual.timed(direct=1.5, winograd4=1.0)
    assert actual.choose("a", {name: busy(step) for name, step in timed.items()}) == "winograd4"


def test_a_choice_is_kept_on_disk_by_thread_count(new):
    one, again, other = new(), new(), new(threads=1)
    one.choose("a", one.timed(direct=2.0, product=1.0))
    again = new()
    assert again.choose("a", again.timed(direct=1.0, product=2.0)) == "product" and not again.runs
    assert other.choose("a", other.timed(direct=1.0, product=2.0)) == "direct" and other.runs


def test_processes_that_measure_at_once_take_one_choice(new):
    """As those of a divided net do, which meet problems in different orders."""
    one, other = new(), new()
    assert one.choose("a", one.timed(direct=2.0, product=1.0)) == "product"
    assert other.choose("a", other.timed(direct=1.0, product=2.0)) == "product" and other.runs
    assert other.recorded() == ["a: product"]


def test_a_choice_of_other_instructions_is_not_taken(new, monkeypatch):
    """A cache that another processor wrote, or this one with fewer instruction sets, is measured again."""
    one = new()
    one.choose("a", one.timed(direct=2.0, product=1.0))
    fewer = new(instructions=7)
    assert fewer.choose("a", fewer.timed(direct=1.0, product=2.0)) == "direct" and fewer.runs
    monkeypatch.setattr(choices, "features", lambda: "+others")
    hidden = new()
    assert hidden.choose("a", hidden.timed(direct=1.0, product=2.0)) == "direct" and hidden.runs


def test_a_recorded_choice_precedes_the_cache(new):
    one, resumed = new(), new()
    one.choose("a, forward", one.timed(direct=2.0, winograd4=1.0))
    assert one.recorded() == ["a, forward: winograd4"]
    resumed.restore(["a, forward: direct"])
    assert resumed.choose("a, forward", resumed.timed(direct=2.0, winograd4=1.0)) == "direct"
    assert not resumed.runs and resumed.recorded() == ["a, forward: direct"]


def test_an_unknown_recorded_choice_is_measured(new):
    actual = new()
    actual.restore(["a: of a later version"])
    assert actual.choose("a", actual.timed(direct=2.0, product=1.0)) == "product"


def test_all_processes_take_the_choice_of_the_first(new):
    first, second = new(), new()
    sent = []
    first.ranks = 0, lambda mine: sent.append(mine) or [mine]
    second.ranks = 1, lambda mine: [sent[0], mine]
    first.choose("a", first.timed(direct=2.0, winograd4=1.0))
    assert second.choose("a", second.timed(direct=1.0, winograd4=2.0)) == "winograd4" and not second.runs


def with_channels(channels):
    return (8, channels, 56, 56)


def test_candidates_follow_from_the_geometry():
    def found(x, y, kernel=(3, 3), groups=1, half=False, **window):
        return algorithms.candidates(x, y, Window(kernel, **window), groups, half)

    both = ["direct", "winograd2", "winograd4"]
    assert found(WIDE, WIDE, pad=(1, 1)) == found(WIDE, WIDE, pad=(1, 1), half=True) == both
    assert found(WIDE, WIDE, kernel=(5, 5), pad=(2, 2)) == ["direct", "winograd4"]
    assert found(WIDE, DEEP, kernel=(1, 1)) == ["direct", "product"]
    assert found(WIDE, DEEP, pad=(1, 1), groups=4) == both
    assert found(with_channels(20), with_channels(50)) == both
    assert found(WIDE, with_channels(18)) == (both if algorithms.LANES == 8 else ["direct"])  # 24 or 32 are computed
    direct = [
        found(NARROW, WIDE, pad=(1, 1)),
        found(WIDE, WIDE, pad=(1, 1), stride=(2, 2)),
        found(WIDE, WIDE, pad=(2, 2), dilation=(2, 2)),
        found(WIDE, DEEP, pad=(1, 1), groups=8),
        found(DEEP, WIDE, pad=(1, 1), groups=8),
        found(WIDE, DEEP, kernel=(1, 1), groups=2),
        found(with_channels(50), WIDE),
        found(with_channels(18), WIDE),
        found(WIDE, DEEP, kernel=(1, 1), half=True),
        found(WIDE, WIDE, kernel=(3, 5), pad=(1, 2)),
        found(WIDE, WIDE, kernel=(7, 7), pad=(3, 3)),
    ]
    assert direct == [["direct"]] * len(direct)


def test_little_work_is_direct_and_not_measured():
    dev, window = engines.with_onednn(), Window((3, 3), pad=(1, 1))
    small, large = (1, 16, 8, 8), (8, 64, 56, 56)
    assert algorithms.work(small, small, window) < algorithms.MEASURED_WORK < algorithms.work(large, large, window)
    assert not hasattr(dev.build(ops.Convolution(small, small, window, channels_last=True)), "taken")
    assert dev.build(ops.Convolution(large, large, window, channels_last=True)).taken == {}


@pytest.mark.parametrize("size, channels, groups", [(3, 32, 1), (5, 32, 1), (5, 32, 2), (3, 40, 1), (5, 40, 2)])
def test_the_memory_plan_counts_the_workspace(monkeypatch, size, channels, groups):
    """The device's workspace after all passes is what the plan has, up to cache lines."""
    dev, shape = engines.with_onednn(), (2, channels, 21, 21)
    window = Window((size, size), pad=(size // 2, size // 2))
    monkeypatch.setattr(algorithms, "MEASURED_WORK", 0)
    needed = []
    for name in algorithms.candidates(shape, shape, window, groups, False)[1:]:
        op = dev.build(ops.Convolution(shape, shape, window, groups, channels_last=True, algorithm=name))
        x, dx, dy = (dev.zeros((2, 21, 21, channels)) for _ in range(3))
        w, dw = (dev.zeros((channels, channels // groups, size, size)) for _ in range(2))
        op.forward(x, w, None, dy)
        op.backward(x, w, dy, dx, dw, None)
        needed.append(dev._workspace.nbytes)
    planned = algorithms.workspace(shape, shape, window, groups, False, dev.threads, True)
    assert planned <= max(needed) <= planned + 512


def test_choices_are_told_apart_by_groups(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path))
    dev, window = engines.with_onednn(), Window((3, 3), pad=(1, 1))
    problems = set()
    monkeypatch.setattr(dev.algorithms, "choose", lambda problem, runs: problems.add(problem) or "direct")
    for groups in (1, 2, 4):
        op = dev.build(ops.Convolution(WIDE, DEEP, window, groups, channels_last=True))
        op.forward(dev.zeros((8, 56, 56, 64)), dev.zeros((128, 64 // groups, 3, 3)), None, dev.zeros((8, 56, 56, 128)))
    assert len(problems) == 3


@pytest.mark.parametrize(
    "channels, pad, forward", [((20, 50), 0, "direct"), ((32, 64), 0, "winograd4"), ((20, 50), 1, "winograd4")]
)
def test_a_forward_pass_of_few_channels_keeps_caffe_s_order(monkeypatch, channels, pad, forward):
    dev, window, (c, m) = engines.with_onednn(), Window((5, 5), pad=(pad, pad)), channels
    monkeypatch.setattr(dev.algorithms, "choose", lambda problem, runs: list(runs)[-1])
    x, w = dev.zeros((64, 12, 12, c)), dev.zeros((m, c, 5, 5))
    side = 8 + 2 * pad
    y, dx, dw = dev.zeros((64, side, side, m)), dev.zeros(x.shape), dev.zeros(w.shape)

    def taken(algorithm):
        shapes = (64, c, 12, 12), (64, m, side, side)
        op = dev.build(ops.Convolution(*shapes, window, channels_last=True, algorithm=algorithm))
        op.forward(x, w, None, y)
        op.backward(x, w, y, dx, dw, None)
        return op.taken

    gradients = {"data gradient": "winograd4", "weight gradient": "direct"}
    assert taken(None) == {"forward": forward, **gradients}
    assert taken("winograd4") == {"forward": "winograd4", **gradients}


def test_images_of_one_pixel_are_multiplied_as_a_product():
    op = engines.with_onednn().build(ops.Convolution((8, 64, 1, 1), (8, 40, 1, 1), Window((1, 1)), 1, True))
    x, w, y = (np.ones(s, np.float32) for s in ((8, 1, 1, 64), (40, 64, 1, 1), (8, 1, 1, 40)))
    op.forward(x, w, None, y)
    assert op.taken == {"forward": "product"} and (y == 64).all()
