"""Which coordinates of one blob belong to which of another, and crops that align them, for nets written in Python.

A map is (axis, scale, shift): along the axes from ``axis`` on, output[i·scale + shift] belongs to input[i]. axis None:
any.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..layers.base.facets import Coordinates
from .net_spec import Function, Top, layers

Map = tuple[int | None, Any, Any]

IDENTITY: Map = (None, 1, 0)
_LEGACY = {f"{name}_{side}" for name in ("pad", "kernel", "stride") for side in "hw"}


class UndefinedMapException(Exception):
    """The coordinates of a layer's top do not belong to those of its bottom."""


class AxisMismatchException(Exception):
    """Two maps are for different axes."""


def conv_params(fn: Function) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(axis, stride, extent of the kernel with its dilation, pad) of a layer with a window. Errors: AssertionError for
    fields of one side as kernel_h."""
    params = fn.params.get("convolution_param", fn.params)
    assert not _LEGACY & set(params), f"{fn.type_name}: expected kernel_size, stride and pad; found fields of one side"
    kernel, stride, pad, dilation = (
        np.array(params.get(name, default), ndmin=1)
        for name, default in (("kernel_size", None), ("stride", 1), ("pad", 0), ("dilation", 1))
    )
    return params.get("axis", 1), stride, dilation * (kernel - 1) + 1, pad


def crop_params(fn: Function) -> tuple[int, np.ndarray]:
    """(axis, offset) of a Crop layer."""
    params = fn.params.get("crop_param", fn.params)
    return params.get("axis", 2), np.array(params.get("offset", 0), ndmin=1)


def coord_map(fn: Function) -> Map:
    """The map from the bottom of a layer to its top. Errors: UndefinedMapException."""
    relation = Coordinates.of(fn.type_name).relation
    if relation in ("window", "spread"):
        axis, stride, extent, pad = conv_params(fn)
        if relation == "spread":
            return axis, stride, (extent - 1) / 2 - pad
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if relation == "offset":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset  # maps count from the last axis that is no coordinate
    if relation == "same":
        return IDENTITY
    raise UndefinedMapException(fn.type_name)


def compose(base_map: Map, next_map: Map) -> Map:
    """The map that applies ``next_map`` and then ``base_map``. Errors: AxisMismatchException."""
    axes = {axis for axis, _, _ in (base_map, next_map) if axis is not None}
    if len(axes) > 1:
        raise AxisMismatchException(f"axes {sorted(axes)}")
    (_, scale, shift), (_, next_scale, next_shift) = base_map, next_map
    return next(iter(axes), None), scale * next_scale, scale * next_shift + shift


def inverse(coord_map: Map) -> Map:
    """The map back."""
    axis, scale, shift = coord_map
    return axis, 1 / scale, -shift / scale


def _below(top: Top) -> Sequence[Top]:
    """The tops that a layer reads with the coordinates of its own; of a Crop only the one that is cropped."""
    return top.fn.inputs[:1] if Coordinates.of(top.fn.type_name).relation == "offset" else top.fn.inputs


def _maps(top: Top) -> dict[Top, Map]:
    """The map to each top below ``top``, the nearest first, until layers without a map."""
    maps: dict[Top, Map] = {top: IDENTITY}
    pending = [top]
    while pending:
        above = pending.pop(0)
        try:
            step = coord_map(above.fn) if _below(above) else IDENTITY
        except UndefinedMapException:
            continue
        for below in _below(above):
            if below not in maps:
                maps[below] = compose(maps[above], step)
                pending.append(below)
    return maps


def coord_map_from_to(top_from: Top, top_to: Top) -> Map:
    """The map from the coordinates of a top to those of another, by way of a blob that both depend on. Errors:
    RuntimeError where there is none."""
    from_maps, to_maps = _maps(top_from), _maps(top_to)
    shared = next((top for top in to_maps if top in from_maps), None)
    if shared is None:
        raise RuntimeError("no map between the tops: layers with coordinates do not connect them")
    return compose(to_maps[shared], inverse(from_maps[shared]))


def crop(top_from: Top, top_to: Top) -> Top:
    """A Crop layer that cuts out of ``top_from`` what belongs to ``top_to``. Errors: AssertionError for different
    scales and for offsets that are negative or no whole numbers."""
    axis, scale, shift = coord_map_from_to(top_from, top_to)
    scale, offset = np.atleast_1d(scale), -np.atleast_1d(shift)
    assert (scale == 1).all(), f"a crop cannot change the scale; found {scale}"
    assert (offset >= 0).all(), f"a crop needs offsets of 0 or more; found {offset}"
    assert (offset == np.round(offset)).all(), f"a crop needs whole offsets; found {offset}"
    first = 2 if axis is None else axis + 1
    return layers.Crop(top_from, top_to, crop_param={"axis": first, "offset": [int(o) for o in offset]})
