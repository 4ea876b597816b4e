"""Protobuf's text format: every mistake of a text in one pass, each with its place, and the place of every field."""

from .reader import Reader
from .values import shown

__all__ = ["Reader", "shown"]
