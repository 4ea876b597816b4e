"""Draws random nets from the registry of layers: types, fields, wiring, shapes and rates. A seed makes the same net."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import numpy as np
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from net_contracts import Contract, Draw, bits, contracts, normal

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError, Locator, Where
from caffelite.fork.option import Fork
from caffelite.layers import REGISTRY, Layer, Shape, create
from caffelite.layers.base.division import OutputDivision
from caffelite.layers.base.fillers import FILLERS
from caffelite.layers.base.image_layout import ImageLayout
from caffelite.layers.loss import SoftmaxWithLoss
from caffelite.training.optim.updates import RULES

ATTEMPTS, REPAIRS = 96, 12  # draws of a layer until one is valid; those that change one field of the draw before
MOST_VALUES = 6000  # of a blob: a net takes milliseconds
CHANNELS = (1, 2, 3, 4, 16, 16, 20)  # 16 fill a vector of oneDNN's and of the kernels for tiles
INTEGERS = (1, 1, 2, 2, 3, 4, 0, 5, 16, -1)
FLOATS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, -0.5, 0.1)
SETS_FIELDS = (0.1, 0.3, 0.3, 0.6)  # how likely a field is set, drawn for each layer
DRAWN = {
    k: c
    for k, c in sorted(REGISTRY.items())
    if c.bottoms[0] >= 1 and c.tops != (0, 0) and not getattr(c, "writes", False)
}


@dataclass(frozen=True)
class Bottom:
    """A blob that a layer reads; values: how they are drawn, where the blob is new."""

    name: str
    shape: Shape
    values: Draw = normal


@dataclass
class RandomNet:
    """message: a net whose data are Input layers. values: how those of some are drawn; the others' are normal."""

    seed: int
    message: pb.NetParameter = field(default_factory=pb.NetParameter)
    solver: pb.SolverParameter = field(default_factory=pb.SolverParameter)
    values: dict[str, Draw] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Shape]:
        return {
            layer.top[0]: tuple(layer.input_param.shape[0].dim) for layer in self.message.layer if layer.type == "Input"
        }

    def arrays(self, which: int = 0) -> dict[str, np.ndarray]:
        """Values of the inputs, float32 numbers in float64; which: others for each number."""
        rng = np.random.default_rng([self.seed, which])
        found = {}
        for name, shape in self.inputs.items():
            found[name] = self.values.get(name, normal)(rng, shape).astype(np.float32).astype(np.float64)
        return found

    def without(self, name: str) -> RandomNet:
        """The net without a layer and all that needs its tops."""
        found = RandomNet(self.seed, pb.NetParameter(), self.solver, self.values)
        found.message.CopyFrom(self.message)
        del found.message.layer[:]
        gone: set[str] = set()
        for layer in self.message.layer:
            if layer.name == name or gone & set(layer.bottom):
                gone |= set(layer.top) - set(layer.bottom)
            else:
                found.message.layer.add().CopyFrom(layer)
        read = {blob for layer in found.message.layer for blob in layer.bottom}
        used = [layer for layer in found.message.layer if layer.type != "Input" or layer.top[0] in read]
        del found.message.layer[:]
        found.message.layer.extend(used)
        return found


def alike(classes: int) -> Draw:
    """A distribution over classes, whichever axis they have."""
    return lambda rng, shape: np.full(shape, 1 / classes)


def _weight(cls: type[Layer]) -> int:
    """How often a type is drawn: most for layers about whose kernels and layouts a device decides."""
    if issubclass(cls, OutputDivision) or (issubclass(cls, ImageLayout) and cls.follows_layout and not cls.in_place):
        return 8
    return 3 if cls.in_place else 1


class Found(Locator):
    """Remembers the path that was asked for last: where a mistake is."""

    def __init__(self, path: list[tuple] | None = None, prefix: tuple = ()):
        super().__init__("<net>")
        self._paths, self._start = [()] if path is None else path, prefix

    def __call__(self, *path: str | int) -> Where:
        self._paths[0] = self._start + path
        return super().__call__(*path)

    def at(self, *path: str | int) -> Found:
        return Found(self._paths, self._start + path)

    @property
    def path(self) -> tuple:
        return self._paths[0]


class Drawing:
    """Draws one net, layer by layer; a layer that its type refuses is drawn again. fork: whose types and fields alone
    the net has."""

    def __init__(self, seed: int, attempt: int = 0, fork: Fork | None = None):
        self.fork = fork
        self.rng = random.Random(f"{seed} {attempt}")
        self.net = RandomNet(seed)
        self.shapes: dict[str, Shape] = {}  # of the blobs that later layers may read
        sides = self.rng.choice(((5, 4), (6, 6), (8, 7), (1, 1), (3, 9), (2, 4, 3)))
        self.image = (self.rng.choice((1, 2, 2, 4)), self.rng.choice(CHANNELS), *sides)

    def draw(self) -> RandomNet:
        rng = self.rng
        self.add_input(Bottom("data", self.image))
        self.shapes["data"] = self.image
        drawn = {kind: cls for kind, cls in DRAWN.items() if self.fork is None or self.fork.source_name(kind)}
        kinds = [kind for kind, cls in drawn.items() if not cls.loss]
        weights = [_weight(DRAWN[kind]) for kind in kinds]
        for i in range(rng.randint(2, 9)):
            any(self.add(kind, f"l{i}") for kind in rng.choices(kinds, weights, k=4))
        losses = [kind for kind, cls in drawn.items() if cls.loss]
        for i in range(rng.randint(1, 3)):
            any(self.add(kind, f"loss{i}") for kind in [*rng.choices(losses, k=4), "EuclideanLoss"])
        self.net.message.force_backward = rng.random() < 0.2
        self.draw_solver()
        return self.net

    def add(self, kind: str, name: str) -> bool:
        """Adds a layer of this type; False where no draw was valid."""
        cls = DRAWN[kind]
        if contract := contracts(self.rng).get(kind):
            return self.add_by_contract(kind, name, contract)
        for attempt in range(ATTEMPTS):
            if attempt % REPAIRS == 0:
                spec = pb.LayerParameter(name=name, type=kind)
                likely = self.rng.choice(SETS_FIELDS)
                self.draw_fields(spec, cls, likely)
                bottoms = self.draw_bottoms(cls, name)
            low, high = cls.tops
            count = self.rng.choice((low, self.rng.randint(low, high or low + 2), high or len(bottoms)))
            del spec.bottom[:], spec.top[:]
            spec.bottom.extend(bottom.name for bottom in bottoms)
            spec.top.extend(f"{name}_{i}" if i else name for i in range(count))
            found = Found()
            try:
                layer = create(spec, pb.TRAIN, found)
                shapes = layer.shapes([bottom.shape for bottom in bottoms])
            except CaffeliteError:
                self.repair(spec, cls, found.path)
                if found.path[:1] == ("bottom",) or self.rng.random() < 0.2:
                    bottoms = self.draw_bottoms(cls, name)
                continue
            if len(shapes) == count and all(0 < math.prod(shape) <= MOST_VALUES for shape in shapes):
                self.accept(spec, layer, shapes, bottoms)
                return True
        return False

    def add_by_contract(self, kind: str, name: str, contract: Contract) -> bool:
        """Normal bottoms are blobs of a layer with weights, or new."""
        spec = pb.LayerParameter(name=name, type=kind)
        text_format.Merge(contract.fields, spec)
        bottoms = []
        for i, (shape, values) in enumerate(contract.bottoms):
            bottom = Bottom(f"{name}_in{i}", shape, values)
            if values is normal and self.rng.random() < 0.5:
                self.add_input(bottom)
                bottom = Bottom(f"{name}_scaled{i}", shape)
                self.net.message.layer.add(name=bottom.name, type="Scale", bottom=[f"{name}_in{i}"], top=[bottom.name])
                self.shapes[bottom.name] = shape
            bottoms.append(bottom)
        spec.bottom.extend(bottom.name for bottom in bottoms)
        spec.top.extend(f"{name}_{i}" if i else name for i in range(contract.tops))
        layer = create(spec, pb.TRAIN, Found())
        self.accept(spec, layer, layer.shapes([bottom.shape for bottom in bottoms]), bottoms)
        return True

    def repair(self, spec: pb.LayerParameter, cls: type[Layer], path: tuple[str | int, ...]) -> None:
        """Draws the field again that a mistake names, or any where it names none."""
        if not cls.field or path[:1] in (("bottom",), ("top",)):
            return
        message = getattr(spec, cls.field)
        fields = message.DESCRIPTOR.fields_by_name
        named = fields.get(str(path[1])) if len(path) > 1 else None
        item = named or self.rng.choice(list(fields.values()))
        message.ClearField(item.name)
        if self.rng.random() < 0.8:
            self.draw_field(message, item, 0.5)

    def accept(self, spec: pb.LayerParameter, layer: Layer, shapes: list[Shape], bottoms: list[Bottom]) -> None:
        rng = self.rng
        if isinstance(layer, SoftmaxWithLoss) and layer.soft:
            bottoms[1] = replace(bottoms[1], values=alike(layer.classes))
        for bottom in bottoms:
            if bottom.name not in self.shapes:
                self.add_input(bottom)
        if layer.in_place and rng.random() < 0.5 and spec.bottom[0] not in self.net.inputs:
            spec.top[0] = spec.bottom[0]
        self.draw_rates(spec, layer)
        if layer.differentiable and rng.random() < (0.4 if layer.loss else 0.1):
            spec.loss_weight.extend([rng.choice((0.5, 2.0, 0.125)), *[0.0] * (len(spec.top) - 1)])
        if rng.random() < 0.06:
            wanted = [i not in layer.constant_bottoms and rng.random() < 0.5 for i in range(len(bottoms))]
            spec.propagate_down.extend(wanted)
        self.net.message.layer.add().CopyFrom(spec)
        for i, (top, shape) in enumerate(zip(spec.top, shapes, strict=True)):
            if layer.differentiable and not layer.loss and i not in layer.constant_tops:
                self.shapes[top] = shape

    def add_input(self, bottom: Bottom) -> None:
        layer = self.net.message.layer.add(name=bottom.name, type="Input", top=[bottom.name])
        layer.input_param.shape.add(dim=bottom.shape)
        if bottom.values is not normal:
            self.net.values[bottom.name] = bottom.values

    def draw_bottoms(self, cls: type[Layer], name: str) -> list[Bottom]:
        """Blobs of the net, or new ones with a shape like the first one's."""
        rng, names = self.rng, list(self.shapes)
        low, high = cls.bottoms
        found: list[Bottom] = []
        for i in range(rng.randint(low, min(high or low + 2, low + 2))):
            label = i in cls.constant_bottoms or (i > 0 and not cls.differentiable)
            if not label and rng.random() < (0.6 if i else 0.85):
                like = [n for n in names if not i or self.shapes[n] == found[0].shape or rng.random() < 0.2]
                chosen = rng.choice((like or names)[-5:])
                found.append(Bottom(chosen, self.shapes[chosen]))
            else:
                shape = self.near(found[0].shape if found else self.image)
                found.append(Bottom(f"{name}_in{i}", shape, bits if label and rng.random() < 0.8 else normal))
        return found

    def near(self, shape: Shape) -> Shape:
        """The shape, its first axes, the shape without an axis, with another size of one,
        or with one more."""
        axis = self.rng.randrange(len(shape)) if shape else 0
        cut, size = self.rng.randint(0, len(shape)), self.rng.choice((1, 2, 3, 4, 5))
        changed = (*shape[:axis], size, *shape[axis + 1 :])
        ones = (*shape[:1], *[1] * (len(shape) - 1))
        others = (shape[:1], shape[:cut], shape[:axis] + shape[axis + 1 :], changed, ones, (*shape, size))
        return self.rng.choice((shape, shape, *others, (1, *shape[:cut])))

    def draw_fields(self, spec: pb.LayerParameter, cls: type[Layer], likely: float) -> None:
        if cls.field:
            self.draw_message(getattr(spec, cls.field), likely)
        if cls.loss and self.rng.random() < 0.4:
            self.draw_message(spec.loss_param, likely)

    def draw_message(self, message: Message, likely: float) -> None:
        message.SetInParent()
        if isinstance(message, pb.FillerParameter):
            message.type = self.rng.choice(sorted(FILLERS))
            return
        for item in message.DESCRIPTOR.fields:
            if self.rng.random() < likely:
                self.draw_field(message, item, likely)

    def draw_field(self, message: Message, item: FieldDescriptor, likely: float) -> None:
        """Sets a field by its kind; texts, which name files and types, stay unset."""
        if item.type == FieldDescriptor.TYPE_STRING or item.name == "engine" or not self.has(message, item):
            return
        if item.message_type:
            child = getattr(message, item.name)
            self.draw_message(child.add() if item.is_repeated else child, likely)
        elif item.is_repeated:
            count = self.rng.choice((1, 1, 2, 3))
            getattr(message, item.name).extend(self.draw_number(item) for _ in range(count))
        else:
            setattr(message, item.name, self.draw_number(item))

    def has(self, message: Message, item: FieldDescriptor) -> bool:
        """Whether the fork has the field, with all of its values."""
        if self.fork is None:
            return True
        name = self.fork.schema.name_there(message.DESCRIPTOR.name)
        theirs = self.fork.schema.message_class(name).DESCRIPTOR.fields_by_name.get(item.name) if name else None
        values = item.enum_type.values_by_name.keys() if item.enum_type else set()
        return theirs is not None and values <= (theirs.enum_type.values_by_name.keys() if theirs.enum_type else set())

    def draw_number(self, item: FieldDescriptor) -> float:
        if item.type == FieldDescriptor.TYPE_BOOL:
            return self.rng.random() < 0.5
        if item.enum_type:
            return self.rng.choice(item.enum_type.values).number
        if item.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
            return self.rng.choice(FLOATS)
        signed = item.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
        return self.rng.choice(INTEGERS if signed else [i for i in INTEGERS if i >= 0])

    def draw_rates(self, spec: pb.LayerParameter, layer: Layer) -> None:
        """Multipliers of some parameters; some are shared with all of their shape that are shared too."""
        rng = self.rng
        shared = rng.random() < 0.3 and not any(blob.statistic for blob in layer.param_blobs)
        for i, blob in enumerate(layer.param_blobs if shared or rng.random() < 0.3 else ()):
            param = spec.param.add()
            if shared:
                param.name = f"{spec.type}_{i}_" + "x".join(map(str, blob.shape))
            if not blob.statistic and not shared:
                param.lr_mult, param.decay_mult = rng.choice((0, 0.5, 1, 2)), rng.choice((0, 1, 1))

    def draw_solver(self) -> None:
        rng, solver = self.rng, self.net.solver
        solver.type = rng.choice(sorted(RULES))
        solver.base_lr, solver.lr_policy, solver.max_iter = rng.choice((0.01, 0.1)), "fixed", 2
        solver.momentum = rng.choice((0.5, 0.9)) if "momentum" in RULES[solver.type].constants else 0
        solver.weight_decay = rng.choice((0, 0.1))
        solver.clip_gradients = rng.choice((-1, 0.5))
        solver.iter_size = rng.choice((1, 2, 3))
        solver.random_seed = rng.randrange(1000)
