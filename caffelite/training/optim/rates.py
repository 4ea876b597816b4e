"""Learning rates: pure functions of the iteration, one per lr_policy.

"plateau" also depends on its events, which follow from the losses and are part of the training state. A warm-up
precedes any policy; min_lr limits the result.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import Locator, did_you_mean
from ..state import PlateauState


def _power(base: float, exponent: float) -> float:
    """As C's pow: what is too large is inf, what has no real value is nan."""
    with np.errstate(all="ignore"):
        return float(np.float64(base) ** exponent)


def _cosine(p: pb.SolverParameter, i: int) -> float:
    """Loshchilov and Hutter 2017, without restarts."""
    start = _warm_up_length(p)
    done = min(1.0, max(0, i - start) / max(1, p.max_iter - start))
    return p.min_lr + (p.base_lr - p.min_lr) * (1 + math.cos(math.pi * done)) / 2


def _onecycle(p: pb.SolverParameter, i: int) -> float:
    """Smith 2018, along cosines as in PyTorch's OneCycleLR, without a cycle of the momentum."""
    top = p.pct_start * p.max_iter
    first, last = p.base_lr / p.div_factor, p.base_lr / p.div_factor / p.final_div_factor
    begin, end, done = (first, p.base_lr, i / top) if i < top else (p.base_lr, last, (i - top) / (p.max_iter - top))
    return end + (begin - end) * (1 + math.cos(math.pi * min(1.0, done))) / 2


@dataclass(frozen=True)
class Policy:
    """An lr_policy. rate: of a solver at an iteration. fields: those that it needs. current_step: the number of steps
    before an iteration, as Caffe's states count them. turns: the iterations at which the rate steps; None: it changes
    with every iteration."""

    rate: Callable[[pb.SolverParameter, int], float]
    fields: tuple[str, ...] = ()
    current_step: Callable[[pb.SolverParameter, int], int] = lambda p, i: 0
    turns: Callable[[pb.SolverParameter], Iterable[int]] | None = None


IN_EPOCHS = {"stepsize": "step_epoch", "stepvalue": "step_epoch", "max_iter": "max_epoch"}
POLICIES = {
    "fixed": Policy(lambda p, i: p.base_lr, turns=lambda p: ()),
    "step": Policy(
        lambda p, i: p.base_lr * _power(p.gamma, i // p.stepsize),
        ("gamma", "stepsize"),
        lambda p, i: i // p.stepsize,
        lambda p: range(p.stepsize, p.max_iter, p.stepsize),
    ),
    "exp": Policy(lambda p, i: p.base_lr * _power(p.gamma, i), ("gamma",)),
    "inv": Policy(lambda p, i: p.base_lr * _power(1 + p.gamma * i, -p.power), ("gamma", "power")),
    "multistep": Policy(
        lambda p, i: p.base_lr * _power(p.gamma, sum(value <= i for value in p.stepvalue)),
        ("gamma", "stepvalue"),
        lambda p, i: sum(value <= i for value in p.stepvalue),
        lambda p: p.stepvalue,
    ),
    "poly": Policy(
        lambda p, i: p.min_lr + (p.base_lr - p.min_lr) * _power(max(0.0, 1 - i / p.max_iter), p.power),
        ("power", "max_iter"),
    ),
    "sigmoid": Policy(
        lambda p, i: p.base_lr / (1 + _power(math.e, -p.gamma * (i - p.stepsize))), ("gamma", "stepsize")
    ),
    "multifixed": Policy(
        lambda p, i: p.stagelr[min(sum(last < i for last in p.stageiter), len(p.stagelr) - 1)],
        ("stagelr", "stageiter"),
        turns=lambda p: [i + 1 for i in p.stageiter[:-1]],
    ),
    "plateau": Policy(lambda p, i: p.base_lr, ("gamma", "plateau_winsize"), turns=lambda p: ()),
    "cosine": Policy(_cosine, ("max_iter",)),
    "onecycle": Policy(_onecycle, ("max_iter",)),
}


class Schedule:
    """The rate as a function of the iteration: ``schedule(i)``. plateau: the events so far; None for every other
    policy."""

    def __init__(self, p: pb.SolverParameter, locate: Locator):
        self._p, self._locate, self._policy = p, locate, POLICIES[p.lr_policy]
        self.plateau = PlateauState() if p.lr_policy == "plateau" else None

    def __call__(self, i: int) -> float:
        p = self._p
        if i < _warm_up_length(p):
            value = _warm_up(p, i)
        else:
            value = self._policy.rate(p, i) * (_power(p.gamma, self.plateau.steps) if self.plateau else 1)
        if not math.isfinite(value):
            what = f'lr_policy "{p.lr_policy}" gives no finite rate at iteration {i}'
            remedy = f"correct {', '.join(('base_lr', *self._policy.fields))}"
            raise self._locate.error(what, "lr_policy", found=value, remedy=remedy)
        return max(value, p.min_lr) if p.min_lr else value

    def receive_loss(self, i: int, loss: float) -> bool:
        """Passes the mean loss at an iteration to a plateau. Returns whether the rate falls. Losses of a warm-up do not
        count."""
        plateau, windows = self.plateau, self._p.plateau_winsize
        if plateau is None or i < _warm_up_length(self._p):
            return False
        if loss < plateau.minimum_loss:
            plateau.minimum_loss, plateau.last_event = loss, i
        if plateau.steps < len(windows) and i >= plateau.last_event + windows[plateau.steps]:
            plateau.steps, plateau.last_event = plateau.steps + 1, i
            return True
        return False

    def current_step(self, i: int) -> int:
        """The number of steps before an iteration, as Caffe's states count them."""
        return self.plateau.steps if self.plateau else self._policy.current_step(self._p, i)


def _warm_up_length(p: pb.SolverParameter) -> int:
    return p.warmup_iter or p.rampup_interval


def _warm_up(p: pb.SolverParameter, i: int) -> float:
    """From another rate to base_lr: on a line as Intel's Caffe, as a square as NVCaffe."""
    if p.warmup_iter:
        return p.warmup_start_lr + (p.base_lr - p.warmup_start_lr) * (i / p.warmup_iter)
    return p.rampup_lr + (p.base_lr - p.rampup_lr) * (i / p.rampup_interval) ** 2


def _check_cycle(p: pb.SolverParameter, locate: Locator) -> None:
    if not 0 < p.pct_start < 1:
        raise locate.error("pct_start must be above 0 and below 1", "pct_start", found=f"{p.pct_start:g}")
    for name in ("div_factor", "final_div_factor"):
        if not 1 <= getattr(p, name) < math.inf:
            raise locate.error(f"{name} must be at least 1", name, found=f"{getattr(p, name):g}")
    if length := _warm_up_length(p):
        name = "warmup_iter" if p.warmup_iter else "rampup_interval"
        what, remedy = 'lr_policy "onecycle" rises by itself', f"leave out {name}, or set pct_start"
        raise locate.error(what, name, found=f"{name}: {length}", remedy=remedy)


def _check_stages(p: pb.SolverParameter, locate: Locator) -> None:
    if len(p.stagelr) != len(p.stageiter):
        expected = f"a stagelr for each of the {len(p.stageiter)} stageiter"
        raise locate.error("the stages do not fit", "stagelr", expected=expected, found=len(p.stagelr))
    if list(p.stageiter) != sorted(set(p.stageiter)):
        raise locate.error("stageiter must rise", "stageiter", found=list(p.stageiter))


def lacks_rate(p: pb.SolverParameter) -> bool:
    """Whether a solver has no base_lr though its policy starts from it: as in Caffe the rate is 0 then."""
    return not p.HasField("base_lr") and (p.lr_policy != "multifixed" or bool(_warm_up_length(p)))


def policy(p: pb.SolverParameter, locate: Locator) -> Schedule:
    """The rate as a function of the iteration; an unknown policy or one that lacks its fields is an error."""
    if p.lr_policy not in POLICIES:
        what = f'unknown lr_policy "{p.lr_policy}"' if p.lr_policy else "no lr_policy"
        remedy = did_you_mean(p.lr_policy, POLICIES) or 'lr_policy: "fixed" keeps base_lr'
        raise locate.error(what, "lr_policy", expected=f"one of {', '.join(POLICIES)}", remedy=remedy)
    needs = POLICIES[p.lr_policy].fields
    for name in needs:
        value = getattr(p, name)
        present = p.HasField(name) if isinstance(value, int | float) else len(value)
        if not present:
            remedy = f"set {name}" + (f" or {IN_EPOCHS[name]}" if name in IN_EPOCHS else "")
            raise locate.error(f'lr_policy "{p.lr_policy}" needs {name}', "lr_policy", remedy=remedy)
    if "stepsize" in needs and p.lr_policy == "step" and p.stepsize < 1:
        raise locate.error("stepsize must be at least 1", "stepsize", found=p.stepsize)
    if "max_iter" in needs and p.max_iter < 1:
        raise locate.error("max_iter must be at least 1", "max_iter", found=p.max_iter)
    if p.lr_policy == "onecycle":
        _check_cycle(p, locate)
    for name in ("min_lr", "warmup_iter", "warmup_start_lr", "rampup_interval", "rampup_lr"):
        if not 0 <= getattr(p, name) < math.inf:
            raise locate.error(f"{name} must be a number not below 0", name, found=getattr(p, name))
    if p.min_lr > p.base_lr and p.lr_policy != "multifixed":
        what = "min_lr is above base_lr"
        raise locate.error(what, "min_lr", expected=f"at most {p.base_lr:g}", found=f"{p.min_lr:g}")
    if p.warmup_iter and p.rampup_interval:
        raise locate.error("both warmup_iter and rampup_interval are set", "rampup_interval", remedy="keep one warm-up")
    if p.lr_policy == "multifixed":
        _check_stages(p, locate)
    if p.lr_policy == "plateau" and min(p.plateau_winsize) < 1:
        raise locate.error("plateau_winsize must be at least 1", "plateau_winsize", found=min(p.plateau_winsize))
    return Schedule(p, locate)
