"""Deploy nets that read pictures, as `caffelite classify` opens them."""

from __future__ import annotations

import re
from typing import Any

import click

from ..errors import CaffeliteError
from .options import comma_separated


def read(model: str, set_fields: tuple[str, ...], preparation: dict[str, Any]) -> Any:
    """The net that the options name, also by the name of a shipped one, with their preprocessing."""
    from .. import prototxt
    from ..layers import unknown_types
    from ..prototxt.overrides import Overrides
    from ..zoo import trained

    model = trained.model(model)
    document = Overrides(set_fields).net(prototxt.read_net(model, tolerate=unknown_types.tolerate))
    _override(document.message, **preparation)
    return document


def weights(document: Any, option: tuple[str, ...]) -> tuple[str, ...]:
    """The weights that the options or the net name. Errors: none."""
    from .. import prototxt

    named = document.message.deploy_param.weights
    if not (option or named):
        raise click.UsageError("-weights is missing, and the net names none")
    return option or (str(prototxt.resolve(named, document.locate)),)


def _override(net, mean: str | None, scale: float | None, size: str | None, channel_order: str | None) -> None:
    """Replaces the net's preprocessing by that of the options."""
    from ..layers.feeding import is_input

    inputs = [layer for layer in net.layer if is_input(layer)]
    if not inputs:
        return  # the classifier reports it
    param = inputs[0].transform_param
    if mean is not None:
        values = [_number(text) for text in comma_separated(mean)]
        param.ClearField("mean_file")
        param.ClearField("mean_value")
        param.mean_value.extend(values)
    if scale is not None:
        param.scale = scale
    if size is not None:
        sides = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", size)
        if not sides:
            raise CaffeliteError("a bad -size", expected="rows x columns, as in 256x256", found=size)
        net.deploy_param.height, net.deploy_param.width = map(int, sides.groups())
    if channel_order is not None:
        net.deploy_param.channel_order = net.deploy_param.ChannelOrder.Value(channel_order.upper())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CaffeliteError("a bad -mean", expected="numbers, as in 104,117,123", found=text) from None
