"""A model that answers for pictures, and the thread that runs it on those that wait, several at once."""

import base64
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from ... import prototxt
from ...data.images import channels_last, encode_png
from ...deploy.annotate import pixel_classes, ranked_shares
from ...deploy.classify import Classifier, Prediction
from ...deploy.detect import LEAST_SCORE, Detected, Detector, detects
from ...deploy.read import Reader, Reading, reads
from ...errors import CaffeliteError
from ...file_names import DEPLOY_NET
from ...runs.open_net import open_device
from ...zoo import named_files
from ..inference.deploy_weights import choose_weights, load_named_weights

ANSWERS = 5  # of a classifier, where the request names no number
WAITING = 1024  # pictures; more are refused until some are done
STEP = 4  # between the batch sizes for which the net is laid out


class Busy(Exception):
    """More pictures wait than the server holds."""


def deploy_net(name: str) -> Path:
    """The deploy net that a file, a folder or the name of a net that ships with weights means. Errors: there is
    none."""
    return Path(named_files.net((DEPLOY_NET,), name) or name)


class Predictor:
    """The net of a prototxt with the weights that it names or that lie beside it, ready to answer.

    operation: "classify", "detect", "segment" or "read". batch: pictures in a pass, at most. gpu: as `open_device`
    takes it. Errors: those of the classes that answer; no weights.
    """

    def __init__(self, path: Path, batch: int = 16, gpu: str | None = None):
        document = prototxt.read_net(path)
        choose_weights(document)
        kind: Any = Reader if reads(document) else Detector if detects(document) else Classifier
        dev = open_device(gpu)
        first = kind(document, dev, 1)
        load_named_weights(first.net, document)
        self._nets: dict[int, Any] = {1: first}
        size = STEP
        while size < batch * STEP and first.batch < batch:
            net = kind(document, dev, min(size, batch), share=first.net)
            if net.batch in self._nets:
                break
            self._nets[net.batch] = net
            size *= STEP
        for net in self._nets.values():
            net.warm_up()
        pixels = kind is Classifier and first.pixels
        self.operation = {Reader: "read", Detector: "detect"}.get(kind, "segment" if pixels else "classify")
        self.name, self.labels, self.shape = document.message.name or path.stem, first.labels, first.preparation.shape
        self.batch, self._first = max(self._nets), first

    def decode(self, content: bytes) -> np.ndarray:
        """The pixels of a picture's file. Errors: it cannot be read."""
        try:
            return channels_last(self._first.preparation.decoder(content))
        except ValueError as error:
            raise CaffeliteError(str(error)) from None

    def run(self, pictures: Sequence[np.ndarray]) -> list[Any]:
        """What the net says of each picture: at most ``batch`` of them, in one pass."""
        net = next(net for size, net in sorted(self._nets.items()) if size >= len(pictures))
        if self.operation == "read":
            return list(net.readings(pictures))
        return list(net.detections(pictures) if self.operation == "detect" else net.predictions(pictures))

    def record(self, picture: np.ndarray, answer: Any, top: int, threshold: float | None) -> dict[str, Any]:
        """An answer as JSON has it. top: how many classes, 0: the usual number. threshold: the least score of a
        box."""
        record: dict[str, Any] = {"height": picture.shape[0], "width": picture.shape[1], "notes": answer.notes}
        if isinstance(answer, Reading):
            return record | {"text": answer.text, "score": answer.score}
        if isinstance(answer, Detected):
            least = LEAST_SCORE if threshold is None else threshold
            boxes = [one.record() for one in answer.detections if one.score >= least]
            return record | {"objects": boxes[:top] if top else boxes}
        return record | (self._shares(picture, answer, top) if self._first.pixels else self._classes(answer, top))

    def _classes(self, answer: Prediction, top: int) -> dict[str, Any]:
        chosen = answer.top(top or ANSWERS) if self._first.classifies else range(len(self.labels))
        return {"answers": [{"label": self.labels[i], "class": i, "score": float(answer.scores[i])} for i in chosen]}

    def _shares(self, picture: np.ndarray, answer: Prediction, top: int) -> dict[str, Any]:
        size = picture.shape[0], picture.shape[1]
        classes = pixel_classes(answer.scores, self._first.output.shape[1:], size)
        ranked = ranked_shares(classes, len(self.labels))[: top or ANSWERS]
        mask = base64.b64encode(encode_png(classes.astype(np.uint8 if len(self.labels) <= 256 else np.uint16)))
        answers = [{"label": self.labels[i], "class": i, "share": share} for i, share in ranked]
        return {"answers": answers, "mask": mask.decode()}


class Batches:
    """A thread that runs a predictor on the pictures that wait: all at once, up to its batch. A context manager."""

    def __init__(self, predictor: Predictor, sizes: Any = None):
        self._predictor, self._observe = predictor, sizes or (lambda count: None)
        self._waiting: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)

    def __enter__(self) -> "Batches":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    def submit(self, pictures: Sequence[np.ndarray]) -> list[Future]:
        """The answers to come. Errors: Busy."""
        if self.waiting + len(pictures) > WAITING:
            raise Busy
        futures: list[Future] = [Future() for _ in pictures]
        for pair in zip(pictures, futures, strict=True):
            self._waiting.put(pair)
        return futures

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < self._predictor.batch and not self._waiting.empty():
                if (one := self._waiting.get()) is None:
                    self._answer(batch)
                    return
                batch.append(one)
            self._answer(batch)

    def _answer(self, batch: list[tuple[np.ndarray, Future]]) -> None:
        self._observe(len(batch))
        try:
            answers = self._predictor.run([picture for picture, _ in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            for one in batch:  # the others do not suffer from one picture
                self._answer([one])
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)
