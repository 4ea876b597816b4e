"""The loop: its arithmetic against NumPy in float64, and what it logs."""

import re

import h5py
import numpy as np
import pytest

from caffelite.errors import CaffeliteError

SOLVER = 'net: "plain.prototxt" base_lr: 0.1 lr_policy: "inv" gamma: 0.1 power: 0.75 random_seed: 3 max_iter: 12 '
SOLVER += "snapshot_after_train: false "


class Twin:
    """The plain net and SGD, written out: loss = sum((W x + b - y)^2) / 2N."""

    def __init__(self, weights, bias):
        self.w, self.b = weights.astype(float), bias.astype(float)
        self.v = [np.zeros_like(self.w), np.zeros_like(self.b)]
        self.row, self.losses = 0, []
        with h5py.File("rows.h5") as file:
            self.x, self.y = (file[name][()].astype(float) for name in "xy")

    def batch(self):
        rows = [(self.row + i) % 13 for i in range(4)]
        self.row += 4
        return self.x[rows], self.y[rows]

    def step(self, rate, momentum=0.0, decay=0.0, l1=False, iter_size=1, clip=None):
        total, gw, gb = 0, np.zeros_like(self.w), np.zeros_like(self.b)
        for _ in range(iter_size):
            x, y = self.batch()
            error = x @ self.w.T + self.b - y
            total += (error**2).sum() / 8
            gw += error.T @ x / 4
            gb += error.sum(0) / 4
        norm = np.sqrt((gw**2).sum() + (gb**2).sum())
        scale = clip / norm if clip is not None and norm > clip else 1
        gw, gb = gw * scale / iter_size, gb * scale / iter_size
        gw += decay * (np.sign(self.w) if l1 else self.w)  # the bias has decay_mult: 0
        self.v = [momentum * self.v[0] + rate * gw, momentum * self.v[1] + 2 * rate * gb]  # and lr_mult: 2
        self.w, self.b = self.w - self.v[0], self.b - self.v[1]
        self.losses.append(total / iter_size)


@pytest.mark.parametrize(
    "text, options",
    [
        ("", {}),
        ("momentum: 0.9", {"momentum": 0.9}),
        ("weight_decay: 0.3", {"decay": 0.3}),
        ('weight_decay: 0.3 regularization_type: "L1"', {"decay": 0.3, "l1": True}),
        ("iter_size: 3 momentum: 0.5 weight_decay: 0.1", {"iter_size": 3, "momentum": 0.5, "decay": 0.1}),
        ("clip_gradients: 0.7", {"clip": 0.7}),
        ("clip_gradients: 0.7 iter_size: 2 weight_decay: 0.2", {"clip": 0.7, "iter_size": 2, "decay": 0.2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sgd(folder, train, text, options):
    start = train(SOLVER.replace("max_iter: 12", "max_iter: 0")).params()
    twin = Twin(*start)
    for i in range(12):
        twin.step(0.1 * (1 + 0.1 * i) ** -0.75, **options)
    run = train(SOLVER + "display: 1 " + text)
    for actual, expected, first in zip(run.params(), (twin.w, twin.b), start, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)
        assert np.abs(actual - first).max() > 0.01, "training moves it"
    np.testing.assert_allclose(run.losses()[:12], twin.losses, rtol=2e-5)
    assert ("clip" in text) == any(
        line.startswith("Gradient clipping: scaling down gradients (L2 norm ") for line in run.log
    )


def test_frozen_parameters_do_not_change(folder, train):
    net = (folder / "plain.prototxt").read_text().replace("lr_mult: 1", "lr_mult: 0")
    (folder / "plain.prototxt").write_text(net)
    first, last = (
        train(SOLVER.replace("max_iter: 12", f"max_iter: {n}") + "weight_decay: 0.5 momentum: 0.9").params()
        for n in (0, 12)
    )
    np.testing.assert_array_equal(first[0], last[0])
    assert not np.array_equal(first[1], last[1])


def test_average_loss(folder, train):
    each = train(SOLVER + "display: 1").losses()
    mean = train(SOLVER + "display: 1 average_loss: 4").losses()
    for i, value in enumerate(mean):
        assert value == pytest.approx(np.mean(each[max(0, i - 3) : i + 1]), rel=1e-5)


def test_a_sparser_display_shows_the_same_losses(folder, train):
    each = train(SOLVER + "display: 1 average_loss: 4").losses()
    assert train(SOLVER + "display: 5 average_loss: 4").losses() == each[0:11:5]


def test_iterations_limits_a_run(folder, train):
    run = train(SOLVER.replace("snapshot_after_train: false", 'snapshot_prefix: "run"'), iterations=5)
    assert run.solver.iteration == 5 and (folder / "run_iter_5.solverstate").exists()
    assert train(SOLVER, iterations=50).solver.iteration == 12


TESTS = "test_iter: 2 test_interval: 5 "


@pytest.mark.parametrize(
    "text, at", [("", [0, 5, 10]), ("test_initialization: false", [5, 10])], ids=["", "not at first"]
)
def test_when_tests_run(folder, train, text, at):
    run = train(SOLVER + TESTS + text)
    assert [int(m[1]) for line in run.log if (m := re.fullmatch(r"Iteration (\d+), Testing net \(#0\)", line))] == at


def test_a_final_test_runs(folder, train):
    log = train(SOLVER.replace("max_iter: 12", "max_iter: 10") + TESTS).log
    assert (
        log[-3] == "Iteration 10, Testing net (#0)"
        and log[-2].startswith("    Test net output #0: loss = ")
        and log[-1] == "Optimization Done."
    )


def test_scores_are_means_over_the_batches(folder, train):
    """Test batches go on where the last test ended: rows 0 to 7, then 8 to 2 of the next round."""
    first = train(SOLVER.replace("max_iter: 12", "max_iter: 0")).params()
    twin = Twin(*first)
    rows = [twin.batch() for _ in range(4)]
    losses = [((x @ twin.w.T + twin.b - y) ** 2).sum() / 8 for x, y in rows]
    log = train(SOLVER.replace("base_lr: 0.1", "base_lr: 0") + TESTS + "test_compute_loss: true").log
    scores = [float(line.split(" = ")[1].split()[0]) for line in log if "Test net output" in line]
    assert scores[:2] == pytest.approx([np.mean(losses[:2]), np.mean(losses[2:])], rel=1e-5)
    assert [float(line.split(": ")[1]) for line in log if line.startswith("Test loss")] == scores


def test_several_test_nets(folder, train):
    """test_net_param and test_net come first, then the common net for each test_iter that is left; states tell them
    apart."""
    other = (folder / "plain.prototxt").read_text().replace('top: "loss"', 'top: "other"')
    (folder / "other.prototxt").write_text(other)
    common = (folder / "plain.prototxt").read_text()
    extra = (
        'layer { name: "extra" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "extra" include { stage: '
        '"more" } }'
    )
    (folder / "plain.prototxt").write_text(common + extra)
    states = 'test_state { } test_state { stage: "more" } test_state { stage: "less" }'
    tests = f'test_net: "other.prototxt" test_iter: 1 test_iter: 1 test_iter: 1 test_interval: 20 {states}'
    log = train(SOLVER + tests).log
    tops = [re.sub(r" = .*", "", line.strip()) for line in log if "Test" in line]
    assert tops == [
        *("Iteration 0, Testing net (#0)", "Test net output #0: other"),
        *("Iteration 0, Testing net (#1)", "Test net output #0: extra", "Test net output #1: loss"),
        *("Iteration 0, Testing net (#2)", "Test net output #0: loss"),
    ]


def test_a_net_of_no_test_batches_is_left_out(folder, train):
    log = train(SOLVER + 'test_net: "plain.prototxt" test_iter: 0 test_iter: 1 test_interval: 20').log
    assert [line for line in log if "Testing net" in line] == ["Iteration 0, Testing net (#0)"]


def test_level_and_stages_reach_the_train_net(folder, make):
    net = (folder / "plain.prototxt").read_text()
    rules = 'layer { name: "a" type: "Silence" bottom: "x" include { stage: "s" } }'
    rules += 'layer { name: "b" type: "Silence" bottom: "x" include { min_level: 2 } }'
    (folder / "plain.prototxt").write_text(net + rules)

    def names(**options):
        return {node.name for node in make(SOLVER + TESTS, **options).net.graph.nodes} & {"a", "b"}

    assert names() == set() and names(stages=("t", "s")) == {"a"} and names(level=2, stages=("s",)) == {"a", "b"}
    solver = make(SOLVER + TESTS, level=2)
    assert not {node.name for node in solver.tests[0][0].graph.nodes} & {"a", "b"}, "-level is for the train net alone"
    assert {node.name for node in make(SOLVER + 'train_state { level: 3 stage: "s" }').net.graph.nodes} >= {"a", "b"}


def test_debug_info(folder, train):
    log = train(SOLVER + "display: 1 debug_info: true", iterations=1).log
    values = [line for line in log if line.startswith("    [")]
    assert [re.sub(r": [\d.e+-]+", ": v", line.strip()) for line in values] == [
        "[Forward] Layer rows, top blob x data: v",
        "[Forward] Layer rows, top blob y data: v",
        "[Forward] Layer value, top blob value data: v",
        "[Forward] Layer value, param blob 0 data: v",
        "[Forward] Layer value, param blob 1 data: v",
        "[Forward] Layer loss, top blob loss data: v",
        "[Backward] Layer loss, bottom blob value diff: v",
        "[Backward] Layer value, param blob 0 diff: v",
        "[Backward] Layer value, param blob 1 diff: v",
        "[Update] Layer value, param 0 data: v; diff: v",
        "[Update] Layer value, param 1 data: v; diff: v",
    ]
    with h5py.File(folder / "rows.h5") as file:
        assert float(values[0].split()[-1]) == pytest.approx(np.abs(file["x"][:4]).mean(), rel=1e-5)


@pytest.mark.parametrize(
    "text, message",
    [
        ('type: "SDG"', r':\d+: unknown solver type "SDG"; expected one of .*SGD.*; did you mean "SGD"'),
        ('type: "SGD" solver_type: SGD', "both type and solver_type are set; keep type"),
        ('regularization_type: "L3"', 'unknown regularization_type "L3"; expected L2 or L1'),
        ("iter_size: 0", r"s?olver.prototxt:1:\d+: iter_size must be at least 1; found 0"),
        ("average_loss: 0", "average_loss must be at least 1; found 0"),
        ("display: -1", "display must be at least 0; found -1"),
        ("snapshot: -1", "snapshot must be at least 0; found -1"),
        ("test_interval: -5", "test_interval must be at least 0"),
        ("test_iter: 2", "test_iter without test_interval; set test_interval, or drop test_iter"),
        ("test_iter: -1 test_interval: 1", r":1:\d+: test_iter must be at least 0; found -1"),
        (
            TESTS + "test_state { } test_state { }",
            "test_state does not fit .*; expected none, or one for each of the 1 test nets, found 2",
        ),
        (
            'test_net: "plain.prototxt" test_interval: 5',
            "test_iter does not fit .*; expected one test_iter for each of the 1 .*, found 0",
        ),
        (
            'train_net: "plain.prototxt" train_net_param { }',
            "a solver trains one net; expected one of .*, found train_net_param, train_net",
        ),
    ],
)
def test_mistakes(folder, make, text, message):
    with pytest.raises(CaffeliteError, match=message) as caught:
        make(SOLVER + text)
    assert str(caught.value).startswith("solver.prototxt:1:"), "with its place"


@pytest.mark.parametrize(
    "net, message",
    [("", "a solver trains one net; expected one of .*, found none"), ('net: ""', "an empty path of a net")],
)
def test_no_net(folder, make, net, message):
    with pytest.raises(CaffeliteError, match=message):
        make(SOLVER.replace('net: "plain.prototxt"', net))


def test_a_failed_constructor_closes_its_sources(folder, make):
    import threading

    before = threading.active_count()
    with pytest.raises(CaffeliteError, match="does not exist"):
        make(SOLVER + 'snapshot: 1 snapshot_prefix: "absent/run"')
    assert threading.active_count() == before
