"""A deploy net that classifies and answers requests: classify, activations of all layers, saliency."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ... import devices
from ...data.images import encode_png
from ...deploy.classify import Classifier, Prediction
from ...deploy.hierarchy import Hierarchy
from ...errors import CaffeliteError
from ...layers.feeding import is_input
from ...prototxt import Document
from ...visualize import thumbnails
from ...visualize.explained import ExplainedNet, probabilities
from .deploy_weights import load_named_weights

ANSWERS = 5  # of a classifier, where the request names no number
MOST_CHANNELS = 64  # that the picture of a layer shows
SALIENCY_SAMPLES = 8


class OpenClassifier:
    """A deploy net that classifies, with the weights that it names.

    Errors: those of `Classifier`; it has scores for each pixel; it names no weights; no layer of the weights is in the
    net.
    """

    def __init__(self, document: Document):
        started = time.perf_counter()
        self._document = document
        self._dev = devices.open_device()
        self._classifier = Classifier(self._document, self._dev)
        if self._classifier.pixels:
            remedy = "colour an image by its classes: caffelite classify -annotate"
            raise CaffeliteError("the net has scores for each pixel, which pages do not show", remedy=remedy)
        load_named_weights(self._classifier.net, document)
        self._classifier.warm_up()
        self._explained: ExplainedNet | None = None
        self._crops: Classifier | None = None
        self._hierarchies: dict[tuple[str, int], Hierarchy] = {}
        self._opened = time.perf_counter() - started

    def describe(self) -> dict[str, Any]:
        """name; labels; shape C×H×W of the input; classifies, detects: the kind of the answer; seconds to open."""
        message = self._document.message
        return {
            "name": message.name,
            "labels": self._classifier.labels,
            "shape": list(self._classifier.preparation.shape),
            "classifies": self._classifier.classifies,
            "detects": False,
            "seconds": self._opened,
        }

    def answer(self, content: dict[str, Any], payloads: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a request by its "op"; its first part is the image. Errors: no such operation."""
        operations = {"classify": self._classify, "layers": self._layers, "saliency": self._saliency}
        if content["op"] not in operations:
            raise CaffeliteError("no such operation", found=str(content["op"]))
        return operations[content["op"]](content, payloads[0])

    def _classify(self, content: dict[str, Any], image: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """answers: the best classes; general: with a hierarchy, from the best class to the root; notes; seconds. Part
        0: what the net sees, PNG."""
        classifier = self._with_crops() if content.get("oversample") else self._classifier
        preparation = classifier.preparation
        decoded = preparation.decode(image)
        (prediction,) = classifier.predictions([image])
        best = self._best(prediction, content.get("top") or ANSWERS)
        result = {"seconds": prediction.seconds, "notes": prediction.notes, "answers": best}
        if content.get("hierarchy"):
            groups = self._hierarchy(str(content["hierarchy"]))
            result["general"] = [asdict(one) for one in groups.answers(prediction.scores)]
        fitted, _ = preparation.fitted(decoded)
        seen = preparation.pixels(fitted, preparation.views(fitted))
        return result, [encode_png(seen)]

    def _best(self, prediction: Prediction, top: int) -> list[dict[str, Any]]:
        labels = self._classifier.labels
        chosen = prediction.top(top) if self._classifier.classifies else range(len(labels))
        return [{"label": labels[i], "class": i, "score": float(prediction.scores[i])} for i in chosen]

    def _with_crops(self) -> Classifier:
        if self._crops is None:
            self._crops = Classifier(self._document, self._dev, oversample=True, share=self._classifier.net)
        return self._crops

    def _hierarchy(self, path: str) -> Hierarchy:
        try:
            key = path, Path(path).stat().st_mtime_ns
        except OSError as error:
            raise CaffeliteError(f"cannot read the hierarchy {path}: {error.strerror}") from None
        if key not in self._hierarchies:
            self._hierarchies = {key: Hierarchy(Path(path), self._classifier.labels)}
        return self._hierarchies[key]

    def _explain(self) -> ExplainedNet:
        if self._explained is None:
            self._explained = ExplainedNet(self._document, self._dev)
        return self._explained

    def _layers(self, content: dict[str, Any], image: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """layers: name, type, shape, least, greatest and mean value of each layer's first output, in order, or of the
        one that "layer" names; part i: its picture, PNG. Errors: no such layer."""
        net = self._explain()
        net.scores(net.picture(image).input)
        names = {layer.name for layer in self._document.message.layer}
        wanted = content.get("layer")
        rows, pictures = [], []
        for node in net.net.graph.nodes:
            if not node.tops or is_input(node.layer.spec) or node.name not in names or wanted not in (None, node.name):
                continue  # not wanted, or added by the compiler
            values = net.values(node.tops[0])
            facts = {"least": float(values.min()), "greatest": float(values.max()), "mean": float(values.mean())}
            rows.append({"name": node.name, "type": node.layer.spec.type, "shape": list(values.shape), **facts})
            pictures.append(encode_png(thumbnails.activations(values, MOST_CHANNELS)))
        if wanted is not None and not rows:
            expected = "a layer between the data and the scores"
            raise CaffeliteError("the deploy net has no such layer", expected=expected, found=str(wanted)[:100])
        return {"layers": rows}, pictures

    def _saliency(self, content: dict[str, Any], image: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """class, label and score of the explained class: "class", else the best. Parts: the image as the net sees it,
        its saliency map, and Grad-CAM over the image where the net has a convolution; PNG."""
        net = self._explain()
        picture = net.picture(image)
        scores = net.scores(picture.input)
        wanted = content.get("class")
        index = int(scores.argmax()) if wanted is None else int(wanted)
        if not 0 <= index < net.classes:
            raise CaffeliteError("no such class", expected=f"0 to {net.classes - 1}", found=index)
        payloads = [encode_png(picture.pixels)]
        heat = net.saliency(picture.input, index, SALIENCY_SAMPLES)
        payloads.append(encode_png(thumbnails.heat(heat)))
        result = {"class": index, "label": net.labels[index], "score": float(probabilities(scores)[index])}
        try:
            layer, value = net.last_map()
        except CaffeliteError:
            return result, payloads
        net.scores(picture.input)
        cam = net.grad_cam(index, value)
        payloads.append(encode_png(thumbnails.overlay(picture.pixels, cam)))
        return {**result, "layer": layer}, payloads
