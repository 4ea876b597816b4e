"""Update rules: the lines of their mathematics for one number w with gradient g; both devices compile the same text.

``rate`` is the learning rate times lr_mult, ``decay`` the weight decay times decay_mult; g comes divided by iter_size and clipped.
Names in ``history`` are buffers as large as the parameters, kept in solver states in this order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..errors import CaffeliteError, Locator, did_you_mean
from ..net import Net, learnable_multipliers

CHUNK = 4096  # elements that one thread or block updates at a time
REGULARIZATION = {"L2": "g = g + decay * w", "L1": "g = g + decay * sign(w)"}


@dataclass(frozen=True)
class Rule:
    text: str
    history: tuple[str, ...]
    constants: tuple[str, ...]  # fields of SolverParameter


RULES = {
    "SGD": Rule("h = momentum * h + rate * g; w = w - h", ("h",), ("momentum",)),
}


def rule_name(p: pb.SolverParameter, locate: Locator) -> str:
    """The solver's type: ``type``, or the old ``solver_type``; matched without regard to case for the latter."""
    name = p.type
    if p.HasField("solver_type"):
        if p.HasField("type"):
            raise CaffeliteError("both type and solver_type are set", where=locate("solver_type"), remedy="keep type")
        old = pb.SolverParameter.SolverType.Name(p.solver_type)
        name = next((r for r in RULES if r.upper() == old), old)
    if name not in RULES:
        known = ", ".join(RULES)
        raise CaffeliteError(
            f'unknown solver type "{name}"', where=locate("type"), expected=f"one of {known}", remedy=did_you_mean(name, RULES)
        )
    return name


class Updater:
    """Applies a rule to a net's flat parameters: one kernel for all of them."""

    def __init__(self, p: pb.SolverParameter, net: Net, locate: Locator):
        self.name = rule_name(p, locate)
        rule = RULES[self.name]
        if p.regularization_type not in REGULARIZATION:
            known = " or ".join(REGULARIZATION)
            remedy = did_you_mean(p.regularization_type, REGULARIZATION)
            raise CaffeliteError(
                f'unknown regularization_type "{p.regularization_type}"', where=locate("regularization_type"), expected=known, remedy=remedy
            )
        self._net, dev, params = net, net.dev, net.params
        self.history = [dev.zeros(params.size) for _ in rule.history]
        chunks, lr, decay = [], [], []
        for start, learnable, blob in zip(params.starts, params.learnable, params.blobs, strict=True):
            lr_mult, decay_mult = learnable_multipliers(learnable)
            for at in range(start, start + blob.size, CHUNK):
                chunks.append((at, min(at + CHUNK, start + blob.size)))
                lr.append(lr_mult)
                decay.append(p.weight_decay * decay_mult)
        text = "; ".join([REGULARIZATION[p.regularization_type], rule.text] if any(decay) else [rule.text])
        formula = Formula(text, ("w", "g", *rule.history), constants=("rate", "decay", *rule.constants))
        constants = {name: getattr(p, name) for name in rule.constants}
        table = np.array(chunks, np.int64).reshape(-1, 2)
        self._run = dev.updater(formula, table, np.array(lr), np.array(decay), **constants)
        self._norm = dev.sum(Formula("g * g", ("g",)))
        self._square = dev.zeros(1)

    def gradient_norm(self) -> float:
        """The L2 norm of all parameters' gradients."""
        self._norm(self._net.params.diff, self._square)
        return float(self._net.dev.download(self._square)[0]) ** 0.5

    def run(self, rate: float, scale: float) -> None:
        """One update; gradients are multiplied by ``scale`` first."""
        params = self._net.params
        self._run(rate, scale, params.data, params.diff, *self.history)

    def history_blobs(self) -> list[np.ndarray]:
        """History as solver states keep it: for each kind, one blob a parameter."""
        params, dev = self._net.params, self._net.dev
        return [dev.download(params.cut(flat, i)) for flat in self.history for i in range(len(params.learnable))]

    def load_history(self, blobs: list[np.ndarray], path: object) -> None:
        params, dev = self._net.params, self._net.dev
        targets = [(params.cut(flat, i), params.learnable[i].label) for flat in self.history for i in range(len(params.learnable))]
        if len(blobs) != len(targets):
            what = f"{path} has the history of another net or solver type"
            raise CaffeliteError(what, expected=f"{len(targets)} blobs for type {self.name}", found=len(blobs))
        for (target, label), blob in zip(targets, blobs, strict=True):
            if blob.size != target.size:
                raise CaffeliteError(
                    f"{path}: history of parameter {label} does not fit", expected=list(target.shape), found=list(blob.shape)
                )
            dev.upload(target, blob.reshape(target.shape))
