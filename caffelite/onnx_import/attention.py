"""Attention as one operator, as dynamo exports it from opset 23 on."""

import numpy as np

from .builder import LARGEST, Builder, Unsupported, translates
from .comparisons import added_mask
from .decomposition import Decomposition
from .reader import Operator

REMEDY = "export attention without them, or with opset 17"


@translates("Attention")
def attention(b: Builder, op: Operator) -> list[str]:
    """softmax(q k' scale + mask) v of queries, keys and values (N, heads, T, D), or (N, T, heads D)."""
    if any(op.inputs[4:]) or b.read_names().intersection(op.outputs[1:]):
        raise Unsupported(op, "states of steps before", REMEDY)
    d = Decomposition(b, op)
    counts = [op.get("q_num_heads"), *[op.get("kv_num_heads")] * 2]
    flat = len(b.shape(op.inputs[0])) == 3
    q, k, v = (_heads(b, d, name, n) if flat else name for name, n in zip(op.inputs[:3], counts, strict=True))
    batch, heads, length, depth = b.shape(q)
    k, v = (_repeated(b, d, name, heads) for name in (k, v))
    keys = b.shape(k)[2]
    scale = op.get("scale")
    q = d.make("Mul", q, d.constant(depth**-0.5 if scale is None else scale), called="scaled")
    columns = d.make("Transpose", k, called="columns", shape=(batch, heads, depth, keys), perm=[0, 1, 3, 2])
    scores = d.make("MatMul", q, columns, called="scores", shape=(batch, heads, length, keys))
    if limit := op.get("softcap", 0.0):
        bounded = d.make("Tanh", d.make("Mul", scores, d.constant(1 / limit), called="share"))
        scores = d.make("Mul", bounded, d.constant(limit), called="limited")
    if len(op.inputs) > 3 and op.inputs[3]:
        scores = d.make("Add", scores, added_mask(d, b, 3), called="masked")
    if op.get("is_causal", 0):
        later = np.triu(np.full((length, keys), -LARGEST), 1)
        scores = d.make("Add", scores, d.constant(later), called="causal")
    shares = d.make("Softmax", scores, called="weights", axis=3)
    y = d.make("MatMul", shares, v, shape=(batch, heads, length, b.shape(v)[3]))
    if flat:
        y = d.make("Transpose", y, called="rows", shape=[b.shape(y)[i] for i in (0, 2, 1, 3)], perm=[0, 2, 1, 3])
        y = d.make("Reshape", y, called="joined", shape=b.shape(op.outputs[0]))
    return [*d.blob(y), *[""] * (len(op.outputs) - 1)]


def _heads(b: Builder, d: Decomposition, name: str, count: int) -> str:
    """(N, T, heads D) as (N, heads, T, D)"""
    batch, length, width = b.shape(name)
    rows = d.make("Reshape", name, called="heads", shape=(batch, length, count, width // count))
    return d.make("Transpose", rows, called="first", shape=(batch, count, length, width // count), perm=[0, 2, 1, 3])


def _repeated(b: Builder, d: Decomposition, name: str, heads: int) -> str:
    """Keys or values of groups of heads, repeated for each head of a group."""
    batch, groups, length, depth = b.shape(name)
    if groups == heads:
        return name
    rows = d.make("Reshape", name, called="groups", shape=(batch, groups, 1, length * depth))
    rows = d.make("Tile", rows, called="repeated", shape=(batch, groups, heads // groups, length * depth))
    return d.make("Reshape", rows, called="heads", shape=(batch, heads, length, depth))
