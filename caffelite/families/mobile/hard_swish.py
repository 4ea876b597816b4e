"""HardSwish: MobileNet v3's activation."""

from __future__ import annotations

from ...layers.elementwise import elementwise

# y = x · min(max(x + 3, 0), 6) / 6
elementwise(
    "HardSwish",
    y="where(x > -3, where(x < 3, x * (x + 3) / 6, x), 0 * x)",
    dx="where(x > -3, where(x < 3, dy * (2 * x + 3) / 6, dy), 0)",
)
