"""Hints on runs that fail without an error, each logged once: a loss that does not fall, chance-level scores, dead
units, gradients that vanish or explode."""

import logging
import math
from collections import Counter

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.accuracy import Accuracy
from ...layers.activation import ReLU
from ...layers.loss import SoftmaxWithLoss
from ...net.graph import Node
from ...net.net import Net
from ...net.parameters import multipliers
from ..optim.updates import Updater
from ..scores import Scores, unscored
from ..state import TrainingState
from ..whole_net import WholeNet
from .hook import Hook, Observers, Outputs

log = logging.getLogger("caffelite")

EARLY, EARLY_MANY = 500, 2000  # iterations before anything is expected, of few classes and of more than MANY
MANY = 100
NEAR = 0.02  # of the chance-level loss, in which a loss that learns does not stay
STUCK, LEAST, SHARE = 3, 50, 0.1  # displays and iterations, at least, and share of the run at the chance-level loss
SATURATED = -math.log(np.finfo(np.float32).tiny)  # 87.34, the loss of a probability of 0
SAMPLES = 64  # samples of a batch for the check of activations
DEAD = 0.6  # share of a layer's units
FADED = 1e-6  # a gradient's norm over its weights', relative to the largest of all layers
STEP = 0.2  # a step's norm over its weights'; 0.001 is usual
TWICE = 2  # consecutive detailed displays before a hint on activations or gradients


class Hints(Hook):
    """Judges displays and tests. Activations and gradients by layer cost time: they are judged in displays 4, 8, 16 and
    so on. division: of the nets that the processes hold; activations and gradients are those of this process."""

    def __init__(
        self, p: pb.SolverParameter, net: Net, tests: list[tuple[Net, int]], updater: Updater, division: WholeNet
    ):
        self._p, self._net, self._tests, self._updater, self._division = p, net, tests, updater, division
        self._logged: set[str] = set()
        self._runs: Counter[str] = Counter()
        self._stuck_since: dict[str, int] = {}
        self._displays = 0
        self._ends = {step.node: (step.fused or (step.node,))[-1] for step in net.compiled.forward}
        nodes = division.complete(net).nodes
        self._losses = {n.tops[0].name: _classes(n) for n in nodes if type(n.layer) is SoftmaxWithLoss}

    def _detailed(self) -> bool:
        """Whether the coming display judges activations and gradients."""
        return self._displays >= 3 and self._displays + 1 & self._displays == 0

    def observers(self, state: TrainingState) -> Observers:
        return ([self.forward] if state.displays and self._detailed() else (), ())

    # outputs and scores

    def displayed(self, state: TrainingState, rate: float, loss: float, outputs: Outputs) -> None:
        for name, _, values in outputs:
            if name in self._losses:
                self._judge_loss(state, name, float(values[0]), self._losses[name])
        for text in unscored(self._net, outputs):
            self._log_once(text, f"{text}: nothing is learned from it")
        if self._detailed() and self._net.params.diff is not None:
            self._judge_gradients(rate)
        self._displays += 1

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        net, count = self._tests[which]
        for text in unscored(net, scores.outputs):
            self._log_once(text, text)
        score = {name: float(values[0]) for name, _, values in scores.outputs if values.size == 1}
        for node in self._division.complete(net).nodes:
            if not isinstance(node.layer, Accuracy) or node.layer.p.top_k != 1 or node.tops[0].name not in score:
                continue
            name, classes = node.tops[0].name, _classes(node)
            chance, tested = 1 / classes, count * math.prod(node.bottoms[1].shape)
            far = 3 * math.sqrt(chance * (1 - chance) / tested)
            stands = state.iteration >= _early(classes) and score[name] < chance + far
            if self._again(f"{name} {which}", stands) == TWICE:
                what = (
                    f"{name} is that of guessing among {classes} classes ({chance:.3g}) after {state.iteration} "
                    "iterations"
                )
                self._log_once(
                    "chance",
                    f"{what}; do images and labels belong together, and do both nets have the same input transform "
                    "(scale, mean)?",
                )

    def _judge_loss(self, state: TrainingState, name: str, value: float, classes: int) -> None:
        guess = math.log(classes)
        if self._again(f"{name} saturated", SATURATED / 2 < value <= 1.01 * SATURATED) == 2:
            what = (
                f"{name} is {value:.2f}, near {SATURATED:.2f}, the loss of a probability of 0: scores have grown "
                "too large for exp"
            )
            self._log_once("saturated", f"{what}; lower base_lr and train from the start again")
        displays = self._again(name, classes > 1 and abs(value - guess) < NEAR * guess)
        if displays <= 1:
            self._stuck_since[name] = state.iteration
        first = self._stuck_since[name]
        if displays >= STUCK and state.iteration - first >= max(LEAST, SHARE * self._p.max_iter):
            what = f"{name} stays at ln({classes}) = {guess:.3g}, that of guessing, after {state.iteration} iterations"
            remedy = "try a longer warmup_iter, another base_lr (caffelite find_lr) or random_seed, and see -overfit 1"
            self._log_once("stuck", f"{what}; {remedy}")

    # activations and gradients

    def forward(self, node: Node) -> None:
        """Judges a ReLU's activations."""
        last = self._ends.get(node)  # a net that runs another micro-batch is not judged
        if not last or not isinstance(last.layer, ReLU) or last.layer.p.negative_slope or len(last.tops[0].shape) < 2:
            return
        top = self._net.shown(self._net.data[last.tops[0]], last.tops[0])
        values = self._net.dev.download(top[:SAMPLES])
        dead = (values <= 0).all(axis=tuple(i for i in range(values.ndim) if i != 1))
        if self._again(f"relu {last.name}", bool(dead.size >= 8 and dead.mean() > DEAD)) == TWICE:
            what = f'{int(dead.sum())} of {dead.size} units of "{last.name}" (ReLU) give 0 for every sample'
            self._log_once(
                "dead", f"{what}: they learn no more; lower base_lr, or start biases above 0, or use negative_slope"
            )

    def _judge_gradients(self, rate: float) -> None:
        params, clipping = self._net.params, self._updater.clipping
        share = self._p.iter_size * self._division.shares * clipping.factor()
        ratios, steps = {}, {}
        for i, (parameter, data) in enumerate(zip(params.parameters, params.blobs, strict=True)):
            mult, _ = multipliers(parameter)
            if len(data.shape) < 2 or not mult or not (size := clipping.norm(data)):
                continue
            ratios[parameter.node.name] = clipping.norm_of_gradient(i) / share / size
            steps[parameter.node.name] = rate * mult * ratios[parameter.node.name]
        if not all(map(math.isfinite, ratios.values())):
            return  # the loss will not be finite either
        plain = (
            self._updater.name in ("SGD", "Nesterov")
            and self._p.clip_gradients < 0
            and not (self._p.larc or self._p.local_lr_auto)
        )
        great = [name for name, step in steps.items() if step > STEP] if plain else []
        if self._again("explode", bool(great)) == TWICE:
            what = (
                f"gradients explode: one step is {max(steps.values()):.3g} times as long as the weights in "
                f"{_names(great)}"
            )
            self._log_once("explode", f"{what}; lower base_lr, or set clip_gradients")
        most = max(ratios.values(), default=0)
        small = [name for name, ratio in ratios.items() if ratio < FADED * most]
        if self._again("vanish", bool(small)) == TWICE:
            what = f"gradients vanish: relative to their weights they are a millionth of the largest in {_names(small)}"
            self._log_once(
                "vanish",
                f'{what}; "msra" or "xavier" fillers, ReLU in place of Sigmoid and TanH, or batch norm keep them alive',
            )

    def _again(self, what: str, found: bool) -> int:
        """How often in a row this was found."""
        self._runs[what] = self._runs[what] + 1 if found else 0
        return self._runs[what]

    def _log_once(self, what: str, text: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            log.warning("Hint: %s", text)


def _classes(node: Node) -> int:
    return int(node.bottoms[0].shape[node.layer.p.axis])


def _early(classes: int) -> int:
    return EARLY_MANY if classes > MANY else EARLY


def _names(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
