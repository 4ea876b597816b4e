"""Compares a module for PyTorch that was written of a net with the net, where PyTorch is installed."""

import importlib.util

import numpy as np

from ..net.net import Net
from ..proof.runners import NetRunner, compare_outputs, outputs_of
from ..proof.torch_runner import TorchRunner, open_module
from .torch_module import Tensors

NEAR = 1e-5  # of the greatest output


def check(net: Net, text: str, tensors: Tensors, seed: int = 0) -> dict[str, float] | None:
    """The greatest difference of each output, as a share of the greatest value, for random inputs; None without
    PyTorch. Errors: one above `NEAR`."""
    if importlib.util.find_spec("torch") is None:
        return None
    rng = np.random.default_rng(seed)
    fed = {name: rng.standard_normal(value.shape).astype(np.float32) for name, value in net.graph.inputs.items()}
    module = open_module(text, tensors)  # the text that write_module made, of numbers and plain names
    runner = TorchRunner(module, [value.name for value in outputs_of(net.graph)])
    return compare_outputs(runner, NetRunner(lambda shapes: net), [(fed, fed)], NEAR)
