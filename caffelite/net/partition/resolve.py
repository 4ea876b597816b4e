"""temporary"""

from ..nodes import Graph
from .placement import LayerPlacement, Placement


def resolve(graph: Graph, wish: str) -> Placement:
    values = dict(pair.split("=") for pair in wish.split(","))
    stages, m = int(values.get("stages", 1)), int(values.get("micro_batches", 1))
    weights = [len(n.params) for n in graph.nodes]
    total, at, layers = sum(weights), 0, {}
    for n, w in zip(graph.nodes, weights):
        stage = min(stages - 1, at * stages // total)
        stage = max([stage, *(layers[b.node.name].stage for b in n.bottoms)]) if n.bottoms else 0
        layers[n.name] = LayerPlacement(stage)
        at += w
    return Placement(stages, 1, m, layers)
