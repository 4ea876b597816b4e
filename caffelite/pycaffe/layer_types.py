"""The layer types that nets may have."""

from __future__ import annotations

from ..layers import REGISTRY


def layer_type_list() -> list[str]:
    """The names of all layer types, in alphabetical order."""
    return sorted(REGISTRY)


def layer_type_count() -> int:
    """How many layer types there are."""
    return len(REGISTRY)
