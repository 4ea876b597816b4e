"""What a run that goes wrong in silence looks like, said once: a loss that stands still, scores of chance, units and
gradients that die."""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ...net.graph import Node
from ...net.net import Net
from ...net.parameters import multipliers
from ..scores import Scores, unscored
from .hook import Observer, Outputs

if TYPE_CHECKING:
    from ..trainer import Solver

log = logging.getLogger("caffelite")

EARLY, EARLY_MANY, MANY = (
    500,
    2000,
    100,
)  # iterations in which nothing is expected yet; with more than so many classes the second
STILL = 10  # displays in a row at the loss of chance
SATURATED = -math.log(np.finfo(np.float32).tiny)  # 87.34, the loss of a probability of 0
LOOKED_AT = 64  # samples of a batch that activations are judged by
DEAD = 0.6  # share of a layer's units
FADED = 1e-6  # a gradient's size beside its weights, against the largest of all layers
STEP = 0.2  # a step's length beside its weights'; a thousandth is usual
TWICE = 2  # looks in a row before activations and gradients are spoken of


class Hints(Observer):
    """Watches displays and tests. What costs time, activations and gradients by layer, it looks at in displays 4, 8, 16
    and so on."""

    def __init__(self, net: Net):
        self._net, self._said, self._runs, self._shows = net, set(), Counter(), 0
        self._ends = {step.node: (step.fused or (step.node,))[-1] for step in net.compiled.forward}
        self._losses = {n.tops[0].name: _classes(n) for n in net.graph.nodes if n.layer.spec.type == "SoftmaxWithLoss"}

    def due(self) -> bool:
        """Whether the coming display is one of those that look closer."""
        return self._shows >= 3 and self._shows + 1 & self._shows == 0

    # what costs nothing

    def shown(self, solver: Solver, rate: float, loss: float, outputs: Outputs) -> None:
        for name, _, values in outputs:
            if name in self._losses:
                self._judge_loss(solver, name, float(values[0]), self._losses[name])
        for text in unscored(self._net, outputs):
            self._say(text, f"{text}: nothing is learned from it")
        if self.due() and solver.learns:
            self._judge_gradients(solver, rate)
        self._shows += 1

    def tested(self, solver: Solver, which: int, scores: Scores) -> None:
        net, count = solver.tests[which]
        for text in unscored(net, scores.outputs):
            self._say(text, text)
        found = {name: float(values[0]) for name, _, values in scores.outputs if values.size == 1}
        for node in net.graph.nodes:
            if node.layer.spec.type != "Accuracy" or node.layer.p.top_k != 1 or node.tops[0].name not in found:
                continue
            name, classes = node.tops[0].name, _classes(node)
            chance, tested = 1 / classes, count * math.prod(node.bottoms[1].shape)
            far = 3 * math.sqrt(chance * (1 - chance) / tested)
            stands = solver.iteration >= _early(classes) and found[name] < chance + far
            if self._again(f"{name} {which}", stands) == TWICE:
                what = (
                    f"{name} is that of guessing among {classes} classes ({chance:.3g}) after {solver.iteration} "
                    "iterations"
                )
                self._say(
                    "chance",
                    f"{what}; do images and labels belong together, and are both nets fed alike (scale, mean)?",
                )

    def _judge_loss(self, solver: Solver, name: str, value: float, classes: int) -> None:
        guess = math.log(classes)
        if self._again(f"{name} saturated", SATURATED / 2 < value <= 1.01 * SATURATED) == 2:
            what = (
                f"{name} is {value:.2f}, near {SATURATED:.2f}, the loss of a probability of 0: scores have grown "
                "too large for exp"
            )
            self._say("saturated", f"{what}; lower base_lr and start anew")
        stands = classes > 1 and solver.iteration >= _early(classes) and abs(value - guess) < 0.03 * guess
        if self._again(name, stands) == STILL:
            what = (
                f"{name} stands at ln({classes}) = {guess:.3g}, that of guessing, after {solver.iteration} iterations"
            )
            self._say(
                "stuck", f"{what}; try another base_lr (caffelite find_lr), look at the fillers, and see -overfit 1"
            )

    # what costs a little

    def forward(self, node: Node) -> None:
        """The net's watch in displays that look closer."""
        last = self._ends[node]
        if last.layer.spec.type != "ReLU" or last.layer.p.negative_slope or len(last.tops[0].shape) < 2:
            return
        top = self._net.shown(self._net.data[last.tops[0]], last.tops[0])
        values = self._net.dev.download(top[:LOOKED_AT])
        dead = (values <= 0).all(axis=tuple(i for i in range(values.ndim) if i != 1))
        if self._again(f"relu {last.name}", dead.size >= 8 and dead.mean() > DEAD) == TWICE:
            what = f'{int(dead.sum())} of {dead.size} units of "{last.name}" (ReLU) give 0 for every sample'
            self._say(
                "dead", f"{what}: they learn no more; lower base_lr, or start biases above 0, or use negative_slope"
            )

    def _judge_gradients(self, solver: Solver, rate: float) -> None:
        params, norm = solver.net.params, solver.updater.clipping.norm
        share = solver.p.iter_size * solver.comm.size * solver.updater.clipping.factor()
        ratios, steps = {}, {}
        for parameter, data, diff in zip(params.parameters, params.blobs, params.diffs, strict=True):
            mult, _ = multipliers(parameter)
            if len(data.shape) < 2 or not mult or diff is None or not (size := norm(data)):
                continue
            ratios[parameter.node.name] = norm(diff) / share / size
            steps[parameter.node.name] = rate * mult * ratios[parameter.node.name]
        if not all(map(math.isfinite, ratios.values())):
            return  # which is told where the loss is judged
        plain = (
            solver.updater.name in ("SGD", "Nesterov")
            and solver.p.clip_gradients < 0
            and not (solver.p.larc or solver.p.local_lr_auto)
        )
        great = [name for name, step in steps.items() if step > STEP] if plain else []
        if self._again("explode", bool(great)) == TWICE:
            what = (
                f"gradients explode: one step is {max(steps.values()):.3g} times as long as the weights in "
                f"{_names(great)}"
            )
            self._say("explode", f"{what}; lower base_lr, or set clip_gradients")
        most = max(ratios.values(), default=0)
        small = [name for name, ratio in ratios.items() if ratio < FADED * most]
        if self._again("vanish", bool(small)) == TWICE:
            what = f"gradients vanish: beside their weights they are a millionth of the largest in {_names(small)}"
            self._say(
                "vanish",
                f'{what}; "msra" or "xavier" fillers, ReLU in place of Sigmoid and TanH, or batch norm keep them alive',
            )

    def _again(self, what: str, seen: bool) -> int:
        """How often in a row."""
        self._runs[what] = self._runs[what] + 1 if seen else 0
        return self._runs[what]

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning("Hint: %s", text)


def _classes(node: Node) -> int:
    axis = node.layer.p.axis if node.layer.spec.type == "Accuracy" else node.layer.spec.softmax_param.axis
    return node.bottoms[0].shape[axis]


def _early(classes: int) -> int:
    return EARLY_MANY if classes > MANY else EARLY


def _names(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
