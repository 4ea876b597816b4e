"""Learning rates: pure functions of the iteration, one a policy, named as lr_policy names them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Locator, did_you_mean

Rate = Callable[[int], float]


def _power(base: float, exponent: float) -> float:
    """As C's pow: what is too large is inf, what has no real value is nan."""
    with np.errstate(all="ignore"):
        return float(np.float64(base) ** exponent)


def fixed(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr


def step(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr * _power(p.gamma, i // p.stepsize)


def exp(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr * _power(p.gamma, i)


def inv(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr * _power(1 + p.gamma * i, -p.power)


def multistep(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr * _power(p.gamma, sum(value <= i for value in p.stepvalue))


def poly(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr * _power(max(0.0, 1 - i / p.max_iter), p.power)


def sigmoid(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr / (1 + _power(math.e, -p.gamma * (i - p.stepsize)))


POLICIES: dict[str, tuple[Callable[[pb.SolverParameter], Rate], tuple[str, ...]]] = {
    "fixed": (fixed, ()),
    "step": (step, ("gamma", "stepsize")),
    "exp": (exp, ("gamma",)),
    "inv": (inv, ("gamma", "power")),
    "multistep": (multistep, ("gamma", "stepvalue")),
    "poly": (poly, ("power", "max_iter")),
    "sigmoid": (sigmoid, ("gamma", "stepsize")),
}


def policy(p: pb.SolverParameter, locate: Locator) -> Rate:
    """The rate as a function of the iteration; an unknown policy or one that lacks its fields is an error."""
    if p.lr_policy not in POLICIES:
        what = f'unknown lr_policy "{p.lr_policy}"' if p.lr_policy else "no lr_policy"
        remedy = did_you_mean(p.lr_policy, POLICIES) or 'lr_policy: "fixed" keeps base_lr'
        raise CaffeliteError(what, where=locate("lr_policy"), expected=f"one of {', '.join(POLICIES)}", remedy=remedy)
    make, needs = POLICIES[p.lr_policy]
    for name in needs:
        given = len(p.stepvalue) if name == "stepvalue" else p.HasField(name)
        if not given:
            raise CaffeliteError(f'lr_policy "{p.lr_policy}" needs {name}', where=locate("lr_policy"), remedy=f"set {name}")
    if not p.HasField("base_lr"):
        raise CaffeliteError("no base_lr", where=locate(), remedy="set base_lr, the learning rate to start from")
    if "stepsize" in needs and p.lr_policy == "step" and p.stepsize < 1:
        raise CaffeliteError("stepsize must be at least 1", where=locate("stepsize"), found=p.stepsize)
    if "max_iter" in needs and p.max_iter < 1:
        raise CaffeliteError("max_iter must be at least 1", where=locate("max_iter"), found=p.max_iter)
    rate = make(p)

    def finite(i: int) -> float:
        value = rate(i)
        if not math.isfinite(value):
            what = f'lr_policy "{p.lr_policy}" gives no finite rate at iteration {i}'
            raise CaffeliteError(what, where=locate("lr_policy"), found=value, remedy=f"correct {', '.join(('base_lr', *needs))}")
        return value

    return finite
