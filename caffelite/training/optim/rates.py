"""Learning rates: pure functions of the iteration, one a policy, named as lr_policy names them.

"plateau" is one of its events too, which the solver tells it and its states keep. A warm-up comes before any policy,
min_lr after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError, Locator, did_you_mean

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
    return lambda i: p.min_lr + (p.base_lr - p.min_lr) * _power(max(0.0, 1 - i / p.max_iter), p.power)


def sigmoid(p: pb.SolverParameter) -> Rate:
    return lambda i: p.base_lr / (1 + _power(math.e, -p.gamma * (i - p.stepsize)))


def multifixed(p: pb.SolverParameter) -> Rate:
    return lambda i: p.stagelr[min(sum(last < i for last in p.stageiter), len(p.stagelr) - 1)]


def cosine(p: pb.SolverParameter) -> Rate:
    """Loshchilov and Hutter 2017, without restarts."""
    start = _warm_up_length(p)

    def rate(i: int) -> float:
        done = min(1.0, max(0, i - start) / max(1, p.max_iter - start))
        return p.min_lr + (p.base_lr - p.min_lr) * (1 + math.cos(math.pi * done)) / 2

    return rate


@dataclass
class Plateau:
    """The events of a run with lr_policy "plateau": how often the rate was lowered, the least loss, and when the latest
    of both was."""

    steps: int = 0
    minimum_loss: float = float(np.finfo(np.float32).max)
    last_event: int = 0

    def see(self, p: pb.SolverParameter, iteration: int, loss: float) -> None:
        """Takes in the mean loss of the latest iterations."""
        if loss < self.minimum_loss:
            self.minimum_loss, self.last_event = loss, iteration
        if self.steps < len(p.plateau_winsize) and iteration >= self.last_event + p.plateau_winsize[self.steps]:
            self.steps, self.last_event = self.steps + 1, iteration


# Each policy with the fields that it needs.
POLICIES: dict[str, tuple[Callable[[pb.SolverParameter], Rate], tuple[str, ...]]] = {
    "fixed": (fixed, ()),
    "step": (step, ("gamma", "stepsize")),
    "exp": (exp, ("gamma",)),
    "inv": (inv, ("gamma", "power")),
    "multistep": (multistep, ("gamma", "stepvalue")),
    "poly": (poly, ("power", "max_iter")),
    "sigmoid": (sigmoid, ("gamma", "stepsize")),
    "multifixed": (multifixed, ("stagelr", "stageiter")),
    "plateau": (fixed, ("gamma", "plateau_winsize")),
    "cosine": (cosine, ("max_iter",)),
}


class Schedule:
    """The rate as a function of the iteration: ``schedule(i)``. plateau: the events so far, None for every other
    policy."""

    def __init__(self, p: pb.SolverParameter, locate: Locator):
        make, self._needs = POLICIES[p.lr_policy]
        self._p, self._locate, self._rate = p, locate, make(p)
        self._warm = _warm_up(p)
        self.plateau = Plateau() if p.lr_policy == "plateau" else None

    def __call__(self, i: int) -> float:
        p = self._p
        if i < _warm_up_length(p):
            value = self._warm(i)
        else:
            value = self._rate(i) * (_power(p.gamma, self.plateau.steps) if self.plateau else 1)
        if not math.isfinite(value):
            what = f'lr_policy "{p.lr_policy}" gives no finite rate at iteration {i}'
            raise CaffeliteError(
                what,
                where=self._locate("lr_policy"),
                found=value,
                remedy=f"correct {', '.join(('base_lr', *self._needs))}",
            )
        return max(value, p.min_lr) if p.min_lr else value

    def see(self, i: int, loss: float) -> bool:
        """Tells a plateau the mean loss at an iteration; whether the rate falls by it. A warm-up is no time to
        judge."""
        before = self.plateau.steps
        if i >= _warm_up_length(self._p):
            self.plateau.see(self._p, i, loss)
        return self.plateau.steps > before

    def current_step(self, i: int) -> int:
        """How many steps lie behind at an iteration, as Caffe's states count them."""
        if self.plateau:
            return self.plateau.steps
        if self._p.lr_policy == "multistep":
            return sum(value <= i for value in self._p.stepvalue)
        return i // self._p.stepsize if self._p.lr_policy == "step" else 0


def _warm_up_length(p: pb.SolverParameter) -> int:
    return p.warmup_iter or p.rampup_interval


def _warm_up(p: pb.SolverParameter) -> Rate:
    """From another rate to base_lr: on a line as Intel's Caffe, as a square as NVCaffe."""
    if p.warmup_iter:
        return lambda i: p.warmup_start_lr + (p.base_lr - p.warmup_start_lr) * (i / p.warmup_iter)
    return lambda i: p.rampup_lr + (p.base_lr - p.rampup_lr) * (i / p.rampup_interval) ** 2


def policy(p: pb.SolverParameter, locate: Locator) -> Schedule:
    """The rate as a function of the iteration; an unknown policy or one that lacks its fields is an error."""
    if p.lr_policy not in POLICIES:
        what = f'unknown lr_policy "{p.lr_policy}"' if p.lr_policy else "no lr_policy"
        remedy = did_you_mean(p.lr_policy, POLICIES) or 'lr_policy: "fixed" keeps base_lr'
        raise CaffeliteError(what, where=locate("lr_policy"), expected=f"one of {', '.join(POLICIES)}", remedy=remedy)
    needs = POLICIES[p.lr_policy][1]
    for name in needs:
        value = getattr(p, name)
        given = p.HasField(name) if isinstance(value, int | float) else len(value)
        if not given:
            raise CaffeliteError(
                f'lr_policy "{p.lr_policy}" needs {name}', where=locate("lr_policy"), remedy=f"set {name}"
            )
    if not p.HasField("base_lr") and (p.lr_policy != "multifixed" or _warm_up_length(p)):
        raise CaffeliteError("no base_lr", where=locate(), remedy="set base_lr, the learning rate to start from")
    if "stepsize" in needs and p.lr_policy == "step" and p.stepsize < 1:
        raise CaffeliteError("stepsize must be at least 1", where=locate("stepsize"), found=p.stepsize)
    if "max_iter" in needs and p.max_iter < 1:
        raise CaffeliteError("max_iter must be at least 1", where=locate("max_iter"), found=p.max_iter)
    for name in ("min_lr", "warmup_iter", "warmup_start_lr", "rampup_interval", "rampup_lr"):
        if not 0 <= getattr(p, name) < math.inf:
            raise CaffeliteError(f"{name} must be a number not below 0", where=locate(name), found=getattr(p, name))
    if p.min_lr > p.base_lr and p.lr_policy != "multifixed":
        raise CaffeliteError(
            "min_lr is above base_lr", where=locate("min_lr"), expected=f"at most {p.base_lr:g}", found=f"{p.min_lr:g}"
        )
    if p.warmup_iter and p.rampup_interval:
        raise CaffeliteError(
            "both warmup_iter and rampup_interval are set", where=locate("rampup_interval"), remedy="keep one warm-up"
        )
    if p.lr_policy == "multifixed":
        if len(p.stagelr) != len(p.stageiter):
            expected = f"a stagelr for each of the {len(p.stageiter)} stageiter"
            raise CaffeliteError(
                "the stages do not fit", where=locate("stagelr"), expected=expected, found=len(p.stagelr)
            )
        if list(p.stageiter) != sorted(set(p.stageiter)):
            raise CaffeliteError("stageiter must rise", where=locate("stageiter"), found=list(p.stageiter))
    if p.lr_policy == "plateau" and min(p.plateau_winsize) < 1:
        raise CaffeliteError(
            "plateau_winsize must be at least 1", where=locate("plateau_winsize"), found=min(p.plateau_winsize)
        )
    return Schedule(p, locate)
