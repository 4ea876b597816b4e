"""A deploy net that keeps every blob and gradient, to explain its prediction for an image: saliency maps, Grad-CAM."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb, weights
from ..deploy.preprocessing import Preparation, open_deploy_net
from ..devices.protocol import Device
from ..errors import CaffeliteError, did_you_mean
from ..net.graph import Node, Value
from ..net.net import Net
from ..prototxt import Document

NOISE = 0.1  # standard deviation of SmoothGrad's noise, as a share of the input's range
NORMALIZED = ("Softmax", "Sigmoid")  # scores are explained before these


@dataclass(frozen=True)
class Picture:
    """An image as the net sees it. input: 1×C×H×W of float32. pixels: H×W×3 of uint8, red, green, blue."""

    file: Path
    input: np.ndarray
    pixels: np.ndarray


class ExplainedNet:
    """A deploy net on a device, without the Softmax or Sigmoid at its end. files: caffemodels; none: the one that
    deploy_param names. share: a net of the same file, whose weights are used instead. ``labels``: of the classes.

    Errors: those of `Preparation`; no weights; weights without a layer of the net; no output with scores of classes.
    """

    def __init__(self, document: Document, dev: Device, files: tuple[str, ...] = (), share: Net | None = None):
        self.preparation = Preparation(document.message, document.locate)
        message = pb.NetParameter()
        message.CopyFrom(document.message)
        message.force_backward = True
        if message.layer[-1].type in NORMALIZED:
            del message.layer[-1]
        self.net = open_deploy_net(message, document.locate, dev, 1, share=share, keep=True)
        if share is None:
            self._load(files, document)
        outputs = self.net.graph.outputs
        if len(outputs) != 1:
            found = ", ".join(value.name for value in outputs) or "none"
            raise document.locate.error("a net with one output of scores is needed", found=found)
        (self._output,) = outputs
        self.classes = int(np.prod(self._output.shape[1:]))
        labels = list(message.deploy_param.label)
        self.labels = labels if len(labels) == self.classes else [str(i) for i in range(self.classes)]

    def _load(self, files: tuple[str, ...], document: Document) -> None:
        named = None if files else weights.named_weights(document.message, document.locate.file)
        paths = files or ((str(named),) if named else ())
        if not paths:
            raise CaffeliteError("no weights to explain", remedy="name a caffemodel: -weights FILE")
        for path in paths:
            if not self.net.load(weights.read_model(Path(path), copy=False), path).matched:
                raise CaffeliteError(f"{path}: no layer of the file is in the net")

    def picture(self, file: Path | bytes) -> Picture:
        """Reads an image, a file or its content, and prepares it as ``caffelite classify`` does."""
        preparation = self.preparation
        image, _ = preparation.fitted(preparation.decode(file))
        values = preparation.views(image)
        return Picture(file if isinstance(file, Path) else Path("picture"), values, preparation.pixels(image, values))

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Runs forward; the scores of the classes before Softmax. values: 1×C×H×W."""
        self.net.set_inputs(**{self.preparation.name: values})
        self.net.forward(0)
        return self._download(self.net.data[self._output], self._output).reshape(-1).astype(np.float64)

    def values(self, value: Value) -> np.ndarray:
        """A blob after ``scores``, without its first axis."""
        return self._download(self.net.data[value], value)[0]

    def gradients(self, number: int, value: Value) -> np.ndarray:
        """The gradient of a class's score by a blob, without its first axis. Errors: the output is none of scores of
        classes."""
        if self._output not in self.net.diff or np.prod(self._output.shape) > np.prod(self._output.shape[:2]):
            shape = "×".join(map(str, self._output.shape))
            what, found = "a net with scores of classes is needed", f'"{self._output.name}" {shape}'
            raise CaffeliteError(what, expected="N×C", found=found)
        start = np.zeros(self._output.shape, np.float32)
        start.reshape(-1)[number] = 1
        target = self.net.starts.get(self._output, self.net.diff[self._output])
        if self.net.dev.traits.host_memory:
            self.net.shown(target, self._output)[...] = start
        else:
            self.net.dev.upload(target, start.reshape(self._output.memory_shape))
        self.net.backward()
        return self._download(self.net.diff[value], value)[0]

    def _download(self, array, value: Value) -> np.ndarray:
        return np.array(self.net.dev.download(self.net.shown(array, value)))

    @property
    def input(self) -> Value:
        return self.net.graph.inputs[self.preparation.name]

    def top(self, layer: str) -> Value:
        """The first output of a layer, as that layer computes it. Errors: no such layer."""
        return node_of(self.net, layer).tops[0]

    def last_map(self) -> tuple[str, Value]:
        """(layer, blob) of the last convolution with more than one pixel; with the ReLU behind it."""
        convolutions = [
            n for n in self.net.graph.nodes if n.layer.spec.type == "Convolution" and n.tops[0].shape[2] > 1
        ]
        if not convolutions:
            raise CaffeliteError("the net has no convolution with a map", remedy="name a layer: -layer NAME")
        return convolutions[-1].name, self.net.graph.values[convolutions[-1].tops[0].name]

    def saliency(self, values: np.ndarray, number: int, samples: int = 1, seed: int = 0) -> np.ndarray:
        """H×W: the gradient of a class's score by each pixel, the greatest magnitude over channels.

        samples: more than 1 averages the magnitudes over inputs with noise (SmoothGrad), of which ``seed`` is the seed.
        """
        rng = np.random.default_rng(seed)
        spread = NOISE * float(values.max() - values.min())
        total = np.zeros(values.shape[1:], np.float64)
        for _ in range(samples):
            noisy = values if samples == 1 else values + rng.normal(0, spread, values.shape).astype(np.float32)
            self.scores(noisy)
            total += np.abs(self.gradients(number, self.input))
        return total.max(0) / samples

    def grad_cam(self, number: int, value: Value) -> np.ndarray:
        """h×w, after ``scores``: the channels of a blob, weighted with the mean gradient of a class's score by each,
        summed and cut at 0: L = ReLU(Σ_k mean(∂y/∂A_k) A_k)."""
        gradient = self.gradients(number, value)
        maps = self.values(value).astype(np.float64)
        return np.maximum((gradient.mean((1, 2))[:, None, None] * maps).sum(0), 0)

    def class_number(self, text: str) -> int:
        """The class of a label or a number. Errors: there is none."""
        if text in self.labels:
            return self.labels.index(text)
        if text.isdecimal() and int(text) < self.classes:
            return int(text)
        expected = f"a label, or a number from 0 to {self.classes - 1}"
        raise CaffeliteError(f'no class "{text}"', expected=expected, remedy=did_you_mean(text, self.labels))


def node_of(net: Net, layer: str) -> Node:
    """The node of a layer. Errors: there is none."""
    names = {node.name: node for node in net.graph.nodes}
    if layer not in names:
        expected = f"one of {', '.join(names)}"
        raise CaffeliteError(f'the net has no layer "{layer}"', expected=expected, remedy=did_you_mean(layer, names))
    return names[layer]


def probabilities(scores: np.ndarray) -> np.ndarray:
    """The softmax of scores."""
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()
