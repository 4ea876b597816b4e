"""Learning rates against Caffe's formulas, worked out here in float64."""

import math

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint.snapshot import names, read_state
from caffelite.training.optim import rates

F = np.float32  # the fields of a solver are floats


def rate(text):
    """The rates of a solver; a text without a colon in its first word begins with the policy."""
    policy, _, fields = text.partition(" ")
    text = text if policy.endswith(":") else f'lr_policy: "{policy}" {fields}'
    document = prototxt.parse(text, pb.SolverParameter, "s.prototxt")
    return rates.policy(document.message, document.locate)


TABLE = [
    ("fixed base_lr: 0.1", {0: F(0.1), 10**9: F(0.1)}),
    ("step base_lr: 0.5 gamma: 0.5 stepsize: 3", {0: 0.5, 2: 0.5, 3: 0.25, 5: 0.25, 6: 0.125, 3000: 0.5**1001}),
    ("step base_lr: 0.5 gamma: 0.5 stepsize: 1", {0: 0.5, 1: 0.25}),
    ("exp base_lr: 2 gamma: 0.75", {0: 2, 1: 1.5, 10: 2 * 0.75**10, 10**6: 0}),
    (
        "inv base_lr: 0.01 gamma: 0.0001 power: 0.75",
        {i: float(F(0.01)) / (1 + float(F(0.0001)) * i) ** 0.75 for i in (0, 1, 99, 9999)},
    ),
    ("inv base_lr: 1 gamma: 1 power: 0", {0: 1, 77: 1}),
    (
        "multistep base_lr: 1 gamma: 0.5 stepvalue: 3 stepvalue: 5 stepvalue: 50",
        {0: 1, 2: 1, 3: 0.5, 4: 0.5, 5: 0.25, 49: 0.25, 50: 0.125},
    ),
    ("multistep base_lr: 1 gamma: 0.5 stepvalue: 0", {0: 0.5, 9: 0.5}),
    ("poly base_lr: 2 power: 0.5 max_iter: 100", {0: 2, 50: 2 * math.sqrt(0.5), 99: 0.2, 100: 0, 101: 0}),
    ("poly base_lr: 2 power: 0 max_iter: 10", {0: 2, 10: 2}),
    ("sigmoid base_lr: 4 gamma: -0.5 stepsize: 10", {i: 4 / (1 + math.exp(0.5 * (i - 10))) for i in (0, 10, 11, 30)}),
    ("sigmoid base_lr: 4 gamma: 1 stepsize: 2000", {0: 0, 2000: 2, 5000: 4}),  # e^2000 is no double
    (
        "multifixed stagelr: 4 stagelr: 1 stagelr: 2 stageiter: 0 stageiter: 5 stageiter: 9",
        {0: 4, 1: 1, 5: 1, 6: 2, 9: 2, 10: 2, 99: 2},
    ),
    ("cosine base_lr: 4 max_iter: 100", {0: 4, 25: 2 + math.sqrt(2), 50: 2, 75: 2 - math.sqrt(2), 100: 0, 200: 0}),
    ("cosine base_lr: 4 max_iter: 100 min_lr: 2", {0: 4, 50: 3, 100: 2, 200: 2}),
    ("cosine base_lr: 4 max_iter: 100 warmup_iter: 60", {0: 0, 30: 2, 60: 4, 80: 2, 100: 0}),
    ("cosine base_lr: 4 max_iter: 100 warmup_iter: 100", {50: 2, 99: 3.96, 100: 4, 101: 0}),
    (
        "onecycle base_lr: 16 max_iter: 128 pct_start: 0.25 div_factor: 32 final_div_factor: 8",
        {0: 0.5, 16: 8.25, 32: 16, 80: 8.03125, 128: 0.0625, 200: 0.0625},
    ),
    (
        "onecycle base_lr: 8 max_iter: 40 pct_start: 0.5 div_factor: 4 final_div_factor: 2",
        {0: 2, 10: 5, 20: 8, 30: 4.5, 40: 1},
    ),
    ("onecycle base_lr: 25 max_iter: 10", {0: 1, 10: 1e-4}),
    ("onecycle base_lr: 4 max_iter: 100 pct_start: 0.5 min_lr: 1", {0: 1, 50: 4, 100: 1}),
    ("poly base_lr: 4 power: 2 max_iter: 100 min_lr: 1", {0: 4, 50: 1.75, 100: 1}),
    ("exp base_lr: 4 gamma: 0.5 min_lr: 0.75", {0: 4, 2: 1, 3: 0.75, 4: 0.75}),
    (
        "step base_lr: 8 gamma: 0.5 stepsize: 3 warmup_iter: 4 warmup_start_lr: 4",
        {0: 4, 1: 5, 2: 6, 3: 7, 4: 4, 5: 4, 6: 2},
    ),
    ("fixed base_lr: 9 rampup_interval: 4 rampup_lr: 1", {0: 1, 1: 1.5, 2: 3, 3: 5.5, 4: 9, 5: 9}),
    ("fixed base_lr: 8 rampup_interval: 4 min_lr: 1", {0: 1, 1: 1, 2: 2, 3: 4.5, 4: 8}),
    ("plateau base_lr: 8 gamma: 0.5 plateau_winsize: 1", {0: 8, 99: 8}),  # nothing seen
]


@pytest.mark.parametrize("text, expected", TABLE, ids=[t.split()[0] + str(i) for i, (t, _) in enumerate(TABLE)])
def test_rate(text, expected):
    actual = rate(text)
    for iteration, value in expected.items():
        assert actual(iteration) == pytest.approx(float(value), rel=1e-12, abs=0), iteration


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "stp base_lr: 1",
            's.prototxt:1:12: unknown lr_policy "stp"; expected one of fixed, step,.*; did you mean "step"',
        ),
        ("base_lr: 1", "s.prototxt: no lr_policy; expected one of"),
        ("step base_lr: 1 gamma: 1", 's.prototxt:1:12: lr_policy "step" needs stepsize; set stepsize'),
        ("step base_lr: 1 stepsize: 1", "needs gamma"),
        ("exp base_lr: 1", "needs gamma"),
        ("inv base_lr: 1 gamma: 1", "needs power"),
        ("multistep base_lr: 1 gamma: 1", "needs stepvalue; set stepvalue or step_epoch"),
        ("poly base_lr: 1 power: 1", "needs max_iter"),
        ("sigmoid base_lr: 1 gamma: 1", "needs stepsize"),
        ("step base_lr: 1 gamma: 1 stepsize: 0", r"s.prototxt:1:\d+: stepsize must be at least 1; found 0"),
        ("multifixed stagelr: 1", "needs stageiter"),
        ("multifixed stagelr: 1 stageiter: 1 stageiter: 2", "expected a stagelr for each of the 2 stageiter, found 1"),
        ("multifixed stagelr: 1 stagelr: 1 stageiter: 2 stageiter: 2", r"stageiter must rise; found \[2, 2\]"),
        ("plateau base_lr: 1 gamma: 1", "needs plateau_winsize"),
        (
            "plateau base_lr: 1 gamma: 1 plateau_winsize: 3 plateau_winsize: 0",
            "plateau_winsize must be at least 1; found 0",
        ),
        ("cosine base_lr: 1", "needs max_iter"),
        ("onecycle base_lr: 1", "needs max_iter"),
        ("onecycle base_lr: 1 max_iter: 9 pct_start: 1", "pct_start must be above 0 and below 1; found 1"),
        ("onecycle base_lr: 1 max_iter: 9 div_factor: 0", "div_factor must be at least 1; found 0"),
        (
            "onecycle base_lr: 1 max_iter: 9 warmup_iter: 2",
            "rises by itself; found warmup_iter: 2; leave out warmup_iter, or set pct_start",
        ),
        ("fixed base_lr: 1 min_lr: 2", r"s.prototxt:1:\d+: min_lr is above base_lr; expected at most 1, found 2"),
        ("fixed base_lr: 1 min_lr: -2", "min_lr must be a number not below 0; found -2"),
        ("fixed base_lr: 1 warmup_iter: -2", "warmup_iter must be a number not below 0; found -2"),
        ("fixed base_lr: 1 rampup_lr: inf", "rampup_lr must be a number not below 0; found inf"),
        (
            "fixed base_lr: 1 warmup_iter: 2 rampup_interval: 2",
            "both warmup_iter and rampup_interval are set; keep one warm-up",
        ),
        ("poly base_lr: 1 power: 1 max_iter: 0", r"s.prototxt:1:\d+: max_iter must be at least 1; found 0"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(CaffeliteError, match=message):
        rate(text)


@pytest.mark.parametrize(
    "text, at",
    [
        ("exp base_lr: 1 gamma: 2", 5000),  # overflows
        ("inv base_lr: 1 gamma: -1 power: 0.5", 2),  # root of a negative number
        ("inv base_lr: 1 gamma: -1 power: 0.5", 1),  # 0 ^ -0.5
        ("poly base_lr: 1 power: -1 max_iter: 9", 9),
        ("fixed base_lr: nan", 0),
    ],
)
def test_a_rate_that_is_not_finite_is_an_error(text, at):
    message = rf"s.prototxt:1:12: .* gives no finite rate at iteration {at}; found (inf|nan); correct base_lr"
    with pytest.raises(CaffeliteError, match=message):
        rate(text)(at)


# plateau

PLATEAU = 'lr_policy: "plateau" base_lr: 8 gamma: 0.5 plateau_winsize: 3 plateau_winsize: 2'


@pytest.mark.parametrize(
    "losses, steps",
    [
        ([5, 4, 3, 2, 1, 0.5, 0.25], [0, 0, 0, 0, 0, 0, 0]),  # it falls all the time
        ([5, 5, 5, 5, 5, 5, 5, 5, 5], [0, 0, 0, 1, 1, 2, 2, 2, 2]),  # three iterations, then two, then no more windows
        ([5, 6, 4, 6, 6, 6, 6, 3, 6, 6], [0, 0, 0, 0, 0, 1, 1, 1, 1, 2]),  # a new minimum starts the count again
        ([math.nan] * 4, [0, 0, 0, 1]),
    ],
)
def test_plateau(losses, steps):
    actual = rate(PLATEAU)
    fell = []
    for i, loss in enumerate(losses):
        fell.append(actual.receive_loss(i, loss))
        assert actual.current_step(i) == steps[i] and actual(i) == 8 * 0.5 ** steps[i], i
    assert [i for i, f in enumerate(fell) if f] == [i for i in range(1, len(steps)) if steps[i] > steps[i - 1]]


def test_plateaus_ignore_the_warm_up():
    actual = rate(PLATEAU + " warmup_iter: 9")
    assert not any(actual.receive_loss(i, 5.0) for i in range(9))
    assert [actual.receive_loss(i, 5.0) for i in range(9, 15)] == [False, False, False, True, False, True]


def test_current_step_equals_caffes():
    step = rate('lr_policy: "step" base_lr: 1 gamma: 1 stepsize: 3')
    multistep = rate('lr_policy: "multistep" base_lr: 1 gamma: 1 stepvalue: 3')
    assert [step.current_step(i) for i in (0, 2, 3, 7)] == [0, 0, 1, 2]
    assert [multistep.current_step(i) for i in (0, 2, 3, 7)] == [0, 0, 1, 1]
    assert rate('lr_policy: "fixed" base_lr: 1').current_step(9) == 0


SOLVER = """
net: "everything.prototxt" lr_policy: "plateau" base_lr: 0.05 gamma: 0.5 plateau_winsize: 2 plateau_winsize: 3
plateau_winsize: 3
max_iter: 24 display: 1 average_loss: 2 snapshot: 1 random_seed: 5 min_lr: 0.001
"""


@pytest.mark.parametrize("form", ["BINARYPROTO", "HDF5"])
def test_a_plateau_resumes_exactly(folder, train, form):
    text = f"{SOLVER} snapshot_format: {form}"
    whole = train(text + ' snapshot_prefix: "a"')
    steps = [line for line in whole.log if line.startswith("Plateau Status")]
    assert 1 < len(steps) <= 3, "a run with steps"
    for at in range(2, 24, 4):
        again = train(text + ' snapshot_prefix: "b"', resume=names("a", at, form == "HDF5")[1])
        np.testing.assert_equal(again.params(), whole.params())
        one, two = (read_state(names(prefix, 24, form == "HDF5")[1]) for prefix in "ab")
        assert (one.plateau, one.current_step) == (two.plateau, two.current_step) and one.current_step == len(steps)
