"""Nets written as text: their graphs, and the mistakes in them with their places."""

import re
from collections.abc import Sequence

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices import open_device
from caffelite.errors import CaffeliteError
from caffelite.layers import REGISTRY
from caffelite.net import graph
from caffelite.net.net import Net

BATCH, IMAGE = (2, 3), (2, 4, 6, 5)


def build(
    text: str, phase: str = "TRAIN", level: int = 0, stages: tuple[str, ...] = (), open_source=None
) -> graph.Graph:
    """The graph of a prototxt."""
    document = prototxt.parse(text, pb.NetParameter, "net.prototxt")
    state = pb.NetState(phase=pb.Phase.Value(phase), level=level, stage=stages)
    return graph.build(document.message, state, document.locate, open_source)


def bind(text: str, phase: str = "TRAIN", dtype: str = "float64", seed: int = 1, dev=None, **options) -> Net:
    """The net of a prototxt on a device, where None is given the CPU; its random numbers are keyed by ``seed``."""
    device = dev or open_device(None, dtype)
    wiring = build(text, phase, open_source=options.pop("open_source", None))
    return Net.of(wiring, device, seed=seed, random_seed=seed, **options)


def mistakes(text: str, *messages: str, phase: str = "TRAIN", run=build) -> None:
    """Building the net fails with just these messages; each @ of the text marks the place of one, in order."""
    places, plain = [], ""
    for i, part in enumerate(text.split("@")):
        if i:
            places.append((plain.count("\n") + 1, len(plain) - plain.rfind("\n")))
        plain += part
    assert len(places) == len(messages), "a mark for each message"
    with pytest.raises(CaffeliteError) as caught:
        run(plain, phase)
    actual = str(caught.value).splitlines()
    expected = [f"net.prototxt:{line}:{column}: " for line, column in places]
    assert [f[: len(e)] for f, e in zip(actual, expected, strict=True)] == expected, actual
    for line, start, message in zip(actual, expected, messages, strict=True):
        assert message in line[len(start) :], f"{message!r} is not in {line!r}"


def wrong(kind: str, fields: str, message: str, *shapes: tuple[int, ...], at=None, tops: str = "y") -> tuple[str, str]:
    """A case of ``mistaken``: a layer over blobs x0, x1, … of these shapes, by default an image, and the message. at:
    what is marked if no field or top is, the number of a bottom or "layer"."""
    shapes = shapes or (IMAGE,) * min(1, REGISTRY[kind].bottoms[0])
    names = [f"x{i}" for i in range(len(shapes))]
    bottoms = ("@" * (i == at) + name for i, name in enumerate(names))
    fed = inputs(**dict(zip(names, shapes, strict=True)))
    return fed + "@" * (at == "layer") + layer(kind, *bottoms, body=fields, tops=tops), message


def mistaken(*cases: tuple[str, str], before: str = "", phase: str = "TRAIN"):
    """A test that each net, after these layers, has the one mistake whose message stands beside it."""

    @pytest.mark.parametrize("text, message", cases)
    def test_mistake(text: str, message: str) -> None:
        mistakes(before + text, message, phase=phase)

    return test_mistake


def inputs(**shapes: tuple[int, ...]) -> str:
    """An Input layer a blob."""
    dims = {name: " ".join(f"dim: {d}" for d in shape) for name, shape in shapes.items()}
    return "".join(
        f'layer {{ name: "{n}" type: "Input" top: "{n}" input_param {{ shape {{ {d} }} }} }}\n' for n, d in dims.items()
    )


def body_of(kind: str, fields: str) -> str:
    """Fields of a layer type's own message in that message; fields that begin with one of every layer as they are."""
    first = re.match(r"@?(\w*)", fields)[1]
    if first in {"", *pb.LayerParameter.DESCRIPTOR.fields_by_name} - {"type"} or kind not in REGISTRY:
        return fields
    return f"{REGISTRY[kind].field} {{ {fields} }}"


def layer(kind: str, *bottoms: str, body: str = "", tops: str = "y", name: str = "layer") -> str:
    """A layer over these blobs; an @ before a name marks its place. body: see body_of; tops: their names, with
    spaces between."""
    names = [("bottom", b) for b in bottoms] + [("top", t) for t in tops.split()]
    blobs = "".join(f'{what}: {"@" * (b[0] == "@")}"{b.removeprefix("@")}" ' for what, b in names)
    return f'layer {{ name: "{name}" type: "{kind}" {blobs}{body_of(kind, body)} }}\n'


def wired(kind: str, bottoms: str, tops: str, body: str = "", name: str = "") -> str:
    """As ``layer``, with spaces between the bottoms too, and named after its first top unless another is given."""
    return layer(kind, *bottoms.split(), body=body, tops=tops, name=name or tops.split()[0])


def over(kind: str, body: str = "", tops: str = "y", **shapes: tuple[int, ...]) -> str:
    """A layer over Input blobs of these shapes."""
    return inputs(**shapes) + layer(kind, *shapes, body=body, tops=tops)


def judged(text: str, **targets: str) -> str:
    """A net whose loss is how far tops, by default y, are from targets, by default t, with the gradients of what is
    fed. targets: by their names, the tops."""
    targets, values = targets or {"t": "y"}, build(text).values
    text += inputs(**{target: values[top].shape for target, top in targets.items()})
    losses = (wired("EuclideanLoss", f"{top} {target}", f"loss_{top}") for target, top in targets.items())
    return "force_backward: true\n" + text + "".join(losses)


def slopes(net: Net, name: str = "x") -> np.ndarray:
    """The gradient of a blob."""
    return net.diff[net.graph.values[name]]


def feed(net: Net, **arrays: np.ndarray) -> None:
    """Fills Input blobs."""
    for node in net.graph.feeds:
        for value in node.tops:
            if value.name in arrays:
                net.dev.upload(net.data[value], arrays[value.name])


def forward(net: Net, /, **arrays: np.ndarray) -> None:
    """Fills Input blobs, and one pass forward."""
    feed(net, **arrays)
    net.forward()


def run(net: Net, iteration: int = 0, /, **arrays: np.ndarray) -> float:
    """Fills Input blobs, and one pass forward and backward; its loss."""
    feed(net, **arrays)
    net.clear_loss()
    net.forward(iteration)
    net.backward()
    return float(net.loss[0])


def assert_slope(net: Net, names: Sequence[str], rng: np.random.Generator) -> None:
    """After a pass: the gradients of these blobs and of all parameters are the derivatives, along random directions."""
    dev, values = net.dev, [v for v in net.graph.values.values() if v.name in names]
    gradients = [dev.download(net.diff[value]) for value in values] + [dev.download(net.params.diff)]
    spots = [net.data[value] for value in values] + [net.params.data]
    starts = [dev.download(spot) for spot in spots]
    for _ in range(3):
        steps = [rng.normal(size=s.shape) * 1e-5 for s in starts]
        slope = sum(float((g * s).sum()) for g, s in zip(gradients, steps, strict=True))
        losses = []
        for sign in (1, -1):
            for spot, start, step in zip(spots, starts, steps, strict=True):
                dev.upload(spot, start + sign * step)
            losses.append(run(net))
        assert (losses[0] - losses[1]) / 2 == pytest.approx(slope, rel=1e-5, abs=1e-13)
