"""A module that `caffelite export -to torch` wrote, as PyTorch computes it."""

import ast
import importlib.util
import inspect
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, reporting
from ..export.tensor_files import read_tensors
from ..proof.runners import Arrays
from ..proof.torch_runner import TorchRunner, open_module
from ..prototxt import Document
from .programs import Layer, OpenShape

WEIGHTS = "net.safetensors"


class TorchProgram(TorchRunner):
    """The code of the file runs. Errors: PyTorch is not installed; the file is no module of `caffelite export`."""

    def __init__(self, path: Path, title: str):
        with reporting(f"read {path}"):
            text = inputs.read(path, inputs.TEXT).decode(errors="replace")
        if importlib.util.find_spec("torch") is None:
            raise CaffeliteError("PyTorch is not installed", remedy="install it with: pip install torch")
        tensors = read_tensors(path.with_name(WEIGHTS))
        try:
            module = open_module(text, tensors, str(path))
            names = _returned(text)
        except Exception as error:  # what any code may raise
            expected = "net.py as caffelite export -to torch writes it"
            found = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise CaffeliteError(f"cannot use {path}", expected=expected, found=found) from None
        super().__init__(module, names)
        self.title = title
        self.document: Document | None = None
        self.pixels: frozenset[str] = frozenset()
        self.inputs: dict[str, OpenShape] = {name: () for name in inspect.signature(module.forward).parameters}

    def outputs(self, fed: Arrays) -> dict[str, np.ndarray]:
        try:
            return super().outputs(fed)
        except RuntimeError as error:
            found = " ".join(str(error).split())[:200]
            raise CaffeliteError(f"PyTorch cannot run {self.title}", found=found) from None

    def layers(self, fed: Arrays) -> list[Layer]:
        made: list[Layer] = []
        self.observed(fed, lambda name, values: made.append(Layer((name,), values)))
        return made


def _returned(text: str) -> list[str]:
    """The names that the module's forward returns."""
    tree = ast.parse(text)
    net = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Net")
    forward = next(each for each in net.body if isinstance(each, ast.FunctionDef) and each.name == "forward")
    value = next(each.value for each in reversed(forward.body) if isinstance(each, ast.Return) and each.value)
    return [ast.unparse(each) for each in (value.elts if isinstance(value, ast.Tuple) else [value])]
