"""Makes a net of the operators of an ONNX file, one table entry for each kind of operator."""

import re

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Mistakes
from . import arithmetic, attention, comparisons, images, learned, recurrent, shapes
from .builder import OPERATORS, Builder, Unsupported
from .reader import Model
from .simplify import simplify
from .trace import NOT_FOLDED, Traced

__all__ = ["arithmetic", "attention", "comparisons", "images", "learned", "recurrent", "shapes", "translate"]
PARTS = ("Erf", "IsNaN")  # no layer computes them alone, but a form that has them
REMEDIES = {
    "NonMaxSuppression": "export the net without what follows its scores and boxes",
    "MaxUnpool": "use nn.Upsample or nn.ConvTranspose2d, or keep such a net as a prototxt",
    "TopK": "export the net without what follows its scores",
    "Erf": "use nn.GELU, whose form is known",
}
_QUANTIZED = "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul ConvInteger MatMulInteger"
REMEDIES |= dict.fromkeys(_QUANTIZED.split(), "export the net in float32, before it is quantized")
CUT = "end the net before it, or replace it by known operators and export again"


def refuse_unknown(model: Model) -> None:
    """Errors: all kinds of operators that no layer computes, each with its first node. Those that compute with
    constants and shapes alone need no layer."""
    mistakes: dict[str, CaffeliteError] = {}
    fixed = {"", *model.constants}
    for op in model.operators:
        if op.kind in ("Shape", "Size") or (fixed.issuperset(op.inputs) and op.kind not in NOT_FOLDED):
            fixed.update(op.outputs)
        elif op.kind not in OPERATORS and op.kind not in PARTS and op.kind not in mistakes:
            mistakes[op.kind] = Unsupported(op, f"no layer computes {op.kind}", REMEDIES.get(op.kind, CUT))
    _raise(list(mistakes.values()))


def _raise(mistakes: list[CaffeliteError]) -> None:
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else Mistakes(mistakes)


def translate(traced: Traced, name: str) -> Builder:
    """The net of a traced graph, and its outputs, named as the file names them. Errors: all operators that cannot be
    expressed, in one error."""
    b = Builder(traced, re.sub(r"[^\w.-]+", "_", name) or "net")
    for tensor, shape in traced.inputs.items():
        b.input(tensor, shape)
    mistakes = []
    for op in simplify(traced):
        if all(each in traced.values for each in op.outputs if each):
            continue
        b.begin(op)
        try:
            if op.kind not in OPERATORS:
                raise Unsupported(op, f"no layer computes {op.kind} of blobs", REMEDIES.get(op.kind, CUT))
            tops = OPERATORS[op.kind](b, op)
        except CaffeliteError as mistake:
            mistakes.append(mistake)
            tops = op.outputs
        b.names |= {tensor: top for tensor, top in zip(op.outputs, tops, strict=False) if tensor}
    _raise(mistakes)
    for output in traced.model.outputs:
        if output not in b.names:
            raise CaffeliteError(f'the output "{output}" is constant', remedy="export a net whose outputs are computed")
        if output in traced.inputs or b.names[output] in (b.names[each] for each in traced.inputs):
            raise CaffeliteError(
                f'the output "{output}" is an input of the net', remedy="export a net that computes it"
            )
        b.rename(b.names[output], output)
    return b


def deploy_net(b: Builder, batch: int) -> pb.NetParameter:
    """The net with this batch."""
    made = pb.NetParameter()
    made.CopyFrom(b.net)
    axes = {b.names[name]: axis for name, axis in b.traced.model.batch_axes.items()}
    for layer in made.layer:
        if layer.type == "Input":
            layer.input_param.shape[0].dim[axes[layer.top[0]]] = batch
    return made
