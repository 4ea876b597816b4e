"""A convolution of a net that only tests: weights are folded and packed when they change, not in each pass."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..devices import ops
from ..devices.protocol import Device
from .activation import PReLU
from .batch_norm import BatchNorm
from .convolution import Convolution
from .layer import Layer
from .scale_bias import Scale


class PreparedConvolution(Convolution):
    """What net/fusion.py puts in the place of a Convolution, on devices that ``prepares_convolutions``. ``folded``:
    layers behind it that its weights do the work of; ``stale``: weights have changed since they were packed."""

    folded: tuple[Layer, ...] = ()
    stale = True

    @classmethod
    def of(cls, layer: Convolution) -> PreparedConvolution:
        prepared = cls.__new__(cls)
        vars(prepared).update(vars(layer))
        return prepared

    @staticmethod
    def fits(layer: Convolution) -> bool:
        """Whether a convolution can be prepared."""
        return layer.channels_last and len(layer.spec.bottom) == 1 and not layer.makes_weights

    def can_fold(self, layer: BatchNorm | Scale | PReLU) -> bool:
        by_channel = layer.split[:2] == self.y_shape[:2] and len(layer.spec.bottom) == 1
        return by_channel and (not isinstance(layer, BatchNorm) or layer.stored)

    def build(self, dev: Device) -> None:
        self.stale = True
        self.operation: Any = dev.build(ops.PreparedConvolution(self.channels_last_operation()))

    def prepare(self) -> None:
        """Packs the weights, with the folded layers in them."""
        m = self.p.num_output
        w, b = self.params[0].data, self.params[1].data if self.p.bias_term else np.zeros(m)
        slopes = np.full(m, 1 if self.slope is None else self.slope, np.float32)
        arrays = iter([param.data for param in self.fused_params])
        for layer in self.folded:
            params = [*itertools.islice(arrays, len(layer.param_blobs))]
            if isinstance(layer, BatchNorm | Scale):
                scale, shift = layer.channel_affine(params)
                w, b = w * scale.reshape(-1, 1, 1, 1), b * scale + shift
            else:
                slopes = np.ascontiguousarray(np.broadcast_to(params[0], m), np.float32)
        self.operation.prepare(np.ascontiguousarray(w, np.float32), np.ascontiguousarray(b, np.float32), slopes)
        self.stale = False

    def forward(self, x: list, y: list) -> None:
        if self.stale:
            self.prepare()
        self.operation.run(x[0], y[0])
