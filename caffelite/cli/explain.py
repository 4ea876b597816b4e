"""caffelite explain"""

import textwrap
from dataclasses import asdict

import click

from . import options
from .output import say

HEADS = {"shape": "Shape", "parameters": "Parameters", "backward": "Backward", "plan": "Memory and fusion"}


@click.command(short_help="Explain one layer of a net")
@click.argument("layer")
@options.net_or_solver
@options.inspected
@options.as_json
def explain(layer, model, solver, shape, set_fields, phase, level, stage, as_json) -> None:
    """Explains one layer: how its shape is computed, how its weights are initialized, why it does or does not run
    backward, and what it is fused with.

    Of a net with both phases, TRAIN is explained if the layer is in it.

    \b
    Example:
      caffelite explain conv2 -model models/lenet/train_val.prototxt
    """
    from ..inspection import explain as explanations, nets
    from ..inspection.feeds import parse_shapes
    from ..prototxt.overrides import Overrides

    subject = nets.inspected_net(
        model, options.one_of(model, solver), parse_shapes(shape), level, stage, Overrides(set_fields), either=True
    )
    graphs = [subject.graph(p) for p in nets.phases(phase, subject.message)]
    graph, guessed = next((g for g in graphs if any(n.name == layer for n in g[0].nodes)), graphs[0])
    explanation = explanations.explain(graph, nets.node_of(graph, layer))
    if as_json:
        options.print_json(asdict(explanation))
        return
    lines = [
        f"{explanation.layer} ({explanation.type}) in {explanation.phase}: {explanation.position}",
        *textwrap.wrap(explanation.about, 110),
    ]
    for name, head in HEADS.items():
        lines += [
            "",
            head,
            *(
                textwrap.fill(line, 110, initial_indent="  ", subsequent_indent="    ")
                for line in getattr(explanation, name)
            ),
        ]
    say("\n".join([*lines, *(f"\nData is missing: {note}" for note in guessed)]))
