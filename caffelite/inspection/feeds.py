"""Finds the shapes of a net's data, also without the data: from the user, the data, or the fields of the data layer."""

import os
import re
from collections.abc import Iterable, Iterator, Set
from copy import deepcopy

from .. import caffelite_pb2 as pb, data, prototxt
from ..data.draws import key
from ..data.mixup import mixes
from ..data.sources import MOST_VALUES
from ..data.transforms import Transform, read_mean
from ..errors import CaffeliteError, Locator
from ..inputs import windows_path
from ..layers import REGISTRY, Shape, batch_messages
from ..layers.base.facets import Compares
from ..layers.base.feeding import feeding_type, is_input, make_input

# Data sets by their name, less _train_lmdb and the like: the shape of a sample
KNOWN = {
    "mnist": (1, 28, 28),
    "digits": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "siamese": (2, 28, 28),
    "mnist_siamese": (2, 28, 28),
}
OBJECTS = 8  # of an image
FIELDS = "its fields"  # why a size was guessed
MULTIPLE = 32  # of a side that a backbone halves five times
LABEL_TOPS = ("label", "labels")
IMAGE_SIZES = (
    (3, 224, 224),
    (1, 28, 28),
    (3, 32, 32),
    (3, 360, 480),
    (2, 28, 28),
    (1, 224, 224),
    (2, 224, 224),
    (6, 224, 224),
    (3, 512, 512),
    (3, 12, 12),
    (3, 24, 24),
    (3, 48, 48),
)
ROWS = ((10,), (1,), (), (2,), (4,), (16,), (64,), (784,), (1, 28, 28), (3, 32, 32))


class Absent:
    """A source without data: it has shapes only."""

    length = None

    def __init__(self, shapes: list[Shape]):
        self.shapes = shapes

    def close(self) -> None:
        pass


class Feeds:
    """Opens the sources of a graph: ``graph.build(..., open_source=Feeds(shapes))``.

    shapes: sample shapes by top, without the batch; under "" the shape of every data layer's first top. guesses: the
    tops whose shape in ``shapes`` is a guess. labels: shapes that layers without data have where the user gives none,
    as their readers need them. ``missing`` collects the errors of missing data, ``guessed`` the shapes that were used
    instead: (layer, top, shape, why), ``unshaped`` the tops of unknown shape: (layer, top), ``assumed`` the labels that
    were taken as one number a sample, as a guess, or as the fields of their layer say; unknown: those of them whose
    readers get no shape, so that none is a mistake by a guess.
    """

    def __init__(
        self,
        shapes: dict[str, Shape] | None = None,
        labels: dict[str, Shape] | None = None,
        guesses: Set[str] = frozenset(),
        unknown: Set[str] = frozenset(),
    ):
        self.unknown = unknown
        self.shapes = shapes or {}
        self.labels = labels or {}
        self.guesses = guesses
        self.without_data = True  # shapes are enough
        self.missing: list[CaffeliteError] = []
        self.guessed: list[tuple[str, str, Shape, str]] = []
        self.unshaped: list[tuple[str, str]] = []
        self.assumed: list[str] = []

    def __call__(self, spec: pb.LayerParameter, phase: int, locate: Locator):
        param = getattr(spec, REGISTRY[spec.type].field)
        kind = feeding_type(REGISTRY[spec.type])
        source = kind.source_name(spec)
        batch = getattr(param, "batch_size", 1)
        known_shapes = [self._given_shape(spec, i) for i in range(len(spec.top))]
        known = [shape for shape in known_shapes if shape is not None]
        if batch and len(known) == len(known_shapes):
            return Absent([_batched(spec, i, batch, shape) for i, shape in enumerate(known)])
        opened = spec
        if mean := self._missing_mean(spec, locate):
            opened = deepcopy(spec)
            opened.transform_param.ClearField("mean_file")
            self.missing.append(mean)
        by_fields = kind.shapes_without_data(spec)
        if kind.may_lack_source and not source:
            return self._by_fields(spec, by_fields)
        try:
            return data.open_source(opened, phase, locate, 0)
        except CaffeliteError as error:
            if not batch or not source or os.path.exists(prototxt.resolve(source, locate)):
                raise
            if by_fields:
                self.missing.append(error)
                return self._by_fields(spec, by_fields)
            return self._stand_in(opened, phase, locate, batch, known_shapes, error)

    def _by_fields(self, spec: pb.LayerParameter, shapes: list[Shape]) -> Absent:
        """A source of the shapes that follow from the layer's fields, except those that the user gave."""
        explicit = [self._explicit(spec, i) for i in range(len(shapes))]
        if explicit[0] is None:
            self.guessed.append((spec.name, spec.top[0], shapes[0][1:], FIELDS))
        self.assumed += spec.top[2:]
        known = [self.labels.get(top) if e is None else e for top, e in zip(spec.top, explicit, strict=False)]
        return Absent([s if e is None else (s[0], *e) for s, e in zip(shapes, known, strict=True)])

    def _explicit(self, spec: pb.LayerParameter, i: int) -> Shape | None:
        """The shape of a top that the user gave, or a guess in its stead."""
        top = spec.top[i]
        if top in self.guesses:
            self.assumed.append(top)
            if top in self.labels:
                return self.labels[top]
        return self.shapes.get(top, self.shapes.get("") if i == 0 else None)

    def _given_shape(self, spec: pb.LayerParameter, i: int) -> Shape | None:
        """The shape of a top that the user gave, or that follows from those of the layer's other tops."""
        if (explicit := self._explicit(spec, i)) is not None:
            return explicit
        top = spec.top[i]
        if i and feeding_type(REGISTRY[spec.type]).labels_pixels:
            images = self._given_shape(spec, 0)
            return images and (
                feeding_type(REGISTRY[spec.type]).pixel_labels(spec, images[1:]) if i == 1 else (1, 1, 2)
            )
        label = i >= 1 and feeding_type(REGISTRY[spec.type]).reads_images or top in LABEL_TOPS
        if spec.type == "HDF5Data" and top in self.labels:
            return self.labels[top] if "" in self.shapes or set(spec.top) & set(self.shapes) else None
        if not label or not (set(spec.top) | {""}) & set(self.shapes):
            return None
        self.assumed.append(top)
        return feeding_type(REGISTRY[spec.type]).label_shape(spec) if i == 1 else ()

    def _missing_mean(self, spec: pb.LayerParameter, locate: Locator) -> CaffeliteError | None:
        name, at = spec.transform_param.mean_file, locate.at("transform_param")
        if not name or os.path.exists(prototxt.resolve(name, at)):
            return None
        remedy = windows_path(name) or "correct the path"
        return at.error(f'mean_file "{name}" does not exist', "mean_file", remedy=remedy)

    def _stand_in(
        self,
        spec: pb.LayerParameter,
        phase: int,
        locate: Locator,
        batch: int,
        known: list[Shape | None],
        error: CaffeliteError,
    ) -> Absent:
        self.missing.append(error)
        shapes: list[Shape] = []
        unknown = None
        for i, top in enumerate(spec.top):
            shape = known[i]
            images = feeding_type(REGISTRY[spec.type]).reads_images
            if shape is None and i == 1 and mixes(spec, phase):
                shape = (spec.transform_param.mixup_param.classes,)
            elif shape is None and top in self.labels:
                shape = self.labels[top]
                self.guessed.append((spec.name, top, shape, "the loss that reads it"))
            elif shape is None and i and feeding_type(REGISTRY[spec.type]).labels_pixels:
                shape = feeding_type(REGISTRY[spec.type]).pixel_labels(spec, shapes[0][2:]) if i == 1 else (1, 1, 2)
            elif shape is None and (i >= 1 if images else top in LABEL_TOPS):
                shape = feeding_type(REGISTRY[spec.type]).label_shape(spec) if i == 1 else ()
                self.assumed.append(top)
            elif shape is None and images:
                transform, at = spec.transform_param, locate.at("transform_param")
                # A mean image has the size of images before the crop.
                mean = read_mean(transform.mean_file, None, at).shape if transform.mean_file else None
                shape, why = _image(spec, mean)
                if shape:
                    channels, height, width = mean or shape
                    shape = Transform(transform, phase, (channels, height, width), at, key(0, spec.name)).shape
                    self.guessed.append((spec.name, top, shape, why))
            if shape is None:
                self.assumed.append(top)
                what = f'layer "{spec.name}": the shape of "{top}" is not known without its data'
                remedy = f"give it, as in -shape {top}=3x227x227"
                self.unshaped.append((spec.name, top))
                if unknown is None:
                    unknown = locate.error(what, "top", i, remedy=remedy)
                    self.missing.append(unknown)
            shapes.append(_batched(spec, i, batch, shape or ()))
        if unknown is not None:
            raise unknown
        return Absent(shapes)


def stand_ins(net: pb.NetParameter, feeds: Feeds) -> Iterator[dict[str, Shape]]:
    """Candidate shapes for the tops of unknown shape that ``feeds`` met, the likeliest first: images if the net has
    layers for images, else rows.

    Labels are included: a label may be one number, or one for each pixel of an image. If all shapes are known, images
    whose size follows from a layer's fields get sides that are multiples of ``MULTIPLE``.
    """
    unshaped = feeds.unshaped
    if not unshaped:
        guessed = {top: shape for _, top, shape, why in feeds.guessed if why == FIELDS and len(shape) == 3}
        if guessed:
            yield {t: (c, *(max(1, side // MULTIPLE) * MULTIPLE for side in size)) for t, (c, *size) in guessed.items()}
        return
    names = {name for name, _ in unshaped}
    tops = (top for spec in net.layer if spec.name in names for top in spec.top)
    labels = dict.fromkeys(top for top in tops if top in LABEL_TOPS and top not in feeds.labels)
    images = any(spec.type in REGISTRY and REGISTRY[spec.type].needs_images for spec in net.layer)
    channels = _sliced_channels(net)
    for shape in (*IMAGE_SIZES, *_under_kernels(net)) if images else ROWS:
        shapes = {top: (channels[top], *shape[1:]) if top in channels else shape for _, top in unshaped}
        for label in ((), (1, *shape[1:])) if images and labels else ((),):
            yield dict.fromkeys(labels, label) | shapes


def _sliced_channels(net: pb.NetParameter) -> dict[str, int]:
    """The channels of blobs that a Slice divides: its last top is taken to be as large as the one before."""
    channels = {}
    for spec in net.layer:
        points = [0, *spec.slice_param.slice_point]
        axis = spec.slice_param.slice_dim if spec.slice_param.HasField("slice_dim") else spec.slice_param.axis
        if spec.type == "Slice" and spec.bottom and len(points) > 1 and axis == 1:
            channels[spec.bottom[0]] = 2 * points[-1] - points[-2]
    return channels


def _under_kernels(net: pb.NetParameter) -> list[Shape]:
    """Images as wide or as high as the first kernel, where it is too large for the others: rows of features."""
    p = next((spec.convolution_param for spec in net.layer if spec.type == "Convolution"), pb.ConvolutionParameter())
    side = max((size for shape in IMAGE_SIZES for size in shape), default=0)
    if max(p.kernel_h, p.kernel_w) <= side:
        return []
    height, width = (kernel if kernel > side else 150 for kernel in (p.kernel_h, p.kernel_w))
    return [(channels, height, width) for channels in (1, 3)]


def _batched(spec: pb.LayerParameter, top: int, batch: int, shape: Shape) -> Shape:
    """The shape of a top of a batch; of objects, as if no image had more than ``OBJECTS``."""
    objects = top == 1 and feeding_type(REGISTRY[spec.type]).reads_objects
    return (1, 1, batch * OBJECTS, 8) if objects else (batch, *shape)


def _image(spec: pb.LayerParameter, mean: Shape | None) -> tuple[Shape | None, str]:
    """(C, H, W) of a layer's images, as far as the layer and its mean image tell, and how."""
    t, param = spec.transform_param, getattr(spec, REGISTRY[spec.type].field)
    known = KNOWN.get(re.sub(r"_(train|test|val)\w*", "", os.path.basename(os.path.normpath(param.source)).lower()))
    if t.force_gray or getattr(param, "is_color", True) is False:
        channels = 1
    elif len(t.mean_value) > 1:
        channels = len(t.mean_value)
    else:
        channels = known[0] if known and not t.force_color else 3
    sizes = [
        (t.crop_h or t.crop_height or t.crop_size, t.crop_w or t.crop_width or t.crop_size, "crop_size"),
        (getattr(param, "crop_height", 0), getattr(param, "crop_width", 0), "crop_height"),
    ]
    sizes += [
        (getattr(param, "crop_size", 0),) * 2 + ("crop_size",),
        (getattr(param, "new_height", 0), getattr(param, "new_width", 0), "new_height"),
        *((one.height, one.width, "resize_param") for one in t.resize_param[:1]),
    ]
    for height, width, why in sizes:
        if height and width:
            return (channels, height, width), why
    if mean:
        return mean, "mean_file"
    return (known, "the name of its source") if known else (None, "")


def rebatched(net: pb.NetParameter, batch: int) -> pb.NetParameter:
    """The net with another batch size in every layer that feeds it."""
    new = deepcopy(net)
    for spec in new.layer:
        for name in batch_messages():
            if spec.HasField(name):
                getattr(spec, name).batch_size = batch
        for name in ("input_param", "dummy_data_param"):
            for shape in getattr(spec, name).shape:
                if shape.dim:
                    shape.dim[0] = batch
        for i in range(len(spec.dummy_data_param.num)):
            spec.dummy_data_param.num[i] = batch
    return new


def with_shapes(net: pb.NetParameter, shapes: dict[str, Shape]) -> pb.NetParameter:
    """The net with these sample shapes of its Input layers, by top; under "" that of the first top. The batch stays."""
    first = next((spec for spec in net.layer if is_input(spec) and spec.top), None)
    named = {first.top[0]: shapes[""]} if first is not None and "" in shapes else {}
    named |= {top: shape for top, shape in shapes.items() if top}
    if not any(is_input(spec) and named.keys() & set(spec.top) for spec in net.layer):
        return net
    new = deepcopy(net)
    for spec in new.layer:
        if is_input(spec) and named.keys() & set(spec.top):
            old = [list(shape.dim) for shape in spec.input_param.shape] or [[1]]
            old = old * len(spec.top) if len(old) == 1 else old
            dims = [
                [*(dim[:1] or [1]), *named[top]] if top in named else dim
                for top, dim in zip(spec.top, old, strict=False)
            ]
            del spec.input_param.shape[:]
            spec.input_param.shape.extend(pb.BlobShape(dim=dim) for dim in dims)
    return new


def with_inputs(net: pb.NetParameter, shapes: dict[str, Shape]) -> pb.NetParameter:
    """The net ``with_shapes``, and with inputs in place of what feeds it by Python, by the code of a fork or by a type
    that is not known here, where ``shapes`` has all its tops."""
    net = with_shapes(net, shapes)
    strange = [
        s
        for s in net.layer
        if not s.bottom and s.top and set(s.top) <= {*shapes}
        if s.type == "Python" or s.HasField("fork") or s.type not in REGISTRY
    ]
    if not strange:
        return net
    new = deepcopy(net)
    for spec in new.layer:
        if spec in strange:
            batch = spec.data_param.batch_size or 1
            make_input(spec, ((batch, *shapes[top]) for top in spec.top))
            spec.ClearField("fork")
    return new


def parse_shapes(texts: tuple[str, ...]) -> dict[str, Shape]:
    """NAME=3x227x227, or 3x227x227 for the first top of every data layer; × and commas separate too; NAME= is a single
    number."""
    shapes = {}
    for text in texts:
        name, _, dims = text.rpartition("=")
        try:
            shape = tuple(int(d) for d in dims.replace("×", "x").replace(",", "x").split("x") if d)
        except ValueError:
            shape = (0,)
        if min(shape, default=1) < 1 or max(shape, default=1) > MOST_VALUES:
            expected = "TOP=3x227x227, the shape of a sample without the batch"
            raise CaffeliteError("-shape cannot be read", expected=expected, found=f'"{text}"') from None
        shapes[name] = shape
    return shapes


def uncertain(net: pb.NetParameter, tops: Iterable[str]) -> list[str]:
    """The labels among ``tops``, all of absent data, whose shape the data decides. One that a Slice divides is of a
    program whose samples have several labels, though its layer reads one."""
    certain = {
        spec.top[1]
        for spec in net.layer
        if len(spec.top) > 1 and spec.type in REGISTRY and feeding_type(REGISTRY[spec.type]).one_number_labels(spec)
    }
    divided = {spec.bottom[0] for spec in net.layer if spec.type == "Slice" and spec.bottom}
    return [top for top in dict.fromkeys(tops) if top not in certain or top in divided]


def label_shapes(net: pb.NetParameter) -> dict[str, Shape]:
    """The sample shapes of tops of HDF5Data layers, by top, as far as a loss that reads a top or a part of it decides
    them: as many values as the scores have."""
    tops = dict.fromkeys(top for spec in net.layer if spec.type == "HDF5Data" for top in spec.top)
    sizes = {top: _size(net, top, 0) for top in tops}
    return {top: (size,) for top, size in sizes.items() if size}


def _size(net: pb.NetParameter, blob: str, start: int) -> int:
    """The number of values of a sample that the layers from ``start`` on need in a blob; 0 if they do not decide it."""
    for i, spec in enumerate(net.layer[start:], start):
        if blob not in spec.bottom:
            continue
        if spec.type == "Slice" and spec.top and _axis(spec.slice_param) == 1:
            sizes = [_size(net, top, i + 1) or 1 for top in spec.top]
            points = spec.slice_param.slice_point
            return points[-1] + sizes[-1] if points else len(sizes) * max(sizes)
        compares = Compares.of(spec.type)
        as_many = compares.values or compares.probability and not compares.classes
        if as_many and spec.bottom[0] != blob and (size := _outputs(net, spec.bottom[0], i)):
            return size
    return 0


def _axis(p: pb.SliceParameter) -> int:
    return p.slice_dim if p.HasField("slice_dim") else p.axis


def _outputs(net: pb.NetParameter, blob: str, end: int) -> int:
    """The num_output of the layer before ``end`` that computes a blob of rows, through layers with one bottom; 0: none,
    or images, whose sides are not known."""
    for i in range(end - 1, -1, -1):
        spec = net.layer[i]
        if blob not in spec.top:
            continue
        field = REGISTRY[spec.type].field if spec.type in REGISTRY else ""
        size: int = getattr(getattr(spec, field), "num_output", 0) if field else 0
        if size and REGISTRY[spec.type].needs_images:
            return 0
        return size or (_outputs(net, spec.bottom[0], i) if len(spec.bottom) == 1 else 0)
    return 0
