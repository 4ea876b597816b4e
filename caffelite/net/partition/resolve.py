"""temporary"""

import math

from ...errors import CaffeliteError
from ..nodes import Graph
from .placement import Division, LayerPlacement, Placement


def resolve(graph: Graph, wish: str) -> Placement:
    values = dict(pair.split("=") for pair in wish.split(","))
    shards = int(values.get("shards", values.get("hybrid", 1)))
    stages, m = int(values.get("stages", 1)), int(values.get("micro_batches", 1))
    weights = [len(n.params) for n in graph.nodes]
    total, at, layers = sum(weights), 0, {}
    for n, w in zip(graph.nodes, weights):
        stage = min(stages - 1, at * stages // total)
        stage = max([stage, *(layers[b.node.name].stage for b in n.bottoms)]) if n.bottoms else 0
        division = Division.WHOLE
        if shards > 1 and n.layer.divides_outputs and math.prod(n.layer.param_blobs[0].shape) > 200:
            try:
                n.layer.output_part(shards)
                division = Division.BATCH if "hybrid" in values and n.layer.spec.type == "Convolution" else Division.OUTPUTS
            except CaffeliteError:
                pass
        layers[n.name] = LayerPlacement(stage, division)
        at += w
    return Placement(stages, shards, m, layers)
