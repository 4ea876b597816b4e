"""ONNX operators of the layers of text."""

from ...layers.base.exporting import Node, Writer, layer_of, operator
from .ctc import CTCGreedyDecoder

FLOAT, INT64 = 1, 7  # of onnx.TensorProto


@operator("CTCGreedyDecoder")
def greedy_decoder(w: Writer, node: Node, x: list[str], _) -> list[str]:
    """The labels that remain move to the front of their row; the rest go to a column behind it, which is cut off."""
    layer = layer_of(node, CTCGreedyDecoder)
    if len(node.tops) > 1 or len(x) == 3 or len(x) == 2 and not layer.indicated:
        raise w.cannot(node, "a comparison with labels, or a second top")
    steps, _, classes = layer.split
    scores = w.add("Reshape", [x[0], w.numbers([0, -1, classes])])
    path = w.add("Transpose", [w.add("ArgMax", [scores], axis=2, keepdims=0)], perm=[1, 0])  # (N, T)
    remains = w.add("Not", [w.add("Equal", [path, w.integer(layer.blank)])])
    if layer.p.ctc_merge_repeated and steps > 1:
        first, rest = (
            w.add("Slice", [path, *(w.numbers([i]) for i in ends)]) for ends in ((0, steps - 1, 1), (1, steps, 1))
        )
        changes = w.add("Not", [w.add("Equal", [first, rest])])
        remains = w.add("And", [remains, w.add("Concat", [_front(w, path), changes], axis=1)])
    if layer.indicated:
        remains = w.add("And", [remains, _within(w, w.add("Reshape", [x[1], w.numbers([steps, -1])]))])
    counts = w.add("CumSum", [w.add("Cast", [remains], to=INT64), w.numbers([1])])
    places = w.add("Where", [remains, w.add("Sub", [counts, w.integer(1)]), w.integer(steps)])
    rows = w.add("Concat", [w.add("Shape", [path], start=0, end=1), w.numbers([steps + 1])], axis=0)
    empty = w.add("Expand", [w.scalar(-1), rows])
    filled = w.add("ScatterElements", [empty, places, w.add("Cast", [path], to=FLOAT)], axis=1)
    lines = w.add("Slice", [filled, w.numbers([0]), w.numbers([steps]), w.numbers([1])])
    return [w.add("Unsqueeze", [lines, w.numbers([2, 3])])]


def _front(w: Writer, path: str) -> str:
    """True for the first step of each line."""
    first = w.add("Slice", [path, w.numbers([0]), w.numbers([1]), w.numbers([1])])
    return w.add("Equal", [first, first])


def _within(w: Writer, indicators: str) -> str:
    """Whether a step (N, T) lies before the first 0 that is not that of step 0."""
    starts = w.add("Cast", [w.add("Equal", [w.add("Round", [indicators]), w.scalar(0)])], to=FLOAT)
    later = w.add("Slice", [starts, w.numbers([1]), w.numbers([(1 << 63) - 1]), w.numbers([0])])
    first = w.add("Slice", [starts, w.numbers([0]), w.numbers([1]), w.numbers([0])])
    ended = w.add("CumSum", [w.add("Concat", [w.add("Mul", [first, w.scalar(0)]), later], axis=0), w.numbers([0])])
    return w.add("Transpose", [w.add("Equal", [ended, w.scalar(0)])], perm=[1, 0])
