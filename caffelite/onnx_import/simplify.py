"""Rewrites the operators of a graph before they become layers: operators that exporters write as several become one
again, a bias becomes that of its matrix product, and what no output needs is left out."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .reader import Operator
from .trace import Traced

# An operator and its inputs: a name stands for any tensor, one that begins with $ for a constant, a number for itself.
Pattern = tuple | str | float
Condition = Callable[[Traced, Mapping[str, str], Mapping[str, Operator]], bool]
COMMUTATIVE = ("Add", "Mul")

_SHIFTED = ("Add", "x", 3.0)
_CLIPPED = ("Clip", _SHIFTED, 0.0, 6.0)
_RELU6 = ("Min", ("Max", _SHIFTED, 0.0), 6.0)
_ERF = [
    ("Add", ("Erf", scaled), 1.0) for scaled in (("Div", "x", math.sqrt(2)), ("Mul", "x", math.sqrt(0.5)))
]  # twice the share of a normal distribution that is below x
_CENTERED = ("Sub", "x", ("ReduceMean", "x"))
_SQUARES = [("Pow", _CENTERED, 2.0), ("Mul", _CENTERED, _CENTERED)]
_DEVIATIONS = [("Sqrt", ("Add", ("ReduceMean", square), "$eps")) for square in _SQUARES]
_MEANS = [(kind, "x") for kind in ("ReduceMean", "GlobalAveragePool")]
_INVERSES = [
    (mean, ("Reciprocal", ("Sqrt", ("Add", (mean[0], ("Mul", centered, centered)), "$eps"))))
    for mean, centered in ((mean, ("Sub", "x", mean)) for mean in _MEANS)
]
_SQUARED_SUM = ("ReduceSumSquare", _CENTERED)
_TANH = ("Tanh", ("Mul", ("Add", "x", ("Mul", ("Pow", "x", 3.0), 0.044715)), math.sqrt(2 / math.pi)))

PATTERNS: list[tuple[str, Sequence[Pattern]]] = [
    (
        "HardSwish",
        [
            ("Mul", "x", ("HardSigmoid", "x")),
            *(
                form
                for clipped in (_CLIPPED, _RELU6)
                for form in (
                    ("Mul", "x", ("Div", clipped, 6.0)),
                    ("Div", ("Mul", "x", clipped), 6.0),
                    ("Mul", "x", ("Mul", clipped, 1 / 6)),
                    ("Mul", ("Mul", "x", clipped), 1 / 6),
                )
            ),
        ],
    ),
    ("Identity", [("Where", ("IsNaN", "x"), 0.0, "x")]),  # behind a softmax, for rows that are masked throughout
    ("Swish", [("Mul", "x", ("Sigmoid", "x"))]),
    ("Mish", [("Mul", "x", ("Tanh", ("Softplus", "x")))]),
    (
        "Gelu",
        [
            form
            for erf in _ERF
            for form in (
                ("Mul", ("Mul", "x", erf), 0.5),
                ("Mul", "x", ("Mul", erf, 0.5)),
                ("Mul", ("Mul", "x", 0.5), erf),
            )
        ]
        + [("Mul", ("Mul", "x", 0.5), ("Sub", 1.0, ("Erf", ("Mul", ("Neg", "x"), math.sqrt(0.5)))))],
    ),
    (
        "TanhGelu",
        [
            ("Mul", ("Mul", "x", 0.5), ("Add", _TANH, 1.0)),
            ("Mul", "x", ("Mul", ("Add", _TANH, 1.0), 0.5)),
            ("Mul", ("Mul", "x", ("Add", _TANH, 1.0)), 0.5),
        ],
    ),
    ("LayerNormalization", [("Div", _CENTERED, deviation) for deviation in _DEVIATIONS]),
    # Keras 3's: x s + (b - mean s), where s is the scale by the deviation
    (
        "LayerNormalization",
        [
            ("Add", ("Mul", "x", scale), shift)
            for mean, inverse in _INVERSES
            for scale in (("Mul", inverse, "$scale"), inverse)
            for less in [("Mul", ("Neg", mean), scale)]
            for shift in (("Add", less, "$bias"), less)
        ],
    ),
    # Keras 2's: a batch norm of rows as channels, with the moments of each
    (
        "RowNormalization",
        [
            ("BatchNormalization", "x", 1.0, 0.0, ("Squeeze", ("ReduceMean", "x"), *axes), ("Div", _SQUARED_SUM, "$n"))
            for axes in ((), ("$axes",))
        ],
    ),
    ("Linear", [("Add", ("MatMul", "x", "$w"), "$b")]),
]


def simplify(traced: Traced) -> list[Operator]:
    """The operators that the outputs need, in their order, after all rewrites."""
    makers = {name: op for op in traced.operators for name in op.outputs if name}
    made = []
    for op in traced.operators:
        rewritten = _rewritten(op, traced, makers)
        made.append(rewritten)
        makers |= dict.fromkeys(filter(None, rewritten.outputs), rewritten)
    return _needed(_with_folded_pads(_needed(made, traced), traced), traced)


def _needed(operators: list[Operator], traced: Traced) -> list[Operator]:
    wanted, kept = set(traced.model.outputs), []
    for op in reversed(operators):
        if wanted.intersection(op.outputs):
            kept.append(op)
            if not all(name in traced.values for name in op.outputs if name):
                wanted.update(op.inputs)
    return kept[::-1]


def _rewritten(op: Operator, traced: Traced, makers: Mapping[str, Operator]) -> Operator:
    if op.outputs[0] in traced.values:
        return op
    for kind, forms in PATTERNS:
        for form in forms:
            bound: dict[str, Any] = {}
            if _matches(form, op.outputs[0], traced, makers, bound) and (
                made := _made(kind, op, bound, traced, makers)
            ):
                return made
    return op


def _matches(form: Pattern, name: str, traced: Traced, makers: Mapping[str, Operator], bound: dict[str, Any]) -> bool:
    if isinstance(form, str):
        fits = (name in traced.values) == form.startswith("$")
        return fits and bound.setdefault(form, name) == name
    if isinstance(form, float):
        value = traced.values.get(name)
        return value is not None and value.size > 0 and np.allclose(value, form, 1e-5, 0)
    op = makers.get(name)
    kind, *parts = form
    if op is None or op.kind != kind or name != op.outputs[0]:
        return False
    names = [each for each in op.inputs if each]
    if kind.startswith("Reduce"):
        names = names[:1]
    elif kind == "Clip" and len(names) == 1:  # limits as attributes, of opset 6
        same = [
            math.isclose(op.get(limit, math.inf), part) for limit, part in zip(("min", "max"), parts[1:], strict=True)
        ]
        return all(same) and _matches(parts[0], names[0], traced, makers, bound)
    if len(names) != len(parts):
        return False
    orders = [names, names[::-1]] if kind in (*COMMUTATIVE, "Min", "Max") else [names]
    for order in orders:
        attempt = dict(bound)
        if all(_matches(part, each, traced, makers, attempt) for part, each in zip(parts, order, strict=True)):
            bound.update(attempt)
            return True
    return False


def _made(
    kind: str, op: Operator, bound: Mapping[str, str], traced: Traced, makers: Mapping[str, Operator]
) -> Operator | None:
    x, more = bound["x"], []
    attributes: dict[str, Any] = {}
    if kind == "HardSwish":
        inner = next(
            (makers[name] for name in op.inputs if name in makers and makers[name].kind == "HardSigmoid"), None
        )
        if inner and not (math.isclose(inner.get("alpha", 0.2), 1 / 6, rel_tol=1e-4) and inner.get("beta", 0.5) == 0.5):
            return None
    elif kind == "LayerNormalization":
        axes = reduced_axes(_mean_of(op, x, makers), traced)
        more = [bound[name] for name in ("$scale", "$bias") if name in bound]
        width = traced.shapes[x][-1]
        if axes != [len(traced.shapes[x]) - 1] or traced.values[bound["$eps"]].size != 1:
            return None
        if any(traced.values[name].shape[-1:] != (width,) or traced.values[name].size != width for name in more):
            return None
        if "$scale" not in bound:
            more = more and ["", *more]
        attributes = {"epsilon": float(traced.values[bound["$eps"]].reshape(()))}
    elif kind == "RowNormalization":
        shape = traced.shapes[x]
        if len(shape) != 4 or shape[::3] != (1, 1) or not np.all(traced.values[bound["$n"]] == shape[2]):
            return None
        kind, attributes = "LayerNormalization", {"axis": 2, "epsilon": op.get("epsilon", 1e-5)}
    elif kind == "Linear":
        w, b = (traced.values[bound[name]] for name in ("$w", "$b"))
        if w.ndim != 2 or b.size != w.shape[1] or b.ndim and b.shape[-1] != b.size:
            return None
        more = [bound["$w"], bound["$b"]]
    elif kind == "TanhGelu":
        kind, attributes = "Gelu", {"approximate": "tanh"}
    return Operator(kind, op.name, [x, *more], op.outputs[:1], attributes)


def _mean_of(op: Operator, x: str, makers: Mapping[str, Operator]) -> Operator:
    """The mean of x behind a form that has one."""
    waiting = [op]
    while waiting:
        op = waiting.pop()
        if op.kind in ("ReduceMean", "GlobalAveragePool") and op.inputs[0] == x:
            return op
        waiting += [makers[name] for name in op.inputs if name in makers and name != x]
    raise KeyError(x)


def reduced_axes(op: Operator, traced: Traced) -> list[int]:
    """The axes that a Reduce operator reduces, ascending; all where it names none."""
    rank = len(traced.shapes[op.inputs[0]])
    if op.kind == "GlobalAveragePool":
        return list(range(2, rank))
    axes = op.get("axes")
    if len(op.inputs) > 1 and op.inputs[1]:
        axes = np.ravel(traced.constant(op, 1)).tolist()
    if not axes:
        return [] if op.get("noop_with_empty_axes") else list(range(rank))
    return sorted(axis % rank for axis in axes)


def constant_pads(op: Operator, traced: Traced) -> tuple[list[int], float]:
    """(the pads of all axes, first those before, the value) of a Pad. Errors: they are computed."""
    rank = len(traced.shapes[op.inputs[0]])
    pads = op.get("pads")
    if pads is None:
        pads = np.ravel(traced.constant(op, 1)).tolist()
    value = op.get("value", 0.0)
    if len(op.inputs) > 2 and op.inputs[2]:
        value = float(traced.constant(op, 2).reshape(()))
    if len(op.inputs) > 3 and op.inputs[3]:
        axes = [axis % rank for axis in np.ravel(traced.constant(op, 3)).tolist()]
        every = [0] * 2 * rank
        for i, axis in enumerate(axes):
            every[axis], every[axis + rank] = pads[i], pads[i + len(axes)]
        pads = every
    return [int(pad) for pad in pads], value


def _with_folded_pads(operators: list[Operator], traced: Traced) -> list[Operator]:
    """A Pad with zeros whose only reader is a convolution becomes that one's pads."""
    makers = {name: op for op in operators for name in op.outputs}
    readers: dict[str, int] = {}
    for name in (name for op in operators for name in op.inputs):
        readers[name] = readers.get(name, 0) + 1
    for op in operators:
        pad = makers.get(op.inputs[0]) if op.inputs else None
        if op.kind != "Conv" or pad is None or pad.kind != "Pad" or readers[pad.outputs[0]] > 1:
            continue
        if op.get("auto_pad", "NOTSET") != "NOTSET" or pad.get("mode", "constant") != "constant":
            continue
        (pads, value), rank = constant_pads(pad, traced), len(traced.shapes[op.inputs[0]])
        if value or pad.outputs[0] in traced.model.outputs:
            continue
        spatial = [*pads[2:rank], *pads[rank + 2 :]]
        if any((*pads[:2], *pads[rank : rank + 2])) or min(spatial) < 0:
            continue
        own = op.get("pads") or [0] * len(spatial)
        op.attributes["pads"] = [a + b for a, b in zip(own, spatial, strict=True)]
        op.inputs[0] = pad.inputs[0]
    return operators
