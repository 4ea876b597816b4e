"""Small curves in tables."""

from collections.abc import Sequence


def sparkline(
    values: Sequence[float], width: float = 100, height: float = 24, ends: tuple[float, float] | None = None
) -> str:
    """The points of an SVG polyline through values at even intervals. ends: the values at the lower and the upper edge;
    default: the least and the greatest."""
    if len(values) < 2:
        return ""
    low, high = ends or (min(values), max(values))
    span = (high - low) or 1.0
    step = (width - 2) / (len(values) - 1)
    return " ".join(f"{1 + i * step:.1f},{1 + (height - 2) * (high - v) / span:.1f}" for i, v in enumerate(values))
