"""A net as OpenCV's dnn module reads and computes it, from a prototxt with its caffemodel or from ONNX."""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, missing_extra, reporting
from ..proof.runners import Arrays, by_sample, count_rows
from .net_program import NetProgram
from .onnx_program import OnnxProgram, read_model
from .programs import Layer


class OpenCvProgram:
    """``like``: what caffelite or onnxruntime know of the same files: inputs, and how pictures are prepared. files: the
    weights of a prototxt."""

    def __init__(self, path: Path, like: NetProgram | OnnxProgram, files: tuple[str, ...], title: str):
        try:
            import cv2
        except ImportError:
            raise missing_extra("cv2", "images", "OpenCV's reading of nets") from None
        self._cv2, self.title = cv2, title
        self.inputs, self.pixels, self.document = like.inputs, like.pixels, like.document
        with reporting(f"read {path}"):
            text = inputs.read(path, inputs.MESSAGE)
        try:
            if isinstance(like, OnnxProgram):
                content = read_model(path).SerializeToString()
                self._net = cv2.dnn.readNetFromONNX(np.frombuffer(content, np.uint8))
            else:
                if len(files) != 1:
                    raise CaffeliteError("OpenCV reads one caffemodel", found=", ".join(files))
                with reporting(f"read {files[0]}"):
                    weights = inputs.read(Path(files[0]), inputs.MESSAGE)
                self._net = cv2.dnn.readNetFromCaffe(np.frombuffer(text, np.uint8), np.frombuffer(weights, np.uint8))
            self._net.enableFusion(False)  # else layers do not end where their names say
        except (cv2.error, AttributeError) as error:
            remedy = "write the net for it: caffelite deploy -for opencv; or compare its ONNX file"
            raise self._error(f"OpenCV {cv2.__version__} cannot read {path}", error, remedy) from None

    def _error(self, what: str, error: Exception, remedy: str | None = None) -> CaffeliteError:
        text = getattr(error, "err", "") or str(error)
        return CaffeliteError(what, found=" ".join(text.split())[:200], remedy=remedy)

    def outputs(self, fed: Arrays) -> dict[str, np.ndarray]:
        try:
            return self._forward(self._net.getUnconnectedOutLayersNames(), fed)
        except self._cv2.error as error:
            raise self._error(f"OpenCV cannot run {self.title}", error) from None

    def logits(self, fed: Arrays) -> dict[str, np.ndarray]:
        """OpenCV does not say what makes an output."""
        return {}

    def layers(self, fed: Arrays) -> list[Layer]:
        """Those that OpenCV hands out; none where it hands out outputs alone."""
        names = [name for name in self._net.getLayerNames() if not name.startswith("_")]
        try:
            return [Layer((name,), values) for name, values in self._forward(names, fed).items()]
        except self._cv2.error:
            return []

    def _forward(self, names: Sequence[str], fed: Arrays) -> dict[str, np.ndarray]:
        if all(shape[:1] == (1,) for shape in self.inputs.values()) and count_rows(fed) > 1:
            return by_sample(functools.partial(self._forward, names), fed)
        for name, values in fed.items():
            self._net.setInput(np.ascontiguousarray(values, np.float32), name)
        return {_layer(name): values.copy() for name, values in zip(names, self._net.forward(names), strict=True)}


def _layer(name: str) -> str:
    """The layer of an exported net that an operator is of, or the output; of a prototxt the name itself."""
    _, mark, operator = name.rpartition("!")
    if not mark or operator.startswith("output "):
        return operator.removeprefix("output ")
    return operator.rpartition("/")[0] or operator
