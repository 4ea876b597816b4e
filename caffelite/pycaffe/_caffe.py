"""The names of Caffe's compiled module, ``caffe._caffe``, for programs that compare types with them."""

from ..layers.python import UserLayer as Layer
from .blob import Blob, BlobVec
from .modes import log, set_device, set_mode_cpu, set_mode_gpu
from .net import Net
from .net_spec import layer_type_list
from .solver import Solver

RawBlobVec = BlobVec

__all__ = [
    "Blob",
    "BlobVec",
    "Layer",
    "Net",
    "RawBlobVec",
    "Solver",
    "layer_type_list",
    "log",
    "set_device",
    "set_mode_cpu",
    "set_mode_gpu",
]
