"""What a file with a layer of one's own imports: ``from caffelite.extending import ...`` (docs/extending.md)."""

from .data import Source
from .data.sampled import DataLayer
from .devices import ops
from .devices.formula import Formula
from .errors import CaffeliteError
from .layers.base import require
from .layers.base.arrays import ArrayLayer, filler, finite_differences
from .layers.base.extension import elementwise, layer, register
from .layers.base.feeding import Scheduled
from .layers.base.image_layout import ImageLayout
from .layers.base.layer import Layer, Shape, gradient_of, register_variant, split_axis
from .layers.base.state import Varying, Writing
from .layers.data import Feed

__all__ = [
    "ArrayLayer",
    "CaffeliteError",
    "DataLayer",
    "Feed",
    "Formula",
    "ImageLayout",
    "Layer",
    "Scheduled",
    "Shape",
    "Source",
    "Varying",
    "Writing",
    "elementwise",
    "filler",
    "finite_differences",
    "gradient_of",
    "layer",
    "ops",
    "register",
    "register_variant",
    "require",
    "split_axis",
]
