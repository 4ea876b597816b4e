"""Modules for PyTorch that `caffelite export -to torch` writes, as PyTorch computes them."""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .runners import Arrays


def open_module(text: str, weights: Mapping[str, np.ndarray], file: str = "net.py") -> Any:
    """The module of a file's text with its weights, in evaluation. The text is run. Errors: ImportError without
    PyTorch, and whatever the text raises."""
    import torch

    made = types.ModuleType("exported_net")
    made.__file__ = file
    exec(compile(text, file, "exec"), made.__dict__)
    net = made.Net()
    net.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})
    return net.eval()


class TorchRunner:
    """A module in PyTorch. output_names: of what it returns, in order."""

    title = "PyTorch"

    def __init__(self, module: Any, output_names: Sequence[str]):
        self.module, self.output_names = module, output_names

    def outputs(self, fed: Arrays) -> dict[str, np.ndarray]:
        import torch

        with torch.no_grad():
            given = (torch.from_numpy(np.ascontiguousarray(values, np.float32)) for values in fed.values())
            made = self.module(*given)
        values = made if isinstance(made, tuple) else (made,)
        return {name: each.numpy() for name, each in zip(self.output_names, values, strict=True)}

    def logits(self, fed: Arrays) -> dict[str, np.ndarray]:
        import torch
        from torch.overrides import TorchFunctionMode

        made: dict[int, Any] = {}

        class Watch(TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = function(*args, **(kwargs or {}))
                if function.__name__ in ("softmax", "sigmoid"):
                    made[result.data_ptr()] = args[0]
                return result

        with torch.no_grad(), Watch():
            given = (torch.from_numpy(np.ascontiguousarray(values, np.float32)) for values in fed.values())
            values = self.module(*given)
        outputs = values if isinstance(values, tuple) else (values,)
        before = zip(self.output_names, (made.get(each.data_ptr()) for each in outputs), strict=True)
        return {name: each.numpy() for name, each in before if each is not None}

    def observed(self, fed: Arrays, observe: Callable[[str, np.ndarray], None]) -> dict[str, np.ndarray]:
        """As ``outputs``; observe(name, values) is called with what each submodule computes, in order."""
        hooks = [
            each.register_forward_hook(lambda _, __, values, name=name: observe(name, values.detach().numpy()))
            for name, each in self.module.named_children()
        ]
        try:
            return self.outputs(fed)
        finally:
            for hook in hooks:
                hook.remove()
