"""Converts messages in old dialects of Caffe to the modern form. This happens when a file is read, so that no other
code handles them.

The first Caffe wrote ``layers { layer { type: "conv" kernelsize: 3 } }`` (V0), the second ``layers { type: CONVOLUTION
blobs_lr: 1 }`` (V1), the third ``layer { type: "Convolution" param { lr_mult: 1 } }``. Pure functions from messages to
messages, with the positions of their fields; the rules are Caffe's.
"""

from typing import Any, NamedTuple

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import Collector, Locator, Where, did_you_mean
from . import families, schema
from .dialects import (
    LARGEST,
    LEARNT,
    SIDED,
    SIDES,
    SOLVER_TYPES,
    SPELLED_OTHERWISE,
    TRANSFORM,
    TRANSFORMED,
    V0_FIELDS,
    V0_TRANSFORM,
    V0_TYPES,
    V1_FIELDS,
    V1_PARAM,
    aligned_offsets,
    fused_types,
    modern_holes,
    modern_type,
    modern_volumes,
    padded_types,
    top_shapes,
    v0_message,
)


class Modern(NamedTuple):
    """A message in the modern form, the places of its fields in the file, the old dialects that were found, and notes
    about what was ignored."""

    message: Any
    locate: Locator
    dialects: list[str]
    notes: list[tuple[Where, str]]


def upgrade_net(net: pb.NetParameter, locate: Locator, weights_only: bool = False) -> Modern:
    """The net in the modern form; the same object if nothing in it is old.

    weights_only: a caffemodel, in which ``input`` without a shape is ignored. Errors: both layer and layers, inputs
    without shapes, padding that is not followed by a convolution or pooling.
    """
    old = _Upgrade(net, locate)
    old.layers()
    old.inputs(weights_only)
    old.settings()
    old.sides()
    old.fused()
    old.mistakes.raise_any()
    if old.net == net:
        return Modern(net, locate, [], old.notes)
    return Modern(old.net, old.locate, old.dialects, old.notes)


def upgrade_solver(solver: pb.SolverParameter, locate: Locator) -> Modern:
    """The solver, and the nets within it, in the modern form; the same object if nothing in it is old."""
    new, dialects, notes = pb.SolverParameter(), [], []
    new.CopyFrom(solver)
    if new.HasField("solver_type"):
        if new.HasField("type"):
            old_type, remedy = f'"type" at {locate("type")}', "drop solver_type, the old one"
            what = "both solver_type and type"
            raise locate.error(what, "solver_type", expected="one of them", found=old_type, remedy=remedy)
        new.type = SOLVER_TYPES[new.solver_type]
        new.ClearField("solver_type")
        locate = locate.moved({("solver_type",): ("type",)})
        dialects.append("solver_type")
    nets: list[tuple[tuple[str | int, ...], pb.NetParameter]] = [
        ((f,), getattr(new, f)) for f in ("net_param", "train_net_param") if new.HasField(f)
    ]
    nets += [(("test_net_param", i), net) for i, net in enumerate(new.test_net_param)]
    for path, net in nets:
        modern = upgrade_net(net, locate.at(*path))
        if modern.dialects:
            net.CopyFrom(modern.message)
            locate = Locator(modern.locate.file, modern.locate.positions)
            dialects += [d for d in modern.dialects if d not in dialects]
        notes += modern.notes
    return Modern(new if dialects else solver, locate, dialects, notes)


class _Upgrade:
    """The conversion of one net. ``moves``: old path → new path of each field with a new name, parent or index."""

    def __init__(self, net: pb.NetParameter, locate: Locator):
        self.old, self.locate = net, locate
        self.net = pb.NetParameter()
        self.net.CopyFrom(net)
        self.moves: dict[tuple, tuple] = {}
        self.dialects: list[str] = []
        self.notes: list[tuple[Where, str]] = []
        self.mistakes = Collector()

    def add_dialect(self, dialect: str) -> None:
        if dialect not in self.dialects:
            self.dialects.append(dialect)

    def mistake(self, what: str, *path: str | int, **more: Any) -> None:
        self.mistakes.add(self.locate.error(what, *path, **more))

    def note(self, what: str, *path: str | int) -> None:
        self.notes.append((self.locate(*path), what))

    def set_field(self, value: Any, target: Message, field: str, old: tuple, new: tuple) -> None:
        """Sets target.field to a value, or appends the value if the field is repeated. old: the value's path in the
        file; new: the path of ``target``."""
        self.moves[old] = (*new, field)
        now = getattr(target, field)
        if hasattr(now, "append"):
            self.moves[old] += (len(now),)
            now.append(value)
        elif isinstance(now, Message):
            now.CopyFrom(value)
        else:
            setattr(target, field, value)

    # layers → layer

    def layers(self) -> None:
        old = self.old.layers
        if not old:
            return
        if self.old.layer:
            what, expected, remedy = 'both "layers" and "layer"', "the one or the other", "write all of them as layer"
            other = f'"layer" at {self.locate("layer", 0)}'
            self.mistake(what, "layers", 0, expected=expected, found=other, remedy=remedy)
            self.mistakes.raise_any()
        self.add_dialect("V0 layers" if any(layer.HasField("layer") for layer in old) else "V1 layers")
        padding = self.padding()
        self.net.ClearField("layers")
        for i, layer in enumerate(old):
            if i in padding:
                self.moves["layers", i] = "layers", i  # so that it takes no index of the layers that are kept
            else:
                self.moves["layers", i] = "layer", len(self.net.layer)
                self.layer(i, layer, self.net.layer.add())
        for (i, j), source in self.padded.items():
            new = self.net.layer[self.moves["layers", i][1]]
            new.bottom[j] = old[source].bottom[0]
            message = v0_message(old[i].layer.type)
            settings = getattr(new, message)
            settings.ClearField("pad")
            path = (*self.moves["layers", i], message)
            self.set_field(old[source].layer.pad, settings, "pad", ("layers", source, "layer", "pad"), path)
        for i, layer in enumerate(old):
            if layer.type == pb.V1LayerParameter.CROP and len(layer.bottom) == 2:
                self.crop(i)
        self.mistakes.raise_any()
        self.moves["layers",] = ("layer",)
        self.move()

    def padding(self) -> set[int]:
        """Numbers of V0's padding layers; ``padded``: (layer, bottom) → the padding layer before it."""
        maker: dict[str, int] = {}
        self.padded: dict[tuple[int, int], int] = {}
        layers = {i for i, layer in enumerate(self.old.layers) if layer.layer.type == "padding"}
        for i, layer in enumerate(self.old.layers):
            for j, bottom in enumerate(layer.bottom):
                source = maker.get(bottom)
                if source not in layers:
                    continue
                if layer.layer.type not in ("conv", "pool") or len(layer.bottom) != 1:
                    what = f'layer "{layer.layer.name}" reads a padding layer'
                    expected = "a conv or pool layer with one bottom"
                    description = f'"{layer.layer.type}" with {len(layer.bottom)}'
                    self.mistake(what, "layers", i, "bottom", j, expected=expected, found=description)
                elif len(self.old.layers[source].bottom) != 1 or len(self.old.layers[source].top) != 1:
                    self.mistake("a padding layer has one bottom and one top", "layers", source)
                else:
                    self.padded[i, j] = source
            maker.update(dict.fromkeys(layer.top, i))
        self.mistakes.raise_any()
        return layers

    def layer(self, i: int, old: pb.V1LayerParameter, new: pb.LayerParameter) -> None:
        at, to = ("layers", i), self.moves["layers", i]
        if old.HasField("layer"):
            self.v0(old.layer, new, (*at, "layer"), to)
        for descriptor, value in old.ListFields():
            name = descriptor.name
            if name in V1_PARAM:
                self.param(value, V1_PARAM[name], new, (*at, name), to)
            elif name == "type":
                new.type = modern_type(pb.V1LayerParameter.LayerType.Name(value))
            elif name == "bottom" or name == "top" or name != "layer" and hasattr(value, "extend"):
                getattr(new, name).extend(value)
            elif name != "layer":
                self.set_field(value, new, V1_FIELDS.get(name, name), (*at, name), to)
        if old.HasField("fork") and not new.type:
            new.type = old.fork.type
        self.transform(new, at, to)

    def crop(self, i: int) -> None:
        """The offset of an old Crop, which its layer computes."""
        self.offsets(self.moves["layers", i][1], "CROP", "layers", i)

    def offsets(self, number: int, kind: str, *at: str | int) -> None:
        """Sets the offset of layer ``number``, a Crop that aligns its bottoms. at: of the layer in the file."""
        try:
            offsets = aligned_offsets(self.net.layer, number)
        except ValueError as mistake:
            what = f'layer "{self.net.layer[number].name}" ({kind}): {mistake}'
            self.mistake(what, *at, remedy='write a layer of type "Crop" with crop_param { offset: N }')
        else:
            self.net.layer[number].crop_param.offset.extend(offsets)

    def param(self, values: Any, field: str, new: pb.LayerParameter, at: tuple, to: tuple) -> None:
        for k, value in enumerate(values):
            while len(new.param) <= k:
                new.param.add()
            self.set_field(value, new.param[k], field, (*at, k), (*to, "param", k))

    def v0(self, old: pb.V0LayerParameter, new: pb.LayerParameter, at: tuple, to: tuple) -> None:
        word = old.type
        if word not in V0_TYPES:
            if word or old.HasField("type"):
                self.mistake(f'unknown V0 layer type "{word}"', *at, "type", remedy=did_you_mean(word, V0_TYPES))
            return
        new.type, message = modern_type(V0_TYPES[word]), v0_message(word)
        self.moves[(*at, "type")] = (*to, "type")
        for descriptor, value in old.ListFields():
            name = descriptor.name
            here = (*at, name)
            now, types = V0_FIELDS.get(name, (None, ()))
            if name == "type":
                continue
            elif name in V1_PARAM:
                self.param(value, V1_PARAM[name], new, here, to)
            elif name in V0_TRANSFORM:
                self.set_field(value, new.transform_param, V0_TRANSFORM[name], here, (*to, "transform_param"))
            elif name == "name" or name == "hdf5_output_param" and word == "hdf5_output":
                self.set_field(value, new, name, here, to)
            elif name == "blobs":
                new.blobs.extend(value)
            elif word in types:
                self.set_field(value, getattr(new, message), now or name, here, (*to, message))
            else:
                self.note(f'"{name}" means nothing in a V0 layer of type "{word}" and is ignored', *here)

    def transform(self, new: pb.LayerParameter, at: tuple, to: tuple) -> None:
        """V1's data layers had the fields of transform_param among their own."""
        for message in filter(new.HasField, TRANSFORMED):
            settings = getattr(new, message)
            for name in filter(settings.HasField, TRANSFORM):
                value, target = getattr(settings, name), (*to, "transform_param")
                self.set_field(value, new.transform_param, name, (*at, message, name), target)
                settings.ClearField(name)

    # input → a layer

    def inputs(self, weights_only: bool) -> None:
        """``input`` with input_shape, or with four input_dim each, becomes a layer before all others.

        Without a shape it is dropped where a layer makes the blob, as Caffe does.
        """
        names, shapes, dims = list(self.net.input), list(self.net.input_shape), list(self.net.input_dim)
        for field in ("input", "input_shape", "input_dim"):
            self.net.ClearField(field)
        if not names:
            if shapes or dims:
                self.note("a shape without an input is ignored", "input_shape" if shapes else "input_dim")
            return
        if not shapes and not dims and weights_only:
            return
        made = {top for layer in self.net.layer for top in layer.top if top not in layer.bottom}
        if not shapes and not dims and made.issuperset(names):
            self.note("an input without a shape is ignored: a layer makes its blob", "input")
            return
        if not shapes:
            shapes = [pb.BlobShape(dim=dims[i : i + 4]) for i in range(0, len(dims), 4)]
            if len(dims) != 4 * len(names):
                what, field = "input_dim does not fit the inputs", "input_dim" if dims else "input"
                expected, remedy = f"{4 * len(names)}: N, C, H and W of each input", "or write input_shape { dim: ... }"
                self.mistake(what, field, expected=expected, found=len(dims) or "none", remedy=remedy)
        elif len(shapes) != len(names):
            what, expected = "input_shape does not fit the inputs", f"{len(names)}, one an input"
            self.mistake(what, "input_shape", expected=expected, found=len(shapes))
        self.mistakes.raise_any()
        self.add_dialect("input fields")
        layers = list(self.net.layer)
        self.net.ClearField("layer")
        self.net.layer.add(name="input", type="Input", top=names, input_param=pb.InputParameter(shape=shapes))
        self.net.layer.extend(layers)
        self.moves = {("layer", i): ("layer", i + 1) for i in range(len(layers))}
        self.moves |= {("input",): ("layer", 0), ("input_dim",): ("layer", 0, "input_param")}
        for i in range(len(names)):
            shape = ("layer", 0, "input_param", "shape", i)
            self.moves |= {("input", i): ("layer", 0, "top", i), ("input_shape", i): shape}
            self.moves |= {("input_dim", 4 * i + d): (*shape, "dim", d) for d in range(4)}
        self.move()

    # settings of modern layers that are older than others

    def settings(self) -> None:
        types, parts = frozenset(layer.type for layer in self.net.layer), self.net.bn_stats_batch_size
        if self.net.HasField("bn_stats_batch_size"):
            self.add_dialect("bn_stats_batch_size")
            self.net.ClearField("bn_stats_batch_size")
        for i, layer in enumerate(self.net.layer):
            if layer.type == "BatchNorm":
                self.batch_norm(layer)
                if parts:
                    layer.batch_norm_param.stats_batch_size = parts
                    self.moves["layer", i, "batch_norm_param", "stats_batch_size"] = ("bn_stats_batch_size",)
            if layer.type not in schema.users and not layer.HasField("fork"):
                self.fork(i, layer, types)
            self.rates(i, layer)
            self.of_2014(i, layer)
            for message in filter(layer.HasField, TRANSFORMED):
                for name in filter(getattr(layer, message).HasField, TRANSFORM):
                    note = f"{name} in {message} is ignored, as in Caffe; it belongs in transform_param"
                    self.note(note, "layer", i, message, name)
        self.move()

    def fork(self, i: int, layer: pb.LayerParameter, types: frozenset[str]) -> None:
        """A type that forks name otherwise than the layer here. types: those of the net."""
        if layer.type == "AutoCrop" and len(layer.bottom) == 2:
            self.add_dialect("AutoCrop")
            layer.type = "Crop"
            self.offsets(i, "AutoCrop", "layer", i)
        if layer.type == "Scalar":
            self.add_dialect("Scalar")
            layer.type, layer.scale_param.axis = "Scale", layer.scalar_param.axis
            layer.ClearField("scalar_param")
            self.moves["layer", i, "scalar_param"] = ("layer", i, "scale_param")
        if layer.type in SPELLED_OTHERWISE:
            self.add_dialect(layer.type)
            layer.type = SPELLED_OTHERWISE[layer.type]
        if layer.type == "ReLU" and (layer.relu_param.HasField("maximum") or layer.relu_param.HasField("minimum")):
            self.bounded(i, layer)
        if layer.type == "CoSData":
            self.spark(i, layer)
        for change in families.changes().get(layer.type, ()):
            self.apply(i, change(layer, types))
        for changes in (modern_volumes(layer), modern_holes(layer)):
            self.apply(i, changes)

    def bounded(self, i: int, layer: pb.LayerParameter) -> None:
        """A ReLU between bounds."""
        p, at = layer.relu_param, ("layer", i, "relu_param")
        low, high = max(p.minimum, 0.0), p.maximum if p.maximum > 0 else LARGEST
        for name in ("maximum", "minimum"):
            p.ClearField(name)
            self.moves[(*at, name)] = ("layer", i, "clip_param", name[:3])
        if low == 0 and high == LARGEST:
            return
        if p.negative_slope:
            what = f'layer "{layer.name}" (ReLU): bounds and negative_slope'
            self.mistake(what, *at, "negative_slope", remedy="keep one of them")
            return
        self.add_dialect("bounds of a ReLU")
        high = min(high, 6.0) if p.relu6 else high
        layer.type = "Clip"
        layer.ClearField("relu_param")
        layer.clip_param.min, layer.clip_param.max = low, max(low, high)
        self.moves[at] = "layer", i, "clip_param"

    def spark(self, i: int, layer: pb.LayerParameter) -> None:
        """The data of CaffeOnSpark come from the caller."""
        try:
            shapes = top_shapes(layer)
        except ValueError as mistake:
            self.mistake(f'layer "{layer.name}" (CoSData): {mistake}', "layer", i, "cos_data_param")
            return
        self.add_dialect("CoSData")
        layer.type = "Input"
        layer.input_param.CopyFrom(pb.InputParameter(shape=shapes))
        layer.ClearField("cos_data_param")
        self.moves["layer", i, "cos_data_param"] = ("layer", i, "input_param")

    def rates(self, i: int, layer: pb.LayerParameter) -> None:
        """Those of Caffe con Troll, one number a parameter blob."""
        for name in ("blobs_lr", "weight_decay"):
            if values := list(getattr(layer, name)):
                self.add_dialect(f"{name} in layer")
                self.param(values, V1_PARAM[name], layer, ("layer", i, name), ("layer", i))
                layer.ClearField(name)

    def of_2014(self, i: int, layer: pb.LayerParameter) -> None:
        """transform_param within the message of a data layer, and the first name of rounding down."""
        for message in filter(layer.HasField, TRANSFORMED):
            settings = getattr(layer, message)
            if settings.HasField("transform_param"):
                self.add_dialect(f"transform_param in {message}")
                layer.transform_param.MergeFrom(settings.transform_param)
                settings.ClearField("transform_param")
                self.moves["layer", i, message, "transform_param"] = "layer", i, "transform_param"
        if layer.pooling_param.HasField("round_below"):
            self.add_dialect("round_below of pooling_param")
            p = layer.pooling_param
            if p.round_below:
                p.round_mode = p.FLOOR
            p.ClearField("round_below")
            self.moves["layer", i, "pooling_param", "round_below"] = "layer", i, "pooling_param", "round_mode"

    def apply(self, i: int, changes: families.Changes) -> None:
        """Records what became of layer ``i``."""
        for dialect in changes.dialects:
            self.add_dialect(dialect)
        for old, new in changes.moves.items():
            self.moves["layer", i, *old] = "layer", i, *new
        for what, path, details in changes.mistakes:
            self.mistake(what, "layer", i, *path, **details)
        for note, path in changes.notes:
            self.note(note, "layer", i, *path)

    def batch_norm(self, layer: pb.LayerParameter) -> None:
        """Sets the rates of its statistics to 0, which the first versions of the layer did not read: where three params
        have rates or one is written, and, as in NVCaffe, where it also has learnable parameters."""
        learns = any(layer.batch_norm_param.HasField(field) for field in LEARNT)
        written = any(p.HasField("lr_mult") for p in layer.param[:3])
        if (learns or written or len(layer.param) == 3) and any(p.lr_mult for p in layer.param[:3]):
            self.add_dialect("BatchNorm with rates")
            for p in layer.param[:3]:
                p.lr_mult = p.decay_mult = 0

    def sides(self) -> None:
        """pad_l and its like become pad_h and pad_w; where the sides differ, a layer before or after a convolution. A
        Pooling has them itself: its windows and the positions of its maxima are those of the image."""
        holders, padded = {}, padded_types()
        for i, layer in enumerate(self.net.layer):
            for field in (d.name for d, _ in layer.ListFields() if d.message_type and d.message_type.name in SIDED):
                pads = [getattr(getattr(layer, field), side) for side in SIDES]
                if field == "pooling3d_param":
                    pads[0] = 0  # the layer itself speaks of its pad_l, along the frames
                if any(pads) and padded.get(layer.type) != field:
                    what = f'layer "{layer.name}" ({layer.type}) has pads by side'
                    named = next(side for side, pad in zip(SIDES, pads, strict=True) if pad)
                    self.mistake(what, "layer", i, field, named, expected=f"a {' or '.join(padded)}")
                elif any(pads) and not (layer.type == "Pooling" and (pads[0] != pads[1] or pads[2] != pads[3])):
                    holders[i] = field, pads
        if not holders:
            return
        self.add_dialect("pads by side")
        layers = list(self.net.layer)
        self.net.ClearField("layer")
        self.moves = {}
        for i, old in enumerate(layers):
            new, pad = self.pad_sides(i, old, *holders[i]) if i in holders else (old, None)
            first = pad if pad and new.type != "Deconvolution" else None
            self.moves["layer", i] = "layer", len(self.net.layer) + (first is not None)
            for made in (first, new, None if first else pad):
                if made is not None:
                    self.net.layer.add().CopyFrom(made)
        self.move()

    def pad_sides(
        self, i: int, old: pb.LayerParameter, field: str, pads: list[int]
    ) -> tuple[pb.LayerParameter, pb.LayerParameter | None]:
        """The layer without its pads by side, and the Padding that has them, if they differ."""
        new = pb.LayerParameter()
        new.CopyFrom(old)
        settings, (left, right, top, bottom) = getattr(new, field), pads
        for side in SIDES:
            settings.ClearField(side)
        if settings.HasField("pad_h") or settings.HasField("pad_w") or settings.pad:
            self.mistake("both pad and pads by side", "layer", i, field, SIDES[0], remedy="drop the one or the other")
        elif left == right and top == bottom:
            settings.pad_h, settings.pad_w = top, left
        elif len(old.bottom) == len(old.top) == 1:
            return new, self.pad_layer(new, pads)
        else:
            what = "pads that differ by side need one bottom and one top"
            self.mistake(what, "layer", i, field, SIDES[0])
        return new, None

    @staticmethod
    def pad_layer(layer: pb.LayerParameter, pads: list[int]) -> pb.LayerParameter:
        """The Padding before a convolution, or after a Deconvolution, of whose top it cuts the pads off."""
        name, spreads = f"{layer.name}/pad", layer.type == "Deconvolution"
        made = pb.LayerParameter(name=name, type="Padding", include=layer.include, exclude=layer.exclude)
        for side, pad in zip(SIDES, pads, strict=True):
            setattr(made.padding_param, side, -pad if spreads else pad)
        made.bottom.append(name if spreads else layer.bottom[0])
        made.top.append(layer.top[0] if spreads else name)
        (layer.top if spreads else layer.bottom)[0] = name
        return made

    def fused(self) -> None:
        """``relu: true`` in a layer, or OpenCL Caffe's ``fuse_type``, becomes a ReLU layer after it, in place."""
        holders, types = {}, fused_types()
        for i, layer in enumerate(self.net.layer):
            field = types.get(layer.type)
            if field and (getattr(layer, field).relu or getattr(getattr(layer, field), "fuse_type", 0)):
                holders[i] = getattr(layer, field)
        if not holders:
            return
        self.add_dialect("relu within a layer")
        layers = list(self.net.layer)
        self.net.ClearField("layer")
        self.moves = {}
        for i, old in enumerate(layers):
            self.moves["layer", i] = "layer", len(self.net.layer)
            new = self.net.layer.add()
            new.CopyFrom(old)
            if i not in holders:
                continue
            at, settings = ("layer", i, types[old.type]), getattr(new, types[old.type])
            relu = self.net.layer.add(name=f"{old.name}/relu", type="ReLU", include=old.include, exclude=old.exclude)
            relu.bottom.extend(old.top[:1])
            relu.top.extend(old.top[:1])
            to = "layer", len(self.net.layer) - 1
            self.moves[(*at, "relu")] = self.moves[(*at, "fuse_type")] = to
            if "negative_slope" in settings.DESCRIPTOR.fields_by_name and settings.HasField("negative_slope"):
                paths = (*at, "negative_slope"), (*to, "relu_param")
                self.set_field(settings.negative_slope, relu.relu_param, "negative_slope", *paths)
                settings.ClearField("negative_slope")
            settings.ClearField("relu")
            if "fuse_type" in settings.DESCRIPTOR.fields_by_name:
                settings.ClearField("fuse_type")
        self.move()

    def move(self) -> None:
        self.locate = self.locate.moved(self.moves)
        self.moves = {}
