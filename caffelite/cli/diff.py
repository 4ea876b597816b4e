"""caffelite diff"""

from dataclasses import asdict

import click

from . import options
from .output import say


@click.command(short_help="Compare two nets by what they mean")
@click.argument("a")
@click.argument("b")
@options.shape
@options.code_if_asked
@options.state
@options.as_json
def diff(a, b, shape, phase, level, stage, as_json) -> None:
    """Compares two nets by what they mean: layers, settings, shapes, parameters, and which weights of A fit B.

    Layers are compared by name; one that only has another name is found by its type and settings. Without -phase it is
    TRAIN where both have it.

    \b
    Example:
      caffelite diff models/alexnet/train_val.prototxt models/caffenet/train_val.prototxt
    """
    from ..inspection import nets
    from ..inspection.diff import diff as compare
    from ..inspection.feeds import parse_shapes

    subjects = [nets.inspected_net(file, None, parse_shapes(shape), level, stage) for file in (a, b)]
    shared = [p for p in nets.phases(phase, subjects[0].message) if p in nets.phases(phase, subjects[1].message)]
    phases = [shared[0] if shared else nets.phases(phase, s.message)[0] for s in subjects]
    difference = compare(*(s.graph(p)[0] for s, p in zip(subjects, phases, strict=True)))
    if as_json:
        options.print_json(asdict(difference) | {"same": difference.same})
    else:
        say(_text(difference, a, b))


def _text(difference, a: str, b: str) -> str:
    lines = [f"A: {a}", f"B: {b}", ""]
    for name, (x, y) in difference.totals.items():
        lines.append(
            f"{name:24}{x:,.0f}" + (f" → {y:,.0f}" + (f" ({(y - x) / x:+.1%})" if x else "") if x != y else "")
        )
    for mark, names in (("-", difference.only_a), ("+", difference.only_b)):
        lines += ["", *(f"{mark} {name}" for name in names)] if names else []
    for change in difference.changed:
        lines += ["", f"~ {change.layer}", *(f"    {what}" for what in change.what)]
    if difference.fits or difference.clashes or difference.renamed or difference.fresh:
        lines += ["", "Weights of A in B"]
    lines += [f"  fit: {', '.join(difference.fits)}"] * bool(difference.fits)
    lines += [f"  do not fit, an error when loaded: {name}, {why}" for name, why in difference.clashes]
    lines += [f"  would fit under B's name: {old} → {new}" for old, new in difference.renamed]
    lines += [f"  newly initialized: {', '.join(difference.fresh)}"] * bool(difference.fresh)
    return "\n".join(lines + (["", "the nets mean the same"] if difference.same else []))
