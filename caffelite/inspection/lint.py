"""Finds suspicious settings in a net or a solver that runs."""

import math
import os

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.labels import Labels, labels
from ..layers.accuracy import Accuracy
from ..layers.base.facets import Compares, Described
from ..layers.base.unread_fields import without_effect
from ..net.compile import compile
from ..net.graph import AUTOMATIC, Graph, Node, Parameter
from ..training.optim import rates, updates
from .feeds import Absent
from .reading import Findings, Reading
from .target import CPU

POLICY_FIELDS = ("gamma", "power", "stepsize", "stepvalue", "stagelr", "stageiter", "plateau_winsize")
RULE_FIELDS = ("momentum", "momentum2", "delta", "rms_decay")
LOOKED = 1 << 20  # numbers of each data layer's first samples
PICTURES = 100  # image files of each data layer


def _is_set(p: pb.SolverParameter, name: str) -> bool:
    value = getattr(p, name)
    return p.HasField(name) if isinstance(value, int | float) else bool(len(value))


def solver(reading: Reading, findings: Findings) -> None:
    """Adds findings for fields that nothing reads and iterations that no run reaches."""
    p, locate = reading.message, reading.locate
    if p.lr_policy in rates.POLICIES:
        needs = rates.POLICIES[p.lr_policy].fields
        for name in POLICY_FIELDS:
            if name not in needs and _is_set(p, name):
                users = ", ".join(policy for policy, of in rates.POLICIES.items() if name in of.fields)
                what = f'lr_policy "{p.lr_policy}" does not use {name}'
                findings.lint(what, locate(name), remedy=f"drop it; {users} would use it")
    if p.type in updates.RULES:
        for name in RULE_FIELDS:
            if name not in updates.RULES[p.type].constants and p.HasField(name) and getattr(p, name):
                users = ", ".join(rule for rule, of in updates.RULES.items() if name in of.constants)
                findings.lint(
                    f"the rule {p.type} does not use {name}", locate(name), remedy=f"drop it; {users} would use it"
                )
    _unreachable(p, locate, findings)
    if p.lr_policy in rates.POLICIES and rates.lacks_rate(p):
        what, remedy = (
            "no base_lr: the rate is 0, and nothing is learned",
            "set base_lr, the learning rate to start from",
        )
        findings.lint(what, locate(), remedy=remedy)
    if p.test_interval and not p.test_iter:
        what = "test_interval without test_iter: nothing is tested"
        findings.lint(what, locate("test_interval"), remedy="set test_iter, or drop it")
    folder = p.snapshot_prefix
    if (p.snapshot or p.snapshot_after_train) and folder and not folder.endswith("/") and os.path.isdir(folder):
        what = f"snapshot_prefix {folder} is a folder: snapshots and records are written into it, next to its files"
        findings.lint(what, locate("snapshot_prefix"), remedy="choose another name, or end it with /")
    if p.snapshot > p.max_iter:
        findings.lint(f"snapshot {p.snapshot} comes after max_iter {p.max_iter}", locate("snapshot"))


def _unreachable(p: pb.SolverParameter, locate, findings: Findings) -> None:
    """Steps past the end, or out of order."""
    steps = {"multistep": ("stepvalue", list(p.stepvalue)), "multifixed": ("stageiter", list(p.stageiter)[:-1])}
    if p.lr_policy in steps:
        name, values = steps[p.lr_policy]
        for i, value in enumerate(values):
            if value >= p.max_iter:
                findings.lint(
                    f"{name} {value} is never reached", locate(name, i), expected=f"below max_iter {p.max_iter}"
                )
            elif i and value < values[i - 1]:
                findings.lint(
                    f"{name} {value} comes after a later one", locate(name, i), expected=f"above {values[i - 1]}"
                )
    if p.lr_policy == "step" and p.stepsize >= p.max_iter > 0:
        findings.lint(
            f"stepsize {p.stepsize} is never reached", locate("stepsize"), expected=f"below max_iter {p.max_iter}"
        )
    for name in ("warmup_iter", "rampup_interval"):
        if getattr(p, name) >= p.max_iter > 0:
            expected = f"below max_iter {p.max_iter}"
            findings.lint("the warm-up does not end", locate(name), expected=expected, found=getattr(p, name))


def net(graph: Graph, reading: Reading, whole: bool, findings: Findings, decay: float | None = None) -> None:
    """Adds findings about a net. whole: the graph has all layers of the phase. decay: the solver's
    weight_decay; None without a solver."""
    locate = reading.locate
    for note in graph.notes:
        findings.lint(note, locate())
    for node in graph.nodes:
        if node.layer_index >= 0:
            _without_effect(node, findings)
        _labels(node, findings)
    for node in graph.feeds:
        _not_finite(node, findings)
        _pictures(node, findings)
    if not whole:
        return
    _undone(graph, reading, findings)
    if graph.losses:
        _unread(graph, reading, findings)
    if graph.phase == pb.TRAIN:
        _untrained(graph, reading, findings)
        if decay:
            _decay(graph, reading, findings)


def _without_effect(node: Node, findings: Findings) -> None:
    """Adds findings for fields that the layer does not read."""
    for one in without_effect(node.layer):
        findings.lint(one.what, one.where, remedy=one.remedy)


def _undone(graph: Graph, reading: Reading, findings: Findings) -> None:
    """One note for each type of layer that cannot work in place, at the first such layer. It costs memory only."""
    refused = set(compile(graph, CPU).refused_in_place)
    undone: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.name in refused:
            undone.setdefault(node.layer.spec.type, []).append(node)
    for kind, nodes in undone.items():
        what = f"{kind} cannot work in place, its bottom's numbers are still needed: {_names([n.name for n in nodes])}"
        where = reading.locate("layer", nodes[0].layer_index, "top", 0)
        remedy = "tops get memory of their own; give them different names to make that visible"
        findings.say("note", what, where, remedy=remedy)


def _names(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _unread(graph: Graph, reading: Reading, findings: Findings) -> None:
    weighted = {value for value, _ in graph.losses}
    for node in graph.nodes:
        for i, top in enumerate(node.tops):
            if (
                top.readers
                or top in weighted
                or top.name == AUTOMATIC
                or node.layer.loss
                or Described.of(node.layer.spec.type).logged
            ):
                continue
            phase = pb.Phase.Name(graph.phase)
            what = f'nobody reads top "{top.name}" of layer "{node.name}" in {phase}'
            where = reading.locate("layer", node.layer_index, "top", i)
            findings.lint(what, where, remedy="give it to a Silence layer, or drop it")


def _untrained(graph: Graph, reading: Reading, findings: Findings) -> None:
    if not any(n.backward for n in graph.nodes) and not graph.losses:
        return  # a deploy net, or one that only measures
    for node in graph.nodes:
        pairs = zip(node.params, node.layer.param_blobs, strict=True)
        wanted = any(p.wanted and not blob.statistic for p, blob in pairs)
        if wanted and not node.backward:
            what = (
                f'nothing trains the weights of layer "{node.name}" ({node.layer.spec.type}): no loss gets a '
                "gradient to it"
            )
            findings.lint(
                what, reading.locate("layer", node.layer_index), remedy="set param { lr_mult: 0 } if this is intended"
            )


def _decay(graph: Graph, reading: Reading, findings: Findings) -> None:
    """One note for each kind of parameter that should not decay, at the first such layer. Caffe's own nets do so."""
    spared: dict[str, list[Parameter]] = {}
    for one in graph.parameters:
        kind = one.node.layer.spec.type
        learns = one.lr_mult != 0 and one.node.backward and not one.blob.statistic
        if learns and one.decay_mult != 0:
            what = Described.of(kind).spared or ("biases" if len(one.blob.shape) == 1 and one.index == 1 else None)
            if what:
                spared.setdefault(what, []).append(one)
    for what, ones in spared.items():
        shown = _names([one.node.name for one in ones])
        where = reading.locate("layer", ones[0].node.layer_index, "param", ones[0].index)
        findings.say(
            "note", f"weight_decay pulls on the {what} of {shown}", where, remedy="param { decay_mult: 0 } spares them"
        )


def _labels(node: Node, findings: Findings) -> None:
    """Adds findings for labels in the data that are no class of the scores, and for classes without a label."""
    if not Compares.of(node.layer.spec.type).classes or len(node.bottoms) < 2:
        return
    value = node.bottoms[1]
    source = getattr(value.node.layer, "source", None)
    known = source is not None and not isinstance(source, Absent)
    values, whole = (findings.run(labels, source, value.top) if known else None) or Labels(np.empty(0), False)
    shape, axis = node.bottoms[0].shape, getattr(node.layer.p, "axis", 1)
    classes = shape[axis] if -len(shape) <= axis < len(shape) else math.prod(shape[1:])
    p = node.layer.p if isinstance(node.layer, Accuracy) else node.layer.spec.loss_param
    if p.HasField("ignore_label"):
        values = values[values != p.ignore_label]
    if not len(values):
        return
    where, name = node.layer.locate("bottom", 1), f'layer "{node.name}" ({node.layer.spec.type})'
    bad = values[(values < 0) | (values >= classes) | (values != np.floor(values))]
    if len(bad):
        what = f'{name}: a label in the data is no class of "{node.bottoms[0].name}"'
        expected, remedy = f"0 to {classes - 1}", "correct num_output, or the labels"
        findings.say("mistake", what, where, expected=expected, found=f"{bad[0]:g}", remedy=remedy)
    elif whole and values.max() + 1 < classes and node.layer.loss:  # the first of a sorted data set have few classes
        what = f'{name}: "{node.bottoms[0].name}" has {classes} classes'
        findings.lint(what, where, found=f"labels up to {values.max():g}")


def _not_finite(node: Node, findings: Findings) -> None:
    """Adds a finding for NaN and infinity among the first samples."""
    source = getattr(node.layer, "source", None)
    if source is None or isinstance(source, Absent):
        return
    if names := findings.run(source.not_finite, LOOKED):
        what, remedy = f'layer "{node.name}": the data hold NaN or infinity', "correct the data, or leave samples out"
        findings.lint(what, node.layer.locate(), found=_names(names), remedy=remedy)


def _pictures(node: Node, findings: Findings) -> None:
    """Adds findings for pictures whose opacity or depth is lost."""
    source = getattr(node.layer, "source", None)
    if source is None or isinstance(source, Absent):
        return
    for one in findings.run(source.proposals, PICTURES) or []:
        where, remedy = node.layer.locate("transform_param"), f"set {one.text} in transform_param"
        findings.lint(f'layer "{node.name}": {one.what}', where, remedy=remedy)


def test_size(graph: Graph, iterations: int, test: int, reading: Reading, findings: Findings) -> None:
    """Adds a finding if test_iter × batch is not the size of the test set."""
    for node, source in graph.sources:
        length = getattr(source, "length", None)
        if not length:
            continue
        batch = node.tops[0].shape[0]
        if iterations * batch == length:
            continue
        seen = (
            f"{iterations * batch} of the {length}"
            if iterations * batch < length
            else f"{iterations * batch}, though there are {length}"
        )
        kind, remedy = _test_remedy(iterations, batch, length)
        where = reading.locate("test_iter", test)
        findings.say(kind, f'a test sees {seen} samples of layer "{node.name}"', where, remedy=remedy)
        return


def _test_remedy(iterations: int, batch: int, length: int) -> tuple[str, str]:
    """(kind of finding, remedy): a divisor of the samples near the batch size, where there is one."""
    if length % batch == 0:
        return "lint", f"test_iter: {length // batch} sees each once"
    near = [size for size in range(-(-batch // 2), 2 * batch + 1) if length % size == 0]
    if near:
        best = min(near, key=lambda size: abs(math.log(size / batch)))
        return "lint", f"batch_size {best} and test_iter {length // best} would see each once"
    most = -(-length // batch)
    again = f"{most * batch - length} of them again, as in Caffe; caffelite test counts each once"
    if iterations == most:  # no better choice
        return "note", f"no batch size near {batch} divides {length}, so the last batch sees {again}"
    return "lint", f"test_iter: {most} sees each, and {again}"
