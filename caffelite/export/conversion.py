"""Weights of other programs, found and converted by layer."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import CaffeliteError, did_you_mean
from ..layers.batch_norm import BatchNorm
from ..layers.scale_bias import Scale
from ..net.nodes import Graph, Node
from . import onnx_weights
from .tensor_files import SortedTensors, Tensors, pieces

STATISTICS = ("running_mean", "running_var")
IGNORED = ("num_batches_tracked",)
# Caffe's names of ResNet's layers, as in github.com/KaimingHe/deep-residual-networks, and torchvision's and timm's.
_RESNET = re.compile(r"res(\d)(?:([a-z])|b(\d+))_branch(1|2([abc]))")


@dataclass(frozen=True)
class Unit:
    """What one module holds: a layer with weights, or a BatchNorm with the Scale behind it."""

    node: Node
    scale: Node | None = None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def normalizes(self) -> bool:
        return isinstance(self.node.layer, BatchNorm)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight, or of the statistics."""
        return tuple(self.node.layer.param_blobs[0].shape)

    @property
    def signature(self) -> tuple:
        return self.normalizes, self.shape


@dataclass
class Module:
    """The tensors of one prefix in a state_dict."""

    name: str
    tensors: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def normalizes(self) -> bool:
        return STATISTICS[0] in self.tensors

    @property
    def signature(self) -> tuple:
        first = self.tensors[STATISTICS[0]] if self.normalizes else self.tensors.get("weight", np.empty(0))
        return self.normalizes, first.shape


@dataclass(frozen=True)
class Converted:
    """``blobs`` by layer; ``pairs``: of layer and module; ``unused``: modules that no layer takes."""

    blobs: dict[str, list[np.ndarray]]
    pairs: list[tuple[str, str]]
    unused: list[str]


def convert(graph: Graph, tensors: Tensors, chosen: Mapping[str, str]) -> Converted:
    """The blobs of a net's layers from a state_dict.

    Modules belong to layers by ``chosen`` (layer: module), else by equal names, by torchvision's names of ResNet's
    layers, or by shape: the k-th module of a shape to the k-th layer of it, where no two such layers run beside each
    other, so that any order of modules gives the same, and where the order of the modules is known. Errors:
    CaffeliteError for a layer without a module, shapes that differ, or layers or modules that could be exchanged.
    """
    units, modules = _units(graph), _modules(tensors)
    if isinstance(tensors, onnx_weights.OnnxTensors) and not any(module.normalizes for module in modules.values()):
        _refuse_folded(units)
    for layer, module in chosen.items():
        _known(layer, [unit.name for unit in units], "layer")
        _known(module, modules, "module")
    names = dict(chosen)
    for rule in (_equal_name, _resnet_name):
        rest = [unit for unit in units if unit.name not in names]
        by_rule = {unit.name: rule(unit) for unit in rest}
        if rest and all(name in modules for name in by_rule.values()):
            names |= by_rule
    names |= _by_shape(
        [unit for unit in units if unit.name not in names],
        [module for name, module in modules.items() if name not in names.values()],
        numbered=isinstance(tensors, SortedTensors),
    )
    blobs: dict[str, list[np.ndarray]] = {}
    uses: Mapping[str, onnx_weights.Use] = {}
    if isinstance(tensors, onnx_weights.OnnxTensors):
        tensors.check_left()
        uses = tensors.uses
    for unit in units:
        if use := uses.get(names[unit.name]):
            onnx_weights.check(unit.node, use)
        blobs |= _blobs(unit, modules[names[unit.name]])
    unused = [name for name in modules if name not in names.values()]
    return Converted(blobs, [(unit.name, names[unit.name]) for unit in units], unused)


def _refuse_folded(units: Sequence[Unit]) -> None:
    """Errors: layers of BatchNorm, where an ONNX file has none."""
    layers = [unit.name for unit in units if unit.normalizes]
    if layers:
        raise CaffeliteError(
            f"the ONNX file has no BatchNorm: the exporter has folded it into the weights before it; the net has "
            f"{', '.join(layers[:4])}{' and others' * (len(layers) > 4)}",
            remedy="take the net without BatchNorm and Scale, and with bias_term: true before them; or export with "
            "do_constant_folding=False and training=TrainingMode.PRESERVE; or import the .pth",
        )


def _known(name: str, names: Sequence[str] | Mapping[str, Module], what: str) -> None:
    if name not in names:
        raise CaffeliteError(f'no {what} with weights is called "{name}"', remedy=did_you_mean(name, names))


def _units(graph: Graph) -> list[Unit]:
    units, scales = [], set()
    for node in graph.nodes:
        if not node.params or node in scales:
            continue
        scale = None
        if isinstance(node.layer, BatchNorm):
            readers = [reader for reader, _ in node.tops[0].readers]
            if len(readers) == 1 and isinstance(readers[0].layer, Scale) and len(readers[0].bottoms) == 1:
                scale = readers[0]
                scales.add(scale)
        units.append(Unit(node, scale))
    return units


def _modules(tensors: Tensors) -> dict[str, Module]:
    modules: dict[str, Module] = {}
    for name, values in tensors.items():
        prefix, _, kind = name.rpartition(".")
        if kind not in IGNORED:
            modules.setdefault(prefix, Module(prefix)).tensors[kind] = values
    return modules


def _equal_name(unit: Unit) -> str:
    return unit.name.replace("/", ".")


def _resnet_name(unit: Unit) -> str:
    name = re.sub(r"^(bn|scale)(?=\d)", "res", unit.name)
    if match := _RESNET.fullmatch(name):
        stage, letter, number, branch, step = match.groups()
        block = ord(letter) - ord("a") if letter else int(number)
        prefix = f"layer{int(stage) - 1}.{block}."
        if branch == "1":
            return prefix + f"downsample.{int(unit.normalizes)}"
        return prefix + ("bn" if unit.normalizes else "conv") + str("abc".index(step) + 1)
    return {"conv1": "conv1", "bn_conv1": "bn1", "fc1000": "fc"}.get(unit.name, unit.name)


def _by_shape(units: Sequence[Unit], modules: Sequence[Module], numbered: bool) -> dict[str, str]:
    """numbered: only numbers in the names tell the order of the modules."""
    layers_of, modules_of = defaultdict(list), defaultdict(list)
    for unit in units:
        layers_of[unit.signature].append(unit)
    for module in modules:
        modules_of[module.signature].append(module)
    names: dict[str, str] = {}
    for signature, layers in layers_of.items():
        candidates, other = modules_of[signature], _other_form(signature)
        if not candidates and other not in layers_of:
            candidates = modules_of[other]
        if len(candidates) != len(layers):
            raise _mismatch(layers, candidates, modules)
        if pair := _exchangeable(layers):
            what = f'layers "{pair[0].name}" and "{pair[1].name}" run beside each other with weights of one shape'
            raise CaffeliteError(what, remedy="say which module each takes: -map LAYER=MODULE")
        if numbered and (apart := _unordered([module.name for module in candidates])):
            what = f'the order of the modules "{apart[0]}" and "{apart[1]}" is not in this file'
            raise CaffeliteError(what, remedy="say which module each layer takes: -map LAYER=MODULE")
        names |= {layer.name: module.name for layer, module in zip(layers, candidates, strict=True)}
    return names


def _mismatch(layers: Sequence[Unit], candidates: Sequence[Module], modules: Sequence[Module]) -> CaffeliteError:
    kind = "statistics" if layers[0].normalizes else "weights"
    counts = f"the net has {len(layers)} layers, the file {len(candidates)} modules"
    others = ", ".join(f"{module.name} {list(module.signature[1])}" for module in modules[:8])
    return CaffeliteError(
        f"{kind} of shape {list(layers[0].shape)}: {counts}",
        expected=f"a module for each of {', '.join(unit.name for unit in layers)}",
        found=", ".join(module.name for module in candidates) or others or "no tensors",
        remedy="use the same net, or say which module a layer takes: -map LAYER=MODULE",
    )


def _exchangeable(units: Sequence[Unit]) -> tuple[Unit, Unit] | None:
    """The first two neighbors of which the second does not follow from the first."""
    for before, after in zip(units, units[1:], strict=False):
        if not _follows(before.node, after.node):
            return before, after
    return None


def _other_form(signature: tuple) -> tuple:
    """That of the inner product that a 1×1 convolution is, and of the convolution that an inner product is."""
    normalizes, shape = signature
    return normalizes, shape[:2] if shape[2:] == (1, 1) else (*shape, 1, 1) if len(shape) == 2 else shape


def _unordered(names: Sequence[str]) -> tuple[str, str] | None:
    """The first two neighbors of which no number tells the order."""
    for one, other in zip(names, names[1:], strict=False):
        first = next((pair for pair in zip(pieces(one), pieces(other), strict=False) if pair[0] != pair[1]), ("", ""))
        if not all(piece.isdecimal() for piece in first):
            return one, other
    return None


def _follows(before: Node, after: Node) -> bool:
    """Whether a path leads from a layer to another."""
    reached = {before}
    waiting = [before]
    while waiting:
        for top in waiting.pop().tops:
            for reader, _ in top.readers:
                if reader is after:
                    return True
                if reader not in reached:
                    reached.add(reader)
                    waiting.append(reader)
    return False


def _blobs(unit: Unit, module: Module) -> dict[str, list[np.ndarray]]:
    if unit.normalizes != module.normalizes:
        kind = "BatchNorm" if unit.normalizes else "a layer without statistics"
        raise CaffeliteError(f'layer "{unit.name}" is {kind}, module {module.name} is not')
    if not unit.normalizes:
        return {unit.name: _weights(unit.node, module)}
    mean, variance = (module.tensors[name] for name in STATISTICS)
    blobs = {unit.name: [mean, variance, np.ones(1, np.float32)]}
    _check_shapes(unit.node, module, blobs[unit.name])
    if unit.scale:
        return {**blobs, unit.scale.name: _weights(unit.scale, module)}
    if not (_is(module, "weight", 1) and _is(module, "bias", 0)):
        what = f'layer "{unit.name}" has no Scale with the weight and bias of module {module.name} behind it'
        raise unit.node.layer.locate.error(what, remedy="add a Scale with bias_term: true")
    return blobs


def _is(module: Module, kind: str, value: float) -> bool:
    return kind not in module.tensors or bool((module.tensors[kind] == value).all())


def _weights(node: Node, module: Module) -> list[np.ndarray]:
    """Weight and bias; a module without a bias has zeros."""
    blobs = [module.tensors[kind] for kind in ("weight", "bias") if kind in module.tensors]
    specs = node.layer.param_blobs
    if len(blobs) == 1 and len(specs) == 2:
        blobs.append(np.zeros(specs[1].shape, np.float32))
    if len(blobs) == 2 and len(specs) == 1 and _is(module, "bias", 0):
        del blobs[1]
    if node.layer.spec.type == "InnerProduct" and node.layer.p.transpose and blobs and blobs[0].ndim == 2:
        blobs[0] = blobs[0].T
    others = [kind for kind in module.tensors if kind not in ("weight", "bias", *STATISTICS)]
    if len(blobs) != len(specs) or others:
        what = f'layer "{node.name}" ({node.layer.spec.type}) does not fit module {module.name}'
        raise node.layer.locate.error(what, expected=f"{len(specs)} parameters", found=", ".join(module.tensors))
    if _other_form((False, tuple(specs[0].shape)))[1] == blobs[0].shape:
        blobs[0] = blobs[0].reshape(specs[0].shape)
    _check_shapes(node, module, blobs)
    return blobs


def _check_shapes(node: Node, module: Module, blobs: Sequence[np.ndarray]) -> None:
    for spec, blob in zip(node.layer.param_blobs, blobs, strict=True):
        if tuple(spec.shape) != blob.shape:
            what = f'a parameter of layer "{node.name}" has not the shape that module {module.name} has'
            raise node.layer.locate.error(what, expected=list(spec.shape), found=list(blob.shape))
