"""Turns ONNX files into nets: prototxts and a caffemodel, whose outputs are compared with onnxruntime's"""

from .convert import Converted, convert, read_inputs

__all__ = ["Converted", "convert", "read_inputs"]
