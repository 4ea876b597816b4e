"""Compares a module for PyTorch that was written of a net with the net, where PyTorch is installed."""

import types
from typing import Any

import numpy as np

from ..errors import CaffeliteError
from ..layers.base.feeding import Feeding
from ..net.net import Net
from .conversion import tensors_of

NEAR = 1e-5  # of the greatest output


def load(text: str, weights: bytes) -> Any:
    """The module of a file's text with its weights, in evaluation; None where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    made = types.ModuleType("exported_net")
    made.__file__ = "net.py"
    exec(compile(text, "net.py", "exec"), made.__dict__)  # the text that write_module made, of numbers and plain names
    net = made.Net()
    net.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors_of(weights).items()})
    return net.eval()


def check(net: Net, text: str, weights: bytes, seed: int = 0) -> dict[str, float] | None:
    """The greatest difference of each output, as a share of the greatest value, for random inputs; None without
    PyTorch. Errors: one above `NEAR`."""
    module = load(text, weights)
    if module is None:
        return None
    import torch

    rng = np.random.default_rng(seed)
    fed = {name: rng.standard_normal(value.shape).astype(np.float32) for name, value in net.graph.inputs.items()}
    net.set_inputs(**fed)
    net.forward(0)
    with torch.no_grad():
        theirs = module(*map(torch.from_numpy, fed.values()))
    outputs = [value for value in net.graph.outputs if not isinstance(value.node.layer, Feeding)]
    differences = {}
    for value, other in zip(outputs, theirs if isinstance(theirs, tuple) else (theirs,), strict=True):
        mine, other = net.dev.download(net.data[value]).astype(float), other.numpy()
        apart = np.abs(mine.reshape(other.shape) - other).max(initial=0) if mine.size == other.size else np.inf
        differences[value.name] = float(apart / max(np.abs(mine).max(initial=0), 1e-30))
        if not differences[value.name] <= NEAR:
            what, found = f'PyTorch gets another "{value.name}"', f"{differences[value.name]:.2g}"
            raise CaffeliteError(what, expected=f"at most {NEAR:g} of the greatest value", found=found)
    return differences
