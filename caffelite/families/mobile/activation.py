"""The activations of MobileNets."""

from ...layers.base.elementwise import elementwise

# y = x · min(max(x + 3, 0), 6) / 6
elementwise(
    "HardSwish",
    y="where(x > -3, where(x < 3, x * (x + 3) / 6, x), 0 * x)",
    dx="where(x > -3, where(x < 3, dy * (2 * x + 3) / 6, dy), 0)",
)


# The top shows whether x is between 0 and 6, unless a negative slope below 0 makes it positive.
elementwise(
    "ReLU6",
    y="where(x > 0, where(x > 6, 6, x), slope * x)",
    dx=lambda p: "where({0} < 6, where({0} > 0, dy, slope * dy), 0)".format("y" if p.negative_slope >= 0 else "x"),
    field="relu6_param",
    slope="negative_slope",
)
