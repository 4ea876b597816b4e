"""Protobuf's text format: every mistake of a text in one pass, each with its place, and the place of every field."""

from .reader import Reader, Unknown
from .values import shown

__all__ = ["Reader", "Unknown", "shown"]
