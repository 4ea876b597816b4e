"""What a file with a layer of one's own imports: ``from caffelite.extending import ...`` (docs/extending.md)."""

from .data import Source
from .data.sampled import DataLayer
from .devices import ops
from .devices.formula import Formula
from .errors import CaffeliteError
from .layers import require
from .layers.arrays import ArrayLayer, filler, finite_differences
from .layers.data import Feed
from .layers.extension import elementwise, layer, register
from .layers.feeding import Scheduled
from .layers.image_layout import ImageLayout
from .layers.layer import Layer, Shape, gradient_of, register_variant, split_axis
from .layers.state import Varying, Writing

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
