"""Adds the preprocessing of pixels to the exported graph: mean and scale of an Input layer's
transform_param."""

from __future__ import annotations

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.draws import key
from ..data.transforms import Choice, Transform
from ..errors import CaffeliteError
from ..net.graph import Graph, Node
from .writer import Writer

IN_GRAPH = ("mean_file", "mean_value", "scale")  # fields of transform_param that the graph carries out


def transforms(graph: Graph) -> dict[str, Transform]:
    """The transform of each input that has one, by the input's name.

    Errors: one of an input that is not N×C×H×W; a mean that does not fit.
    """
    return {
        value.name: _transform(node, graph)
        for node in graph.feeds
        for value in node.tops
        if node.layer.spec.HasField("transform_param")
    }


def _transform(node: Node, graph: Graph) -> Transform:
    layer, shape, deploy = node.layer, node.tops[0].shape, graph.message.deploy_param
    if len(shape) != 4:
        what = "has a transform_param, and its top is no batch of images"
        raise layer.error(what, "transform_param", expected="N×C×H×W", found=f"shape {list(shape)}", outer=True)
    stored = deploy.height or deploy.width or shape[2], deploy.width or deploy.height or shape[3]
    transform = Transform(
        layer.spec.transform_param, pb.TEST, (shape[1], *stored), layer.locate.at("transform_param"), key(0, layer.name)
    )
    if transform.shape != shape[1:]:
        raise layer.error(
            "transform_param and the input's shape differ",
            "transform_param",
            expected=list(shape[1:]),
            found=list(transform.shape),
            outer=True,
        )
    return transform


def write(w: Writer, name: str, transform: Transform) -> str:
    """Adds (pixels - mean) · scale, in the order of operations of `Transform`; returns the result's name."""
    x = name
    if transform.mean is not None:
        top, left = np.maximum(np.array(transform.mean.shape[1:]) - transform.shape[1:], 0) // 2
        mean = transform.mean[:, top : top + transform.shape[1], left : left + transform.shape[2]]
        if w.free and mean.shape[1:] != (1, 1):
            raise CaffeliteError(f'input "{name}": the size of its mean_file is fixed', remedy="use mean_value")
        x = w.add("Sub", [x, w.array(f"{name} mean", mean)])
    return w.add("Mul", [x, w.scalar(float(transform.scale))]) if transform.scale != 1 else x


def drawn(transform: Transform, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random pixels for a check: float32 N×C×h×w as the exported graph takes them, and as the net's input."""
    cut = rng.integers(0, 256, (count, *transform.shape), np.uint8)
    fed = np.empty(cut.shape, np.float32)
    transform.finish(list(cut), Choice(np.repeat(transform.choose(0, 1).corners, count, 0), np.zeros(count, int)), fed)
    return cut.astype(np.float32), fed
