"""Operators that reorder, join, cut, repeat and reduce the values of tensors."""

from collections.abc import Sequence

import numpy as np

from .. import caffelite_pb2 as pb
from .arithmetic import power
from .builder import Builder, Unsupported, translates
from .decomposition import Decomposition
from .reader import Operator
from .simplify import reduced_axes

BOOL, FLOATS = 9, (1, 10, 11, 16)  # FLOAT, FLOAT16, DOUBLE, BFLOAT16


@translates("Identity")
def identity(b: Builder, op: Operator) -> list[str]:
    return [b.x(op)]


@translates("Cast")
def cast(b: Builder, op: Operator) -> list[str]:
    if op.get("to") == BOOL and op.inputs[0] not in b.traced.answers:
        d = Decomposition(b, op)
        return d.blob(d.make("Not", d.make("Equal", op.inputs[0], d.constant(0.0))))
    if op.get("to") not in FLOATS and op.inputs[0] not in b.traced.whole and not _chooses_rows(b, op):
        raise Unsupported(op, "it rounds to whole numbers", "end the net before it")
    return [b.x(op)]


def _chooses_rows(b: Builder, op: Operator) -> bool:
    """Whether its numbers choose rows of tables alone: Embed rounds them as the operator does."""
    readers = [other for other in b.traced.operators if op.outputs[0] in other.inputs]
    tables = all(each.kind == "Gather" and each.inputs[1] == op.outputs[0] for each in readers)
    return bool(readers) and tables and op.outputs[0] not in b.traced.model.outputs


@translates("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(b: Builder, op: Operator) -> list[str]:
    return [reshaped(b, op, b.x(op))]


def reshaped(b: Builder, op: Operator, x: str) -> str:
    """The first input under the shape of the output, for any batch."""
    before, after = b.shape(op.inputs[0]), b.shape(op.outputs[0])
    if before == after:
        return x
    axes = b.traced.batch_axis
    batch, follows = axes.get(op.inputs[0]), axes.get(op.outputs[0])
    if len(after) == 2 and before[0] == after[0] and follows == 0:
        return b.add("Flatten", [x])
    dims = list(after)
    if follows is not None:
        dims[follows] = 0 if batch == follows and before[follows] == after[follows] else -1
    return b.add("Reshape", [x], reshape_param={"shape": {"dim": dims}})


@translates("Transpose")
def transpose(b: Builder, op: Operator) -> list[str]:
    rank = len(b.shape(op.inputs[0]))
    order = list(op.get("perm") or range(rank)[::-1])
    return [permuted(b, b.x(op), order)]


def permuted(b: Builder, x: str, order: list[int], suffix: str = "") -> str:
    """Axes in another order."""
    if order == sorted(order):
        return x
    return b.add("Permute", [x], suffix=suffix, permute_param={"order": order})


@translates("Concat")
def concat(b: Builder, op: Operator) -> list[str]:
    axis = op.get("axis") % len(b.shape(op.outputs[0]))
    blobs = [i for i, name in enumerate(op.inputs) if name in b.names]
    if not blobs:
        raise Unsupported(op, "it joins constants alone")
    bottoms = [
        b.names[name] if name in b.names else _as_blob(b, op, i, blobs[0], axis) for i, name in enumerate(op.inputs)
    ]
    return [b.add("Concat", bottoms, concat_param={} if axis == 1 else {"axis": axis})]


def _as_blob(b: Builder, op: Operator, index: int, like: int, axis: int) -> str:
    """A constant, such as a class token, as a blob with the batch of another one: zeros of that one, and a bias."""
    values, shape = b.traced.values[op.inputs[index]], b.shape(op.inputs[like])
    if axis == 0 or not axis or len(values) > 1 and not (values == values[:1]).all():
        raise Unsupported(op, f'the constant "{op.inputs[index]}" joins the samples of the batch')
    row, size = values[0], values.shape[axis]
    first = b.names[op.inputs[like]]
    if shape[axis] > 1:
        fields = {"axis": axis, "slice_point": [1]}
        first, rest = b.add_many("Slice", [first], 2, suffix="first", slice_param=fields)
        b.silence([rest])
    if size > 1:
        first = b.add("Tile", [first], suffix="repeated", tile_param={"axis": axis, "tiles": size})
    zeros = power(b, first, suffix="zeros", scale=0.0)
    return b.add("Bias", [zeros], [row], suffix="token", bias_param={"axis": 1, "num_axes": row.ndim})


@translates("Split")
def split(b: Builder, op: Operator) -> list[str]:
    axis = op.get("axis", 0) % len(b.shape(op.inputs[0]))
    parts = {name: size for name in op.outputs if (size := b.shape(name)[axis])}  # Keras's GRU has an empty one
    if len(parts) == 1:
        return [b.x(op) if name in parts else "" for name in op.outputs]
    points = np.cumsum(list(parts.values()))[:-1].tolist()
    tops = b.add_many("Slice", [b.x(op)], len(parts), slice_param={"axis": axis, "slice_point": points})
    made = dict(zip(parts, tops, strict=True))
    read = b.read_names()
    b.silence([top for name, top in made.items() if name not in read])
    return [made.get(name, "") for name in op.outputs]


def cut(b: Builder, x: str, axis: int, start: int, end: int, size: int) -> str:
    """The values from start to end along an axis of this size."""
    if (start, end) == (0, size):
        return x
    points = [point for point in (start, end) if 0 < point < size]
    fields = {"axis": axis, "slice_point": points}
    tops = b.add_many("Slice", [x], len(points) + 1, slice_param=fields)
    chosen = tops.pop(1 if start else 0)
    b.silence(tops)
    return chosen


def chosen(b: Builder, x: str, axis: int, indices: Sequence[int], size: int) -> str:
    """The values at these indices, in this order, along an axis of this size."""
    runs = [[indices[0], indices[0] + 1]]
    for i in indices[1:]:
        if i == runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([i, i + 1])
    if len(runs) == 1:
        return cut(b, x, axis, runs[0][0], runs[0][1], size)
    points = sorted({point for run in runs for point in run} - {0, size})
    fields = {"axis": axis, "slice_point": points}
    tops = b.add_many("Slice", [x], len(points) + 1, suffix="cut", slice_param=fields) if points else [x]
    starts = dict(zip([0, *points], tops, strict=True))
    pieces = [top for start, end in runs for at, top in starts.items() if start <= at < end]
    b.silence([top for top in tops if top not in pieces])
    return b.add("Concat", pieces, suffix="chosen", concat_param={"axis": axis})


@translates("Slice")
def slices(b: Builder, op: Operator) -> list[str]:
    shape = b.shape(op.inputs[0])
    starts, ends = b.integers(op, 1, "starts"), b.integers(op, 2, "ends")
    axes = b.integers(op, 3, "axes") or list(range(len(starts or [])))
    steps = b.integers(op, 4, "steps") or [1] * len(axes)
    if starts is None or ends is None:
        raise Unsupported(op, "it says no range")
    x, batch = b.x(op), b.traced.batch_axis.get(op.inputs[0])
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= len(shape)
        indices = range(shape[axis])[start:end:step]
        if step == -1 and len(indices) == shape[axis]:
            x = b.add("Reverse", [x], suffix="reversed", reverse_param={"axis": axis})
            continue
        if not len(indices) or axis == batch and len(indices) != shape[axis]:
            raise Unsupported(op, "it chooses nothing" if not len(indices) else "it chooses samples of the batch")
        if step > 1 and len(shape) == 4 and axis >= 2:
            x = cut(b, x, axis, indices[0], indices[-1] + 1, shape[axis])
            x = _every(b, x, axis, step)
        else:
            x = chosen(b, x, axis, indices, shape[axis])
    return [x]


def _every(b: Builder, x: str, axis: int, step: int) -> str:
    """Every step-th row or column of images: windows of one pixel."""
    side = {"stride_h": step, "stride_w": 1} if axis == 2 else {"stride_h": 1, "stride_w": step}
    fields = {"pool": pb.PoolingParameter.MAX, "kernel_size": 1, "round_mode": pb.PoolingParameter.FLOOR, **side}
    return b.add("Pooling", [x], suffix="step", pooling_param=fields)


@translates("Gather")
def gather(b: Builder, op: Operator) -> list[str]:
    table, shape = b.constant(op, 0), b.shape(op.inputs[0])
    if table is not None:
        if op.get("axis", 0) or table.ndim != 2:
            raise Unsupported(op, "a table of another form", "a table of rows, as nn.Embedding has")
        fields = {"input_dim": table.shape[0], "num_output": table.shape[1], "bias_term": False}
        return [b.add("Embed", [b.x(op, 1)], [table], embed_param=fields)]
    indices, axis = b.constant(op, 1), op.get("axis", 0) % len(shape)
    if indices is not None and len(shape) == 1 and np.array_equal(np.ravel(indices), np.arange(shape[0])):
        return [reshaped(b, op, b.x(op))]  # all, in their order, as dynamo writes as_strided
    if indices is None or indices.ndim > 1 or axis == b.traced.batch_axis.get(op.inputs[0]):
        raise Unsupported(op, "it chooses samples, or by computed indices", "slice by constants")
    x = chosen(b, b.x(op), axis, [int(i) % shape[axis] for i in np.ravel(indices)], shape[axis])
    if indices.ndim:
        return [x]
    return [b.add("Squeeze", [x], squeeze_param={"axis": [axis]})]


@translates("Expand", "Tile")
def expand(b: Builder, op: Operator) -> list[str]:
    before, after = b.shape(op.inputs[0]), b.shape(op.outputs[0])
    if len(before) != len(after) or before[0] != after[0]:
        raise Unsupported(
            op, f"from shape {list(before)} to {list(after)}", "repeat along the other axes than the first"
        )
    x = b.x(op)
    for axis, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            x = b.add("Tile", [x], tile_param={"axis": axis, "tiles": other // one})
    return [x]


_REDUCTIONS = {
    "ReduceMean": pb.ReductionParameter.MEAN,
    "ReduceSum": pb.ReductionParameter.SUM,
    "ReduceL1": pb.ReductionParameter.ASUM,
    "ReduceSumSquare": pb.ReductionParameter.SUMSQ,
    "ReduceL2": pb.ReductionParameter.SUMSQ,
}


@translates("ReduceMean", "ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceL2", "ReduceMax", "ReduceMin")
def reduce(b: Builder, op: Operator) -> list[str]:
    shape, axes = b.shape(op.inputs[0]), reduced_axes(op, b.traced)
    x, rank = b.x(op), len(shape)
    if not axes:
        return [x]
    batch, follows = b.traced.batch_axis.get(op.inputs[0]), b.traced.batch_axis.get(op.outputs[0])
    if (batch or 0) in axes:
        raise Unsupported(op, "it reduces over the batch", "reduce each sample alone")
    if op.kind in ("ReduceMean", "ReduceMax") and rank == 4 and axes == [2, 3]:
        method = pb.PoolingParameter.AVE if op.kind == "ReduceMean" else pb.PoolingParameter.MAX
        x = b.add("Pooling", [x], pooling_param={"pool": method, "global_pooling": True})
        return [x] if op.get("keepdims", 1) else [b.add("Flatten", [x], suffix="flat")]
    if op.kind in ("ReduceMax", "ReduceMin"):
        return [_greatest(b, op, x, shape, axes)]
    rest = [axis for axis in range(rank) if axis not in axes]
    x = permuted(b, x, [*rest, *axes], "order")
    x = b.add("Reduction", [x], reduction_param={"operation": _REDUCTIONS[op.kind], "axis": len(rest)})
    if op.kind == "ReduceL2":
        x = power(b, x, suffix="root", power=0.5)
    if not op.get("keepdims", 1):
        return [x]
    dims = list(b.shape(op.outputs[0]))
    if follows is not None:
        dims[follows] = -1
    return [b.add("Reshape", [x], suffix="axes", reshape_param={"shape": {"dim": dims}})]


def _greatest(b: Builder, op: Operator, x: str, shape: tuple[int, ...], axes: list[int]) -> str:
    """The greatest value, or the least, along these axes: a pooling over rows of them."""
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    least, count = op.kind == "ReduceMin", int(np.prod([shape[axis] for axis in axes]))
    x = power(b, x, suffix="negative", scale=-1) if least else x
    x = permuted(b, x, [*rest, *axes], "order")
    x = b.add("Reshape", [x], suffix="rows", reshape_param={"shape": {"dim": [0, 1, -1, count]}})
    fields = {"pool": pb.PoolingParameter.MAX, "kernel_h": 1, "kernel_w": count}
    x = b.add("Pooling", [x], pooling_param=fields)
    x = power(b, x, suffix="least", scale=-1) if least else x
    dims, follows = list(b.shape(op.outputs[0])), b.traced.batch_axis[op.outputs[0]]
    if follows is not None:
        dims[follows] = -1
    return b.add("Reshape", [x], suffix="axes", reshape_param={"shape": {"dim": dims}})


@translates("ArgMax", "ArgMin")
def place(b: Builder, op: Operator) -> list[str]:
    """Of equal numbers Caffe's layer takes the last: for the first it is given the axis from its end."""
    shape, x = b.shape(op.inputs[0]), b.x(op)
    axis = op.get("axis", 0) % len(shape)
    if axis == b.traced.batch_axis.get(op.inputs[0]):
        raise Unsupported(op, "it compares samples of the batch", "reduce each sample alone")
    first = not op.get("select_last_index", 0)
    x = power(b, x, suffix="negative", scale=-1) if op.kind == "ArgMin" else x
    x = b.add("Reverse", [x], suffix="reversed", reverse_param={"axis": axis}) if first else x
    y = b.add("ArgMax", [x], argmax_param={"axis": axis})
    y = power(b, y, suffix="place", scale=-1, shift=shape[axis] - 1) if first else y
    return [y if op.get("keepdims", 1) else b.add("Squeeze", [y], suffix="axis", squeeze_param={"axis": [axis]})]


@translates("Softmax", "LogSoftmax")
def softmax(b: Builder, op: Operator) -> list[str]:
    shape, x = b.shape(op.inputs[0]), b.x(op)
    old = b.traced.model.opset < 13
    axis = op.get("axis", 1 if old else -1) % len(shape)
    if old and axis != len(shape) - 1 and int(np.prod(shape[axis + 1 :])) != 1:
        if axis != 1:
            raise Unsupported(op, "a softmax over several axes", "export with opset 13 or later")
        x = b.add("Flatten", [x], suffix="flat")
    y = b.add("Softmax", [x], softmax_param={} if axis == 1 else {"axis": axis})
    if old and axis == 1 and int(np.prod(shape[2:])) != 1 and len(shape) > 2:
        y = b.add("Reshape", [y], suffix="shape", reshape_param={"shape": {"dim": [0, *shape[1:]]}})
    return [y if op.kind == "Softmax" else b.add("Log", [y], suffix="log")]
