"""What layers are asked that get their tops from outside: from a source, or from the user."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import Locator
from .config import Shape
from .layer import Layer


class Scheduled:
    """A layer that takes numbers from the host which depend on the iteration."""

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        """Before a forward pass, writes what it takes from the host into the device's input buffer, as pass
        ``which``."""


class ScheduledNumber(Scheduled, Layer):
    """A layer that takes one number from the host, ``scheduled_number``; ``build`` calls ``need_number``, then
    ``number.copy_to`` fills an array with it."""

    number: Any = None  # in the input buffer; stays when the layer is built again

    def scheduled_number(self, iteration: int) -> float:
        """The number of the forward pass of an iteration."""
        raise NotImplementedError

    def need_number(self) -> None:
        self.number = self.number or self.context.input_buffer.field((1,))

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        self.number.set(which, np.full(1, self.scheduled_number(iteration), self.dev.dtype))


class Feeding(Scheduled):
    """The answers of a layer whose tops do not come from outside; those that ``feed`` derive from it. Ask
    ``feeding(layer)``, or ``feeding_type`` about a type:

    - ``reads_source``: the tops come from a ``source``;
    - ``reads_images``: of images, then labels, or where ``reads_objects`` objects; ``labels_pixels``: the labels are of
      pixels; ``transforms_images``: by transform_param, as the input of a deploy net may; ``converts_pixels``: the
      device makes the first top of them; ``stores_images``: one by one, so that tools can show them; ``batched``: its
      message has a batch_size; ``mixes_samples``: its transform_param may have mixup_param;
    - ``may_lack_source``: without one the layer has shapes only;
    - ``filled_once``: the tops stay filled from one pass to the next; ``sets_shapes``: the user may set their shapes.
    """

    reads_source = reads_images = reads_objects = labels_pixels = batched = filled_once = sets_shapes = False
    may_lack_source = False
    transforms_images = stores_images = converts_pixels = mixes_samples = False
    field: str
    source: Any = None  # of a layer that reads one, once it is open

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        """Of a layer with a source: the tops' shapes where the message alone decides them; none where the data does."""
        return []

    @classmethod
    def source_name(cls, spec: pb.LayerParameter) -> str:
        """Of a layer with a source: what it reads, by its message; empty where that names none."""
        return getattr(getattr(spec, cls.field), "source", "")

    @staticmethod
    def reads_camera(spec: pb.LayerParameter) -> bool:
        """Of a layer with a source: whether that is no file, but a camera."""
        return False

    @staticmethod
    def label_map(spec: pb.LayerParameter) -> str:
        """Of a layer that ``reads_objects``: the file with the names of their classes; empty where it names none."""
        return ""

    @staticmethod
    def image_transform(spec: pb.LayerParameter) -> pb.TransformationParameter:
        """Of a layer that ``transforms_images``: what it does to them, as transform_param; a copy."""
        return copy.deepcopy(spec.transform_param)

    @staticmethod
    def pixel_labels(spec: pb.LayerParameter, size: Shape) -> Shape:
        """Of a layer that ``labels_pixels``: the shape of the labels of an image of this height and width."""
        return (1, *size)

    @staticmethod
    def label_shape(spec: pb.LayerParameter) -> Shape:
        """Of a layer that ``reads_images``: that of the labels of an image."""
        return ()

    @staticmethod
    def joined(layer: pb.LayerParameter, locate: Locator, train: pb.LayerParameter, at: Locator) -> pb.LayerParameter:
        """Of a layer with a source in TEST: its message, with what it takes from the layer ``train`` of TRAIN with the
        same tops, so that labels mean the same. locate, at: of the two."""
        return layer

    @staticmethod
    def one_number_labels(spec: pb.LayerParameter) -> bool:
        """Of a layer that ``reads_images``: whether the label of an image is one number, whatever the data."""
        return False

    def set_shapes(self, shapes: list[Shape]) -> None:
        """Gives the tops other shapes, where the layer ``sets_shapes``; ``build`` follows."""

    def feeds_ahead(self) -> bool:
        """Whether several passes can be fed before the first of them runs."""
        return True

    def signature(self) -> tuple:
        """What forward depends on, where that may change, besides its arrays and the input buffer."""
        return ()


NOTHING = Feeding()


def feeding(layer: Layer) -> Feeding:
    return layer if isinstance(layer, Feeding) else NOTHING


def feeding_type(kind: type[Layer]) -> type[Feeding]:
    return kind if issubclass(kind, Feeding) else Feeding


def is_input(spec: pb.LayerParameter) -> bool:
    """Whether the user fills the tops of a layer with this message, as in deploy nets."""
    return spec.type == "Input"


def make_input(spec: pb.LayerParameter, shapes: Iterable[Sequence[int]]) -> None:
    """Makes the layer of a message one whose tops the user fills, of these shapes."""
    spec.type = "Input"
    spec.input_param.CopyFrom(pb.InputParameter(shape=[pb.BlobShape(dim=shape) for shape in shapes]))
