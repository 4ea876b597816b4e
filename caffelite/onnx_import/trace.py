"""Runs a net once in onnxruntime and records the shape of each tensor, and the values of those that do not depend on
the inputs."""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CaffeliteError
from ..export.writer import import_onnx
from ..proof.onnx_runner import OnnxRunner, refused
from .reader import Model, Operator

BATCH = 2
MOST_VALUES = 1 << 28  # of one tensor
NOT_FOLDED = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")


@dataclass
class Traced:
    """What is known of the tensors of a net by name: ``shapes``; ``values`` of those that are constant; ``batch_axis``:
    the axis whose length follows the batch, None where none does; ``whole``: those of whole numbers; ``answers``: of
    these, those of truth values; open_batch: whether the file leaves the batch open."""

    model: Model
    operators: list[Operator]
    shapes: dict[str, tuple[int, ...]]
    values: dict[str, np.ndarray]
    batch_axis: dict[str, int | None]
    whole: set[str]
    answers: set[str]
    inputs: dict[str, tuple[int, ...]]
    open_batch: bool

    def constant(self, op: Operator, index: int) -> np.ndarray:
        """The values of an input. Errors: it depends on the inputs of the net."""
        name = op.inputs[index]
        if name not in self.values:
            what = f'the {op} cannot be expressed: its input "{name}" is computed'
            raise CaffeliteError(what, remedy="export the net with a constant in its place")
        return self.values[name]


def draw(model: Model, shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Random inputs: standard normal numbers, or 0 and 1 for integers and for what the net rounds to integers."""
    onnx, rng = import_onnx("reading ONNX files"), np.random.default_rng(seed)
    rounds = [
        op.kind == "Cast" and op.get("to") in (onnx.TensorProto.INT32, onnx.TensorProto.INT64) for op in model.operators
    ]
    made = {}
    for name, kind in input_kinds(model).items():
        rounded = all(is_rounding for op, is_rounding in zip(model.operators, rounds, strict=True) if name in op.inputs)
        whole, shape = kind.kind == "i" or rounded, shapes[name]
        made[name] = (rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)).astype(kind)
    return made


def input_kinds(model: Model) -> dict[str, np.dtype]:
    """The type of each input."""
    onnx = import_onnx("reading ONNX files")
    types = {value.name: value.type.tensor_type.elem_type for value in model.proto.graph.input}
    return {name: onnx.helper.tensor_dtype_to_np_dtype(types[name]) for name in model.inputs}


def sample_shapes(model: Model, wanted: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, tuple[int, ...]], bool]:
    """The shape of each input with a batch, and whether the file leaves the batch open. wanted: sample shapes by input;
    "" for each input. Errors: an open axis, or a shape that the file does not have."""
    shapes, opened = {}, True
    for name, dims in model.inputs.items():
        if not dims:
            raise CaffeliteError(f'the input "{name}" has no axes', expected="samples by the first axis")
        axis = model.batch_axes[name]
        batch, sides = dims[axis], dims[:axis] + dims[axis + 1 :]
        sample = wanted.get(name, wanted.get("", ()))
        if sample and len(sample) == len(sides):
            fits = all(have in (None, want) for have, want in zip(sides, sample, strict=True))
            sides = tuple(sample) if fits else sides
        if sample and sides != tuple(sample):
            expected = "x".join("?" if dim is None else str(dim) for dim in sides)
            raise CaffeliteError(f'-shape of "{name}" does not fit the net', expected=expected, found=list(sample))
        known = tuple(dim for dim in sides if dim is not None)
        if len(known) < len(sides):
            what = f'the input "{name}" has open axes'
            remedy = f"say its size, as in -shape {name}=3x224x224"
            raise CaffeliteError(what, found=[dim or "?" for dim in dims], remedy=remedy)
        opened = opened and batch is None
        shapes[name] = (*known[:axis], batch or BATCH, *known[axis:])
    return shapes, opened


def count_samples(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The samples of a batch whose inputs have these shapes."""
    name, shape = next(iter(shapes.items()))
    return shape[model.batch_axes[name]]


def with_batch(model: Model, shapes: Mapping[str, tuple[int, ...]], count: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs for so many samples."""
    axes = model.batch_axes
    return {name: (*shape[: axes[name]], count, *shape[axes[name] + 1 :]) for name, shape in shapes.items()}


def trace(model: Model, operators: list[Operator], wanted: Mapping[str, tuple[int, ...]]) -> Traced:
    """Runs the net, with an open batch twice, of two sizes, so that it shows which axes follow the batch."""
    shapes, opened = sample_shapes(model, wanted)
    first, *others = run_for_batches(model, _with_all_outputs(model), wanted)
    second = others[0] if others else None
    whole = {name for name, kind in input_kinds(model).items() if kind.kind == "i"}
    traced = Traced(
        model, operators, dict(shapes), dict(model.constants), dict(model.batch_axes), whole, set(), shapes, opened
    )
    batch = count_samples(model, shapes)
    for op in operators:
        known = all(not name or name in traced.values for name in op.inputs) and op.kind not in NOT_FOLDED
        for name in filter(None, op.outputs):
            value, other = first[name], second[name] if second else first[name]
            traced.shapes[name] = value.shape
            if value.dtype.kind in "iub":
                whole.add(name)
            if value.dtype == bool:
                traced.answers.add(name)
            differing = [i for i, (a, b) in enumerate(zip(value.shape, other.shape, strict=False)) if a != b]
            follows = next(iter(differing), None) if second else _likely_axis(value.shape, batch)
            traced.batch_axis[name] = follows if value.ndim else None
            if known or (op.kind in ("Shape", "Size") or _counts(op, traced)):
                traced.values[name] = value
    return traced


def run_for_batches(model: Model, proto: Any, wanted: Mapping[str, tuple[int, ...]]) -> list[dict[str, np.ndarray]]:
    """The outputs of a net with the inputs of a model: for one size of the batch, or for two where it is open."""
    shapes, opened = sample_shapes(model, wanted)
    several = [shapes]
    if opened:
        several.append(with_batch(model, shapes, BATCH + 1))
    return [_run_all(model, proto, each) for each in several]


def _likely_axis(shape: tuple[int, ...], batch: int) -> int:
    """The axis of the batch in a file that fixes it: the first one of its length, else the first. The proof shows
    whether that was right."""
    return next((axis for axis, size in enumerate(shape) if size == batch), 0)


def _counts(op: Operator, traced: Traced) -> bool:
    """Whether its inputs are constants and numbers of the shape."""
    return bool(op.inputs) and all(not name or name in traced.values for name in op.inputs)


def _run_all(model: Model, proto: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    sized = deepcopy(proto)
    for value in sized.graph.input:
        if value.name in shapes:
            for dim, size in zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=True):
                dim.dim_value = size
    _check_sizes(sized)
    return plain_runner(sized).outputs(draw(model, shapes, 0))


def _check_sizes(proto: Any) -> None:
    """Errors: a tensor that is larger than any net needs, which a damaged file may ask for."""
    onnx = import_onnx("reading ONNX files")
    with refused("the shapes of the net contradict each other"):
        inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    for value in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output):
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if math.prod(dims) > MOST_VALUES:
            found = "×".join(map(str, dims))
            raise CaffeliteError(f'"{value.name}" is too large', expected=f"at most {MOST_VALUES} numbers", found=found)


def plain_runner(proto: Any) -> OnnxRunner:
    """The net in onnxruntime, each operator as it is."""
    return OnnxRunner(proto.SerializeToString(), "importing a graph", optimized=False)


def _with_all_outputs(model: Model) -> Any:
    """The message with every tensor as an output, without the shapes that it claims for them."""
    proto = deepcopy(model.proto)
    onnx = import_onnx("reading ONNX files")
    del proto.graph.value_info[:], proto.graph.output[:]
    for op in model.operators:
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in op.outputs if name)
    return proto
