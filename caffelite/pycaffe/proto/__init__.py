"""The messages of the schema, as pycaffe has them: ``from caffelite.pycaffe.proto import caffe_pb2``."""

from . import caffe_pb2

__all__ = ["caffe_pb2"]
