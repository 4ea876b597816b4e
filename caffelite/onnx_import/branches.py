"""Branches of a file whose conditions depend on shapes and constants alone: each becomes the operators that it runs."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from ..errors import CaffeliteError
from ..export.writer import import_onnx
from .reader import Model, remodel
from .trace import run_for_batches

SHAPES = ("Shape", "Size")
REMEDY = "export the net for one fixed shape, by tracing, so that no branch is left"


def chosen(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """The model with the operators of one branch in place of each If. shapes: of samples by input, for open axes.
    Errors: a condition that follows values of the inputs, or the size of the batch."""
    proto = model.proto
    if not any(node.op_type == "If" for node in proto.graph.node):
        return model
    proto = deepcopy(proto)
    while branches := [node for node in proto.graph.node if node.op_type == "If"]:
        _choose(model, proto, branches, shapes)
    return remodel(model, proto)


def _choose(model: Model, proto: Any, branches: list[Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Replaces the branches whose conditions no other branch makes."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    ready = [node for node in branches if not _behind(node.input[0], makers, model, node)]
    computed = [name for name in dict.fromkeys(node.input[0] for node in ready) if name in makers]
    results = run_for_batches(model, _cut(proto, computed, makers), shapes) if computed else [{}]
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    onnx = import_onnx("reading ONNX files")
    for node in ready:
        name = node.input[0]
        values = [each[name] if name in each else onnx.numpy_helper.to_array(constants[name]) for each in results]
        if len({bool(value.reshape(-1)[0]) for value in values}) > 1:
            raise _refused(node, "the size of the batch")
        _replace(proto, node, bool(values[0].reshape(-1)[0]))


def _behind(name: str, makers: Mapping[str, Any], model: Model, branch: Any) -> bool:
    """Whether another branch decides what a condition is. Errors: values of the inputs do."""
    waiting, seen, found = [name], set[str](), False
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if name in seen or not name:
            continue
        seen.add(name)
        if name in model.inputs:
            raise _refused(branch, f'the values of "{name}"')
        if node is not None:
            found = found or node.op_type == "If"
            waiting += [] if node.op_type in SHAPES else node.input
    return found


def _refused(node: Any, what: str) -> CaffeliteError:
    return CaffeliteError(f'which branch {node.op_type} "{node.name}" runs depends on {what}', remedy=REMEDY)


def _cut(proto: Any, outputs: Iterable[str], makers: Mapping[str, Any]) -> Any:
    """The net that makes these tensors alone."""
    onnx = import_onnx("reading ONNX files")
    made, wanted = deepcopy(proto), set[str]()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += makers[name].input if name in makers else []
    kept = [node for node in made.graph.node if wanted.intersection(node.output)]
    del made.graph.node[:], made.graph.output[:], made.graph.value_info[:]
    made.graph.node.extend(kept)
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return made


def _replace(proto: Any, node: Any, condition: bool) -> None:
    """Puts the operators of a branch in the place of the If, with names that nothing else has."""
    onnx = import_onnx("reading ONNX files")
    branch = next(each.g for each in node.attribute if each.name == ("then_branch" if condition else "else_branch"))
    own = {name for each in branch.node for name in each.output if name} | {each.name for each in branch.initializer}
    names = {name: f"{node.output[0]}/{name}" for name in own}
    inner = deepcopy(branch)
    _rename(inner, names)
    operators = list(inner.node)
    for output, name in zip(inner.output, node.output, strict=True):
        operators.append(onnx.helper.make_node("Identity", [output.name], [name], name=f"{node.name}/{name}"))
    place = next(i for i, each in enumerate(proto.graph.node) if each.output == node.output)
    after = list(proto.graph.node)[place + 1 :]
    del proto.graph.node[place:]
    proto.graph.node.extend([*operators, *after])
    proto.graph.initializer.extend(inner.initializer)


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Renames tensors of a graph, and where graphs within it read them."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)
    for value in (*graph.initializer, *graph.output):
        value.name = names.get(value.name, value.name)
