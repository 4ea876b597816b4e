"""Data that a layer type of a fork reads: its code does not run here, so a net has shapes of it at most."""

from typing import Any

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import Locator
from ..layers.data import Feed
from .tree import Tree

BASES = ("BaseDataLayer", "BasePrefetchingDataLayer", "InternalThread")


def reads_data(tree: Tree, class_name: str) -> bool:
    """Whether a class of a fork is a data layer: by what it derives from, or by its name where it needs no bottom."""
    if any(tree.derives(class_name, base) for base in BASES):
        return True
    return class_name.endswith("DataLayer") and not tree.needs_bottoms(class_name)


class ForkData(Feed):
    """Data of a type that a fork alone has; any shape."""

    field = "data_param"
    reads_images = True
    tops = (1, None)

    @classmethod
    def source_name(cls, spec: pb.LayerParameter) -> str:
        return f"data of the type {spec.type}"  # no file, so shapes are enough for a check

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Any:
        what = f'layer "{layer.name}": {layer.type} reads data by code of the fork that does not run here'
        shapes = " ".join(f"-shape {top}=3x224x224" for top in layer.top)
        remedy = f"train with a data layer of Caffe's or a Python layer in its place; to check the rest: {shapes}"
        raise locate.error(what, "type", remedy=remedy)


def batch_size(message: Message) -> int:
    """The first batch size in the messages of a layer; 1 where they have none."""
    for field, value in message.ListFields():
        if field.message_type and hasattr(value, "batch_size"):
            return int(value.batch_size) or 1
    return 1
