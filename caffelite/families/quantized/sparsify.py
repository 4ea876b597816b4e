"""Sparsify: activations that are small become 0."""

from ...layers.base.elementwise import elementwise
from ...layers.base.layer import Layer


def _not_negative(layer: Layer) -> None:
    for name in ("thre", "coef"):
        if not getattr(layer.p, name) >= 0:
            raise layer.error(f"{name} is negative", name, expected="0 or more", found=f"{getattr(layer.p, name):g}")


DECAYED = "dy + coef * loss_scale * sign(y)"


# wenwei202/caffe sparsify_layer.cpp: the gradient also decreases the absolute values of the top (L1 regularization).
elementwise(
    "Sparsify",
    y=lambda p: "where(abs(x) <= thre, 0, x - thre * sign(x))" if p.thre else "x",
    dx=lambda p: f"where(y == 0, 0, {DECAYED})" if p.thre else DECAYED,
    field="sparsify_param",
    about="y = sign(x) * max(abs(x) - thre, 0); the gradient includes coef * sign(y), an L1 regularization of y",
    check=_not_negative,
    thre="thre",
    coef="coef",
)
