"""The generated messages under the name that pycaffe gives them, those that extensions have added included."""

from __future__ import annotations

from typing import Any

from ... import caffelite_pb2

__all__ = [name for name in vars(caffelite_pb2) if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    return getattr(caffelite_pb2, name)
