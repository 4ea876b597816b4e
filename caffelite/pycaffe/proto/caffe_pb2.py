"""The generated messages under the name that pycaffe gives them."""

from ...caffelite_pb2 import *  # noqa: F403
from ...caffelite_pb2 import DESCRIPTOR  # noqa: F401
