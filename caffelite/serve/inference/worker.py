"""The inference process, which answers requests on a connection. The first request is "open"."""

import resource
import sys
import time
import traceback
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from ... import caffelite_pb2 as pb, devices, prototxt, roots, user_modules
from ...data import pictures
from ...data.images import encode_png, resize
from ...deploy.annotate import colored, pixel_classes, ranked_shares
from ...deploy.classify import Classifier, Prediction
from ...deploy.detect import LEAST_SCORE, Detector, detects
from ...deploy.hierarchy import Hierarchy
from ...deploy.read import Reader, reads
from ...errors import CaffeliteError
from ...layers.base.extension_files import load_permitted
from ...layers.base.feeding import is_input
from ...prototxt import Document
from ...system import cache_folder
from ...visualize import thumbnails
from ...visualize.explained import ExplainedNet, probabilities
from . import client
from .deploy_weights import choose_weights, load_named_weights

LONGEST = 1280  # pixels of a side of the picture that an answer has


def shown(picture: np.ndarray, is_rgb: bool) -> np.ndarray:
    """H×W×3, red, green, blue, or H×W, of a decoded image C×H×W, reduced to LONGEST pixels."""
    scale = LONGEST / max(picture.shape[1:])
    if scale < 1:
        height, width = (max(1, round(side * scale)) for side in picture.shape[1:])
        picture = resize(np.ascontiguousarray(picture), height, width, "INTER_AREA")
    if len(picture) == 1:
        return picture[0]
    return (picture if is_rgb else picture[::-1]).transpose(1, 2, 0)


Deployed = TypeVar("Deployed", Classifier, Detector, Reader)


class OpenNet(Generic[Deployed]):
    """A deploy net with the weights that it names. Errors: those of `Classifier`, `Detector` and `Reader`; it names no
    weights; no layer of the weights is in the net."""

    def __init__(self, kind: type[Deployed], document: Document):
        started = time.perf_counter()
        self._document, self._dev = document, devices.open_device()
        self._deployed: Deployed = kind(document, self._dev)
        load_named_weights(self._deployed.net, document)
        self._deployed.warm_up()
        self._opened = time.perf_counter() - started

    def describe(self) -> dict[str, Any]:
        """name; labels, of a detector with the background first; shape C×H×W of the input; classifies, detects,
        segments, reads: the kind of the answer; seconds to open."""
        deployed = self._deployed
        return {
            "name": self._document.message.name,
            "labels": deployed.labels,
            "shape": list(deployed.preparation.shape),
            "classifies": isinstance(deployed, Classifier) and deployed.classifies,
            "detects": isinstance(deployed, Detector),
            "segments": isinstance(deployed, Classifier) and bool(deployed.pixels),
            "reads": isinstance(deployed, Reader),
            "seconds": self._opened,
        }

    def answer(self, content: dict[str, Any], payloads: list[bytes]) -> client.Answer:
        """The answer to a request by its "op"; its first payload is the image. Errors: no such operation."""
        raise NotImplementedError


def _classify_alone(content: dict[str, Any], does: str) -> None:
    """Errors: a request other than "classify", or with an option of classifiers. does: what the net does instead."""
    if content["op"] != "classify":
        raise CaffeliteError(f"not for a net that {does}", found=str(content["op"]))
    for name in ("oversample", "hierarchy"):
        if content.get(name):
            raise CaffeliteError(f"{name} is for classifiers, and the net {does}")


class OpenDetector(OpenNet[Detector]):
    """A deploy net that detects objects."""

    def __init__(self, document: Document):
        super().__init__(Detector, document)

    def answer(self, content: dict[str, Any], payloads: list[bytes]) -> client.Answer:
        """The answer to the request "classify": detections, the boxes with scores of at least ``threshold``, the
        highest score first, in pixels of the image of ``width`` and ``height``; notes; seconds. Payload: the image,
        reduced to LONGEST pixels, PNG. Errors: another operation, or an option of classifiers."""
        _classify_alone(content, "detects objects")
        preparation = self._deployed.preparation
        picture = preparation.decode(payloads[0])
        (detected,) = self._deployed.detections(payloads[:1], content.get("threshold", LEAST_SCORE))
        height, width = picture.shape[1:]
        boxes = [each.record() for each in detected.detections[: content.get("top") or None]]
        result = {"seconds": detected.seconds, "notes": detected.notes, "width": width, "height": height}
        is_rgb = preparation.deploy.channel_order == pb.DeployParameter.RGB
        return {**result, "detections": boxes}, [encode_png(shown(picture, is_rgb))]


class OpenReader(OpenNet[Reader]):
    """A deploy net that reads a line of text."""

    def __init__(self, document: Document):
        super().__init__(Reader, document)

    def answer(self, content: dict[str, Any], payloads: list[bytes]) -> client.Answer:
        """The answer to the request "classify": answers, the text as the only one; notes; seconds. Payload: what the
        net sees, PNG. Errors: another operation, or an option of classifiers."""
        _classify_alone(content, "reads text")
        preparation = self._deployed.preparation
        (reading,) = self._deployed.readings(payloads[:1])
        answers = [{"label": reading.text or "(no text)", "class": 0, "score": reading.score}]
        fitted, _ = preparation.fitted(preparation.decode(payloads[0]))
        seen = preparation.pixels(fitted, preparation.views(fitted))
        return {"seconds": reading.seconds, "notes": reading.notes, "answers": answers}, [encode_png(seen)]


ANSWERS = 5  # of a classifier, where the request names no number
MOST_CHANNELS = 64  # that the picture of a layer shows
SALIENCY_SAMPLES = 8


class OpenClassifier(OpenNet[Classifier]):
    """A deploy net that classifies an image, or its pixels."""

    def __init__(self, document: Document):
        super().__init__(Classifier, document)
        self._explained: ExplainedNet | None = None
        self._crops: Classifier | None = None
        self._hierarchies: dict[tuple[str, int], Hierarchy] = {}

    def answer(self, content: dict[str, Any], payloads: list[bytes]) -> client.Answer:
        operations = {"classify": self._classify, "layers": self._layers, "saliency": self._saliency}
        if self._deployed.pixels:
            operations = {"classify": self._segment}
        if content["op"] not in operations:
            raise CaffeliteError("no such operation", found=str(content["op"]))
        return operations[content["op"]](content, payloads[0])

    def _classify(self, content: dict[str, Any], image: bytes) -> client.Answer:
        """answers: the best classes; general: with a hierarchy, from the best class to the root; notes; seconds. Part
        0: what the net sees, PNG."""
        classifier = self._with_crops() if content.get("oversample") else self._deployed
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

    def _segment(self, content: dict[str, Any], image: bytes) -> client.Answer:
        """answers: the classes of the most pixels, each with its share; notes; seconds. Part 0: the image, colored by
        the classes of its pixels, PNG. Errors: an option of classifiers."""
        for name in ("oversample", "hierarchy"):
            if content.get(name):
                raise CaffeliteError(f"{name} is for classifiers of images, and the net classifies pixels")
        labels, preparation = self._deployed.labels, self._deployed.preparation
        decoded = preparation.decode(image)
        (prediction,) = self._deployed.predictions([image])
        classes = pixel_classes(prediction.scores, self._deployed.output.shape[1:], decoded.shape[1:])
        ranked = ranked_shares(classes, len(labels))[: content.get("top") or ANSWERS]
        answers = [{"label": labels[i], "class": i, "score": share} for i, share in ranked]
        is_rgb = preparation.deploy.channel_order == pb.DeployParameter.RGB
        picture = colored(decoded[::-1] if is_rgb and len(decoded) > 1 else decoded, classes, len(labels))
        result = {"seconds": prediction.seconds, "notes": prediction.notes, "answers": answers}
        return result, [encode_png(shown(picture, is_rgb=False))]

    def _best(self, prediction: Prediction, top: int) -> list[dict[str, Any]]:
        labels = self._deployed.labels
        chosen = prediction.top(top) if self._deployed.classifies else range(len(labels))
        return [{"label": labels[i], "class": i, "score": float(prediction.scores[i])} for i in chosen]

    def _with_crops(self) -> Classifier:
        if self._crops is None:
            self._crops = Classifier(self._document, self._dev, oversample=True, share=self._deployed.net)
        return self._crops

    def _hierarchy(self, path: str) -> Hierarchy:
        try:
            key = path, Path(path).stat().st_mtime_ns
        except OSError as error:
            raise CaffeliteError(f"cannot read the hierarchy {path}: {error.strerror}") from None
        if key not in self._hierarchies:
            self._hierarchies = {key: Hierarchy(Path(path), self._deployed.labels)}
        return self._hierarchies[key]

    def _explain(self) -> ExplainedNet:
        if self._explained is None:
            self._explained = ExplainedNet(self._document, self._dev)
        return self._explained

    def _layers(self, content: dict[str, Any], image: bytes) -> client.Answer:
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

    def _saliency(self, content: dict[str, Any], image: bytes) -> client.Answer:
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


def open_model(path: str) -> OpenNet:
    """The net of a prototxt with the weights that it names or that lie beside it, ready to answer. Errors: those of
    both classes; the file cannot be read."""
    document = prototxt.read_net(path)
    choose_weights(document)
    if reads(document):
        return OpenReader(document)
    return OpenDetector(document) if detects(document) else OpenClassifier(document)


def serve(connection: Connection) -> None:
    """Answers requests until the connection ends. An answer has "error" where the request failed; {"fatal": true}
    besides where the process ends."""
    model: OpenNet | None = None
    answer: client.Answer = {}, []
    while not answer[0].get("fatal"):
        try:
            content, payloads = client.receive(connection)
        except EOFError:
            return
        try:
            if content["op"] == "open":
                _limit_memory(content["memory"])
                if content["roots"] is not None:
                    held = roots.Confinement.of(tuple(map(Path, content["roots"])), (cache_folder(),))
                    roots.confine(held)
                if content["python"]:
                    user_modules.permit()
                    load_permitted()
                model = open_model(content["model"]) if content["model"] else None
                answer = model.describe() if model else {}, []
            elif content["op"] in (pictures.DECODE, pictures.LABELS):
                answer = client.decoding_answer(content, payloads)
            elif model is None:
                raise CaffeliteError("no model is open")
            else:
                answer = model.answer(content, payloads)
        except CaffeliteError as error:
            answer = {"error": str(error)}, []
        except MemoryError:
            answer = {"error": "out of memory", "fatal": True}, []
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"internal error: {type(error).__name__}: {error}"[:500]}, []
        client.send(connection, *answer)


def _limit_memory(most: int) -> None:
    """Makes larger allocations fail from now on."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """Answers on the connection with the descriptor that the command line names."""
    user_modules.leave_current_folder()
    serve(Connection(int(sys.argv[1])))
