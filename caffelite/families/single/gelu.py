"""GELU: values weighed by the share of a normal distribution below them."""

from ...layers.base.elementwise import elementwise

# The share of a normal distribution beyond |x|: Abramowitz and Stegun 1964, 7.1.26, off by at most 7.5e-8.
_T = "(1 / (1 + 0.23164188 * abs(x)))"
_TERMS = "(0.127414796 + {0} * (-0.142248368 + {0} * (0.710706871 + {0} * (-0.726576013 + {0} * 0.530702714))))"
_BEYOND = f"({_T} * {_TERMS.format(_T)} * exp(-0.5 * x * x))"
_BELOW = f"where(x > 0, 1 - {_BEYOND}, {_BEYOND})"
elementwise(
    "GELU",
    y=f"x * {_BELOW}",
    dx=f"dy * ({_BELOW} + x * 0.3989422804 * exp(-0.5 * x * x))",
    about="y = x Φ(x), Φ(x) the share of a normal distribution below x, to 1e-7. Source: Hendrycks and Gimpel 2016",
)
