"""A row of the table of layers: a layer, how its bottoms are drawn, and what NumPy makes of them."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from textnet import IMAGE, bind, body_of, inputs, layer

from caffelite.layers import REGISTRY

FILL = 'weight_filler { type: "gaussian" } bias_filler { type: "gaussian" }'
BATCH_SIZE = "loss_param { normalization: BATCH_SIZE }"


def off_kinks(rng, shape):
    """Normal, but nowhere near 0, where a ReLU has no slope."""
    x = rng.normal(size=shape)
    return x + np.where(x < 0, -0.1, 0.1)


def distinct(rng, shape):
    """No two alike, so that every maximum is one number's own."""
    return rng.permutation(math.prod(shape)).reshape(shape) / math.prod(shape)


def positive(rng, shape):
    return 0.2 + rng.random(shape)


def share(rng, shape):
    return rng.random(shape)


def distributions(rng, shape):
    """Sums to 1 over axis 1."""
    values = rng.random(shape)
    return values / values.sum(1, keepdims=True)


def without_gradient(draw):
    draw.constant = True
    return draw


def labels(classes: int, ignore: int | None = None):
    @without_gradient
    def draw(rng, shape):
        values = rng.integers(0, classes, shape).astype(float)
        if ignore is not None:
            values.flat[0] = ignore
        return values

    return draw


class Row:
    """A layer: its type and what is special here, its fields, its tops by the oracle from bottoms and parameters, and
    its bottoms: shapes of numbers off kinks, or (shape, how they are drawn); by default an image. fields: see
    textnet.body_of. An oracle of one top gives its array alone."""

    def __init__(
        self,
        title: str,
        fields: str,
        oracle: Callable,
        bottoms: Sequence[tuple] = (),
        *,
        tops: int = 1,
        constant: Iterable[int] = (),  # other bottoms without gradient than labels and the like
        phase: str = "TRAIN",
        exact: bool = True,  # whether its gradients are the derivatives
        source: list | None = None,
        prepare: Callable = lambda net: None,  # done to each net
    ):
        self.kind, _, self.name = title.strip().partition(" ")
        if not bottoms and REGISTRY[self.kind].bottoms[0]:
            bottoms = (IMAGE,)
        self.body = body_of(self.kind, fields)
        self.bottoms = [bottom if callable(bottom[-1]) else (bottom, off_kinks) for bottom in bottoms]
        self._oracle, self.tops = oracle, tops
        labels = (i for i, (_, draw) in enumerate(self.bottoms) if hasattr(draw, "constant"))
        self.constant = {*constant, *labels}
        self.phase, self.exact, self.source, self.prepare = phase, exact, source, prepare

    def oracle(self, *arrays: np.ndarray) -> list:
        tops = self._oracle(*arrays)
        return tops if isinstance(tops, (list, tuple)) else [tops]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()

    @property
    def differentiable(self) -> bool:
        return REGISTRY[self.kind].differentiable

    def shapes(self, batch: int | None) -> list[tuple[int, ...]]:
        return [shape if batch is None else (batch, *shape[1:]) for shape, _ in self.bottoms]

    def draw(self, rng, batch: int | None = None) -> dict[str, np.ndarray]:
        return {
            f"x{i}": draw(rng, shape)
            for i, (shape, (_, draw)) in enumerate(zip(self.shapes(batch), self.bottoms, strict=True))
        }

    def text(self, batch: int | None = None) -> str:
        below = " ".join(f'bottom: "x{i}"' for i in range(len(self.bottoms)))
        above = " ".join(f'top: "y{i}"' for i in range(self.tops))
        fed = inputs(**{f"x{i}": shape for i, shape in enumerate(self.shapes(batch))})
        return fed + f'layer {{ name: "layer" type: "{self.kind}" {below} {above} {self.body} }}\n'

    def under_losses(self, text: str) -> tuple[str, dict[str, tuple[int, ...]]]:
        """The net of a text with a EuclideanLoss over each top that has a gradient, and the shapes of the targets."""
        blobs = self.bind(self.text()).blobs
        indices = (i for i in range(self.tops) if i not in REGISTRY[self.kind].constant_tops)
        targets = {f"t{i}": blobs[f"y{i}"].shape for i in indices}
        losses = (layer("EuclideanLoss", f"y{t[1:]}", t, tops=f"j{t[1:]}", name=f"j{t[1:]}") for t in targets)
        return "force_backward: true\n" + inputs(**targets) + text + "".join(losses), targets

    def bind(self, text: str, **options):
        net = bind(text, self.phase, open_source=lambda *_: Source(self.source), **options)
        self.prepare(net)
        return net


class Source:
    """Hands out the same batch again and again."""

    def __init__(self, batch):
        self.batch, self.shapes = batch, [a.shape for a in batch]

    def next(self):
        return self.batch

    def close(self):
        pass


def samples(rng, shape):
    """Places of a batch of 4, the first once."""
    places = rng.integers(1, 4, shape).astype(float)
    places[0] = 0
    return places


def far(rng, shape):
    """Points so far apart that the 0.0001 which Caffe adds to their distance does not show."""
    return 100 * off_kinks(rng, shape)


def numbers(rows: int):
    return without_gradient(lambda rng, shape: rng.integers(0, rows, shape).astype(float))


@without_gradient
def starts(rng, shape):
    """cont of sequences: all start at the first two steps, one at the fourth."""
    cont = np.ones(shape)
    cont[:2], cont[3:4, :1] = 0, 0
    return cont


def some(rng, shape):
    return (np.arange(math.prod(shape)) % 2).reshape(shape).astype(float)
