"""Learning rates against Caffe's formulas, worked out here in float64."""

import math

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt
from caffelite.errors import CaffeliteError
from caffelite.solver import rates

F = np.float32  # the fields of a solver are floats


def rate(text):
    document = prototxt.parse(text, pb.SolverParameter, "s.prototxt")
    return rates.policy(document.message, document.locate)


TABLE = [
    ('lr_policy: "fixed" base_lr: 0.1', {0: F(0.1), 10**9: F(0.1)}),
    ('lr_policy: "step" base_lr: 0.5 gamma: 0.5 stepsize: 3', {0: 0.5, 2: 0.5, 3: 0.25, 5: 0.25, 6: 0.125, 3000: 0.5**1001}),
    ('lr_policy: "step" base_lr: 0.5 gamma: 0.5 stepsize: 1', {0: 0.5, 1: 0.25}),
    ('lr_policy: "exp" base_lr: 2 gamma: 0.75', {0: 2, 1: 1.5, 10: 2 * 0.75**10, 10**6: 0}),
    (
        'lr_policy: "inv" base_lr: 0.01 gamma: 0.0001 power: 0.75',
        {i: float(F(0.01)) / (1 + float(F(0.0001)) * i) ** 0.75 for i in (0, 1, 99, 9999)},
    ),
    ('lr_policy: "inv" base_lr: 1 gamma: 1 power: 0', {0: 1, 77: 1}),
    (
        'lr_policy: "multistep" base_lr: 1 gamma: 0.5 stepvalue: 3 stepvalue: 5 stepvalue: 50',
        {0: 1, 2: 1, 3: 0.5, 4: 0.5, 5: 0.25, 49: 0.25, 50: 0.125},
    ),
    ('lr_policy: "multistep" base_lr: 1 gamma: 0.5 stepvalue: 0', {0: 0.5, 9: 0.5}),
    ('lr_policy: "poly" base_lr: 2 power: 0.5 max_iter: 100', {0: 2, 50: 2 * math.sqrt(0.5), 99: 0.2, 100: 0, 101: 0}),
    ('lr_policy: "poly" base_lr: 2 power: 0 max_iter: 10', {0: 2, 10: 2}),
    ('lr_policy: "sigmoid" base_lr: 4 gamma: -0.5 stepsize: 10', {i: 4 / (1 + math.exp(0.5 * (i - 10))) for i in (0, 10, 11, 30)}),
    ('lr_policy: "sigmoid" base_lr: 4 gamma: 1 stepsize: 2000', {0: 0, 2000: 2, 5000: 4}),  # e^2000 is no double
]


@pytest.mark.parametrize("text, expected", TABLE, ids=[t.split('"')[1] + str(i) for i, (t, _) in enumerate(TABLE)])
def test_rate(text, expected):
    found = rate(text)
    for iteration, value in expected.items():
        assert found(iteration) == pytest.approx(float(value), rel=1e-12, abs=0), iteration


@pytest.mark.parametrize(
    "text, message",
    [
        ('lr_policy: "stp" base_lr: 1', 's.prototxt:1:12: unknown lr_policy "stp"; expected one of fixed, step,.*; did you mean "step"'),
        ("base_lr: 1", "s.prototxt: no lr_policy; expected one of"),
        ('lr_policy: "fixed"', "s.prototxt: no base_lr"),
        ('lr_policy: "step" base_lr: 1 gamma: 1', 's.prototxt:1:12: lr_policy "step" needs stepsize; set stepsize'),
        ('lr_policy: "step" base_lr: 1 stepsize: 1', "needs gamma"),
        ('lr_policy: "exp" base_lr: 1', "needs gamma"),
        ('lr_policy: "inv" base_lr: 1 gamma: 1', "needs power"),
        ('lr_policy: "multistep" base_lr: 1 gamma: 1', "needs stepvalue"),
        ('lr_policy: "poly" base_lr: 1 power: 1', "needs max_iter"),
        ('lr_policy: "sigmoid" base_lr: 1 gamma: 1', "needs stepsize"),
        ('lr_policy: "step" base_lr: 1 gamma: 1 stepsize: 0', r"s.prototxt:1:\d+: stepsize must be at least 1; found 0"),
        ('lr_policy: "poly" base_lr: 1 power: 1 max_iter: 0', r"s.prototxt:1:\d+: max_iter must be at least 1; found 0"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(CaffeliteError, match=message):
        rate(text)


@pytest.mark.parametrize(
    "text, at",
    [
        ('lr_policy: "exp" base_lr: 1 gamma: 2', 5000),  # overflows
        ('lr_policy: "inv" base_lr: 1 gamma: -1 power: 0.5', 2),  # root of a negative number
        ('lr_policy: "inv" base_lr: 1 gamma: -1 power: 0.5', 1),  # 0 ^ -0.5
        ('lr_policy: "poly" base_lr: 1 power: -1 max_iter: 9', 9),
        ('lr_policy: "fixed" base_lr: nan', 0),
    ],
)
def test_a_rate_that_is_no_number_is_an_error(text, at):
    with pytest.raises(
        CaffeliteError, match=rf"s.prototxt:1:12: .* gives no finite rate at iteration {at}; found (inf|nan); correct base_lr"
    ):
        rate(text)(at)
