"""ONNX files as onnxruntime computes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CaffeliteError, missing_extra
from .logits import with_logits
from .runners import Arrays, by_sample, count_rows

SMALL = 1 << 20  # bytes of a file that one thread computes as fast as several


def open_session(model: bytes | Path, use: str, optimized: bool = True) -> Any:
    """An onnxruntime session on the CPU. use: what needs onnxruntime, for the error; optimized: False to run each
    operator as it is. Errors: CaffeliteError where onnxruntime cannot run the net or is missing."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("onnxruntime", "onnx", use) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    size = len(model) if isinstance(model, bytes) else model.stat().st_size
    options.intra_op_num_threads = 1 if size < SMALL else 0
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with refused("onnxruntime refuses the net"):
        source = model if isinstance(model, bytes) else str(model)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Reports what onnxruntime raises, of which it has no base class."""
    try:
        yield
    except CaffeliteError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        remedy = "check the file with onnx.checker.check_model, and export it again"
        raise CaffeliteError(what, found=text or type(error).__name__, remedy=remedy) from None


class OnnxRunner:
    """A file in onnxruntime; one for a single sample runs for each. ``inputs``: their shapes by name, None for an open
    axis."""

    def __init__(self, model: bytes | Path, use: str, optimized: bool = True):
        import onnxruntime

        self._source, self._use, self._optimized = model, use, optimized
        self._observed: tuple[OnnxRunner, dict[str, str]] | None = None
        self.session = open_session(model, use, optimized)
        self.title = "onnxruntime"
        self.version = onnxruntime.__version__
        self.inputs = {
            each.name: tuple(dim if isinstance(dim, int) else None for dim in each.shape)
            for each in self.session.get_inputs()
        }
        self.kinds = {each.name: _dtype(each.name, each.type) for each in self.session.get_inputs()}
        self.output_names = [each.name for each in self.session.get_outputs()]
        self.single = bool(self.inputs) and all(shape[:1] == (1,) for shape in self.inputs.values())

    def outputs(self, fed: Arrays) -> dict[str, np.ndarray]:
        if self.single and count_rows(fed) > 1:
            return by_sample(self.outputs, fed)
        with refused("onnxruntime cannot run the net"):
            given = {name: np.ascontiguousarray(values, self.kinds.get(name)) for name, values in fed.items()}
            return dict(zip(self.output_names, self.session.run(self.output_names, given), strict=True))

    def logits(self, fed: Arrays) -> dict[str, np.ndarray]:
        """None of a file whose weights are in others."""
        if self._observed is None:
            content = self._source if isinstance(self._source, bytes) else self._source.read_bytes()
            content, tensors = with_logits(content)
            self._observed = OnnxRunner(content, self._use, self._optimized) if tensors else self, tensors
        runner, tensors = self._observed
        values = runner.outputs(fed) if tensors else {}
        return {name: values[tensor] for name, tensor in tensors.items()}


def _dtype(name: str, kind: str) -> np.dtype:
    """Of an input. Errors: it takes no numbers."""
    number = kind.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype({"float": "float32", "double": "float64"}.get(number, number))
    except TypeError:
        remedy = "export the net with inputs of numbers"
        raise CaffeliteError(f'the input "{name}" is of no numbers', found=kind, remedy=remedy) from None
