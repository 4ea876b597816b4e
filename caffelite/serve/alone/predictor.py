"""A model that answers for pictures, and the passes over those that wait, several at once."""

import asyncio
import base64
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import prototxt
from ...data import image_headers
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
STEP = 2  # between the batch sizes for which the net is laid out
MOST_QUICK = 1 << 18  # pixels of pictures that are decoded quickly
QUICK = 0.005  # seconds of a pass


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
        self.draws = self.operation == "segment"  # a picture for each picture
        self._seconds = {size: self._measured(size) for size in self._nets}

    @staticmethod
    def are_large(contents: Sequence[bytes]) -> bool:
        """Whether to decode the files of pictures takes long, or may take long."""
        total = 0
        for content in contents:
            try:
                pixels = image_headers.check(content)
            except ValueError:  # which `decode` says
                continue
            if not pixels:
                return True
            total += pixels
        return total > MOST_QUICK

    def decode(self, content: bytes) -> np.ndarray:
        """The pixels of a picture's file. Errors: it cannot be read."""
        try:
            return channels_last(self._first.preparation.decoder(content))
        except ValueError as error:
            raise CaffeliteError(str(error)) from None

    def _measured(self, count: int) -> float:
        """The seconds of a pass of ``count`` pictures of the size that the net takes."""
        channels, *size = self.shape
        pictures = [np.zeros((*size, channels) if channels > 1 else size, np.uint8)] * count
        seconds = []
        for _ in range(3):
            begun = time.perf_counter()
            self.run(pictures)
            seconds.append(time.perf_counter() - begun)
        return min(seconds)

    def seconds(self, count: int) -> float:
        """Of a pass of ``count`` pictures, about."""
        return self._seconds[self._size(count)]

    def _size(self, count: int) -> int:
        """Of the net for so many pictures."""
        return min(size for size in self._nets if size >= count)

    def run(self, pictures: Sequence[np.ndarray]) -> list[Any]:
        """What the net says of each picture: at most ``batch`` of them, in one pass."""
        net = self._nets[self._size(len(pictures))]
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


@dataclass
class _Request:
    """answers: of its pictures, or the errors of those that failed; left: how many of them are to come."""

    future: asyncio.Future
    answers: list[Any]
    left: int


class Batches:
    """Runs a predictor on the pictures that wait: all at once, up to its batch. A context manager; all else is called
    by the event loop's thread.

    Quick passes run in that thread: to hand them to another one and back would take as long. sizes(count): called for
    each pass.
    """

    def __init__(self, predictor: Predictor, sizes: Callable[[int], None] | None = None):
        self._predictor, self._observe = predictor, sizes or (lambda count: None)
        self._waiting: deque[tuple[np.ndarray, _Request, int]] = deque()
        self._runs = False
        self._thread = ThreadPoolExecutor(1, "inference")

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def answers(self, pictures: Sequence[np.ndarray]) -> list[Any]:
        """What the net says of each picture, or its error. Errors: Busy."""
        if len(self._waiting) + len(pictures) > WAITING:
            raise Busy
        if not pictures:
            return []
        loop = asyncio.get_running_loop()
        request = _Request(loop.create_future(), [None] * len(pictures), len(pictures))
        self._waiting.extend((picture, request, i) for i, picture in enumerate(pictures))
        if not self._runs:
            self._runs = True
            loop.call_soon(self._start, loop)  # after the other requests that have just come
        return await request.future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch: list[tuple[Any, _Request, int]] = []
        while self._waiting and len(batch) < self._predictor.batch:
            one = self._waiting.popleft()
            if not one[1].future.done():  # its client still waits
                batch.append(one)
        if not batch:
            self._runs = False
            return
        pictures = [picture for picture, _, _ in batch]
        if self._predictor.seconds(len(pictures)) <= QUICK:
            self._end(loop, batch, self._run(pictures))
            return
        pass_ = self._thread.submit(self._run, pictures)
        pass_.add_done_callback(lambda done: loop.call_soon_threadsafe(self._end, loop, batch, done.result()))

    def _end(self, loop: asyncio.AbstractEventLoop, batch: list[tuple[Any, _Request, int]], answers: list[Any]) -> None:
        for (_, request, i), answer in zip(batch, answers, strict=True):
            request.answers[i] = answer
            request.left -= 1
            if not request.left and not request.future.done():
                request.future.set_result(request.answers)
        if self._waiting:
            loop.call_soon(self._start, loop)
        else:
            self._runs = False

    def _run(self, pictures: list[np.ndarray]) -> list[Any]:
        self._observe(len(pictures))
        try:
            return self._predictor.run(pictures)
        except Exception as error:
            if len(pictures) == 1:
                return [error]
            return [answer for picture in pictures for answer in self._run([picture])]  # one picture fails alone
