"""Protobuf's text format: reports all errors of a text in one pass, and the positions of errors and fields."""

from .reader import Reader, Unknown, without_strange_comments
from .values import shown

__all__ = ["Reader", "Unknown", "shown", "without_strange_comments"]
