"""Update rules: formulas for one weight w with gradient g; both devices compile the same text.

``rate`` is the learning rate times lr_mult, ``decay`` the weight decay times decay_mult; g is divided by iter_size and
clipped before. A rule may overwrite g. Names in ``history`` are buffers as large as the parameters, stored in solver
states in this order. ``changing`` are constants that depend on the iteration.
"""

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices import formula_ops
from ...devices.formula import Formula
from ...devices.types import Array, Kernel
from ...errors import CaffeliteError, Collector, Locator, did_you_mean
from ...net.net import Net
from ...net.parameters import multipliers
from ..whole_net import WholeNet
from .clipping import Clipping

CHUNK = 4096  # elements that one thread or block updates at a time
REGULARIZATION = {"L2": "g = g + decay * w", "L1": "g = g + decay * sign(w)"}
DECOUPLED = {"L2": "w = w - rate * decay * w", "L1": "w = w - rate * decay * sign(w)"}


@dataclass(frozen=True)
class Rule:
    text: str
    history: tuple[str, ...]
    constants: tuple[str, ...]  # fields of SolverParameter
    changing: dict[str, Callable[[pb.SolverParameter, int], float]] = field(default_factory=dict)
    decay: dict[str, str] = field(default_factory=lambda: REGULARIZATION)


def _correction(p: pb.SolverParameter, iteration: int) -> float:
    """Adam's bias correction: its averages start from 0."""
    t = iteration + 1
    correction: float = (1 - p.momentum2**t) ** 0.5 / (1 - p.momentum**t)
    return correction


_ADAM = (
    "m = momentum * m + (1 - momentum) * g; v = momentum2 * v + (1 - momentum2) * g * g; w = w - rate * "
    "correction * m / (sqrt(v) + delta)"
)

# Text and order of history as in Caffe.
RULES = {
    "SGD": Rule("h = momentum * h + rate * g; w = w - h", ("h",), ("momentum",)),
    # Nesterov 1983
    "Nesterov": Rule(
        "g = momentum * h + rate * g; w = w - ((1 + momentum) * g - momentum * h); h = g", ("h",), ("momentum",)
    ),
    # Duchi et al. 2011
    "AdaGrad": Rule("h = h + g * g; w = w - rate * g / (sqrt(h) + delta)", ("h",), ("delta",)),
    # Tieleman and Hinton 2012
    "RMSProp": Rule(
        "h = rms_decay * h + (1 - rms_decay) * g * g; w = w - rate * g / (sqrt(h) + delta)",
        ("h",),
        ("rms_decay", "delta"),
    ),
    # Zeiler 2012
    "AdaDelta": Rule(
        "h = momentum * h + (1 - momentum) * g * g; g = g * sqrt((d + delta) / (h + delta)); "
        "d = momentum * d + (1 - momentum) * g * g; w = w - rate * g",
        ("h", "d"),
        ("momentum", "delta"),
    ),
    # Kingma and Ba 2015
    "Adam": Rule(_ADAM, ("m", "v"), ("momentum", "momentum2", "delta"), {"correction": _correction}),
    # Loshchilov and Hutter 2019; Caffe has none
    "AdamW": Rule(_ADAM, ("m", "v"), ("momentum", "momentum2", "delta"), {"correction": _correction}, DECOUPLED),
}
# Valid values of a rule's fields. Below 0, or from 1 on, an average grows without bound or changes its sign.
_Limit = tuple[Callable[[float], bool], str]
_NONE: _Limit = (lambda v: v == 0, "0: this rule has none")
_SHARE: _Limit = (lambda v: 0 <= v < 1, "a number from 0 to below 1")
_LIMITS = {
    "AdaGrad": {"momentum": _NONE},
    "RMSProp": {"momentum": _NONE, "rms_decay": _SHARE},
    "AdaDelta": {"momentum": _SHARE},
    "Adam": {"momentum": _SHARE, "momentum2": _SHARE},
    "AdamW": {"momentum": _SHARE, "momentum2": _SHARE},
}


def fused_passes(p: pb.SolverParameter, processes: int = 1) -> int:
    """The passes of an iteration, where the update may compute gradients of weights: where nothing but norms of all
    gradients is read before. 0: it may not."""
    reads = processes > 1 or p.local_lr_auto or p.larc or p.debug_info or p.snapshot_diff
    return 0 if reads else p.iter_size


def rule_name(p: pb.SolverParameter, locate: Locator) -> str:
    """The solver's type: ``type``, or the old ``solver_type``; matched without regard to case for the latter."""
    name = p.type
    if p.HasField("solver_type"):
        if p.HasField("type"):
            raise locate.error("both type and solver_type are set", "solver_type", remedy="keep type")
        old = pb.SolverParameter.SolverType.Name(p.solver_type)
        name = next((r for r in RULES if r.upper() == old), old)
    if name not in RULES:
        known = ", ".join(RULES)
        what = f'unknown solver type "{name}"'
        raise locate.error(what, "type", expected=f"one of {known}", remedy=did_you_mean(name, RULES))
    return name


def check(p: pb.SolverParameter, locate: Locator) -> str:
    """The rule's name. Errors: every mistake in the fields that rules read."""
    mistakes, name = Collector(), ""
    try:
        name = rule_name(p, locate)
    except CaffeliteError as mistake:
        mistakes.add(mistake)
    for of, (right, expected) in _LIMITS.get(name, {}).items():
        if not right(getattr(p, of)):
            what = f"{name} cannot run with this {of}"
            mistakes.add(locate.error(what, of, expected=expected, found=f"{getattr(p, of):g}"))
    words = [("regularization_type", tuple(REGULARIZATION)), ("larc_policy", ("scale", "clip"))]
    for of, known in words if p.local_lr_auto or p.larc else words[:1]:
        if (word := getattr(p, of)) not in known:
            what, expected = f'unknown {of} "{word}"', " or ".join(known)
            mistakes.add(locate.error(what, of, expected=expected, remedy=did_you_mean(word, known)))
    if p.local_lr_auto and p.larc:
        mistakes.add(locate.error("both local_lr_auto and larc are set", "larc", remedy="keep LARS or LARC"))
    for on, eta in (("larc", "larc_eta"), ("local_lr_auto", "local_gw_ratio")):
        if getattr(p, on) and not 0 < getattr(p, eta) < math.inf:
            mistakes.add(locate.error(f"{eta} must be above 0", eta, found=getattr(p, eta)))
    mistakes.raise_any()
    return name


class LocalRates:
    """A rate for every parameter blob, from the norms of its weights and of its gradient: LARS as in Intel's Caffe,
    LARC as in NVCaffe.

    You, Gitman and Ginsburg 2017. ``flat`` holds each blob's rate at each of its elements, so that the rule reads it
    like its history.
    """

    def __init__(self, p: pb.SolverParameter, net: Net, division: WholeNet | None):
        self._division, self._divided = division, division.divided_parameters(net) if division else []
        self.text = "min(rate, local)" if p.larc and p.larc_policy == "clip" else "(rate * local)"
        dev, self._params = net.dev, net.params
        self.flat, self._norms = dev.zeros(net.params.size), dev.zeros(2)
        self._square = dev.sum(Formula("x * x", ("x",)))
        share, decay = ((1 - p.momentum) * p.larc_eta, 0) if p.larc else (p.local_gw_ratio, p.weight_decay)
        local = "where(w > 0, where(g > 0, share * sqrt(w) / (abs(scale) * sqrt(g) + decay * sqrt(w)), 1), 1)"
        self._local = dev.map(Formula(local, (), ("w", "g", "scale"), ("share", "decay")), share=share, decay=decay)

    def run(self, scale: Array) -> None:
        """Sets the rates for gradients that will be multiplied by ``scale`` (1)."""
        w, g = self._norms[:1], self._norms[1:]
        for i, (data, diff) in enumerate(zip(self._params.blobs, self._params.diffs, strict=True)):
            self._square(data, w)
            self._square(diff, g)
            if self._division and self._divided[i]:
                self._division.add_up_stage(self._norms)
            self._local(w, g, scale, self._params.cut(self.flat, i))


class Updater:
    """Applies a rule to a net's flat parameters: one kernel for all of them.

    Numbers that change with the iteration go through the net's input buffer; ``queue`` is the same each time, so that a
    graph can capture it. division: of the net that the processes which train together hold.
    """

    def __init__(self, p: pb.SolverParameter, net: Net, locate: Locator, division: WholeNet | None = None):
        self.name = check(p, locate)
        rule = RULES[self.name]
        self._net, dev, params = net, net.dev, net.params
        self.history = [dev.zeros(params.size) for _ in rule.history]
        self._local = LocalRates(p, net, division) if p.local_lr_auto or p.larc else None
        factors = [multipliers(parameter) for parameter in params.parameters]
        rates = [float(lr_mult != 0) if self._local else lr_mult for lr_mult, _ in factors]
        decays = [p.weight_decay * decay_mult for _, decay_mult in factors]
        chunks, lr, decay = [], [], []
        for i, (start, blob) in enumerate(zip(params.starts, params.blobs, strict=True)):
            for at in range(start, start + blob.size, CHUNK) if i not in params.fused_gradients else ():
                chunks.append((at, min(at + CHUNK, start + blob.size)))
                lr.append(rates[i])
                decay.append(decays[i])
        text = "; ".join([rule.decay[p.regularization_type], rule.text] if any(decays) else [rule.text])
        arrays = ("w", "g", *rule.history)
        if self._local:
            text, arrays = re.sub(r"\brate\b", self._local.text, text), (*arrays, "local")
        formula = Formula(text, arrays, constants=("rate", "decay", *rule.constants, *rule.changing))
        constants = {name: getattr(p, name) for name in rule.constants}
        table = np.array(chunks, np.int64).reshape(-1, 2)
        self._run = dev.build(formula_ops.Update(formula, table, np.array(lr), np.array(decay), constants))
        self._fused: dict[int, Kernel] = {}  # by parameter
        for i in params.fused_gradients:
            run = dev.build(formula_ops.FusedUpdate(formula, rates[i], decays[i], constants))
            assert run, "a net has fused gradients where the device has fused updates"
            self._fused[i] = run
        self._changing = [functools.partial(value, p) for value in rule.changing.values()]
        self._numbers = net.input_buffer.field((1 + len(self._changing),))
        self.clipping = Clipping(p, net, division)

    def _values(self, rate: float, iteration: int) -> np.ndarray:
        return np.array([rate, *(value(iteration) for value in self._changing)], self._net.dev.dtype)

    def send_rate(self, which: int, rate: float, iteration: int) -> None:
        """Sends an iteration's rate along with the batch in slot ``which`` of the input buffer."""
        self._numbers.set(which, self._values(rate, iteration))

    def set_rate(self, rate: float, iteration: int) -> None:
        """Sets the iteration's rate for the batch in use."""
        self._numbers.replace(self._values(rate, iteration))

    def run(self, rate: float, iteration: int) -> None:
        """The update of an iteration for which no rate was sent."""
        self.set_rate(rate, iteration)
        self.queue()
        self.clipping.updates += 1

    def queue(self) -> None:
        """The update, with the rate of the batch in use. Gradients are clipped and averaged first."""
        params, scale = self._net.params, self.clipping.scale
        self.clipping.queue()
        if params.diff is None:  # a part that learns nothing
            return
        if self._local:
            self._local.run(scale)
        local = (self._local.flat,) if self._local else ()
        self._run(self._numbers.array, scale, params.data, params.diff, *self.history, *local)
        for i, run in self._fused.items():
            history = (params.cut(flat, i) for flat in self.history)
            run(self._numbers.array, scale, *params.fused_gradients[i].rows(), params.cut(params.data, i), *history)
