"""Classifies images with a deploy net: its preprocessing, labels and output."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.listing import clutter_of, describe_left_out
from ..data.pictures import ENDINGS
from ..errors import CaffeliteError, did_you_mean
from ..net.net import Net
from ..prototxt import Document
from .preprocessing import VIEWS, Failed, Picture, Preparation, fitting_labels, in_batches, open_deploy_net

MOST_ROWS = 64  # of a batch

log = logging.getLogger("caffelite")


@dataclass
class Prediction:
    """file: the picture's, its content or its pixels. scores: by class. seconds: from the picture to them. notes: what
    the preparation did to the picture."""

    file: Picture
    scores: np.ndarray
    seconds: float
    notes: list[str] = field(default_factory=list)

    def top(self, count: int) -> list[int]:
        """The classes of the greatest scores, best first."""
        return np.argsort(-self.scores, kind="stable")[:count].tolist()


class Classifier:
    """A deploy net on a device. pictures: the maximum number of images; oversample: averages the scores of ten views of
    each.

    labels: one a class; by default the net's, or numbers. output: the blob with the scores; by default "prob", or the
    only output; scores N×C×H×W are of the classes of pixels. state: of the net, in phase TEST; by default as the file
    specifies. share: a net of the same file; its weights are used. Errors: those of `Preparation`; no or several
    outputs; a number of labels unlike that of scores.
    """

    def __init__(
        self,
        document: Document,
        dev,
        pictures: int = 1,
        oversample: bool = False,
        labels: list[str] | None = None,
        output: str | None = None,
        state: pb.NetState | None = None,
        share: Net | None = None,
    ):
        self.preparation = Preparation(document.message, document.locate)
        self.answer = document.message.deploy_param.answer
        self.classifies = self.answer != pb.DeployParameter.NUMBERS
        self.oversample, self.rows = oversample, VIEWS if oversample else 1
        self.batch = max(1, min(pictures, MOST_ROWS // self.rows))
        self.net = open_deploy_net(document.message, document.locate, dev, self.batch * self.rows, state, share)
        self.output = self._output(output)
        # of a net that classifies the pixels of an image: rows and columns of the scores
        self.pixels = self.output.shape[2:] if len(self.output.shape) == 4 and self.output.shape[2:] > (1, 1) else ()
        count = self.output.shape[1] if self.pixels else int(np.prod(self.output.shape[1:]))
        names = list(labels if labels is not None else document.message.deploy_param.label)
        self.labels = fitting_labels(names, count, labels is not None, document.locate, f"{count}, one a score")

    def _output(self, name: str | None):
        outputs = {v.name: v for v in self.net.graph.outputs if v.shape[:1] == (self.batch * self.rows,)}
        if name is None:
            name = "prob" if "prob" in outputs else next(iter(outputs)) if len(outputs) == 1 else None
        if name not in outputs:
            what = f'no output "{name}"' if name else "it is not clear which output has the scores"
            remedy = did_you_mean(name, outputs) if name else "name it with -output"
            raise CaffeliteError(what, expected=f"one of {', '.join(outputs) or 'no outputs'}", remedy=remedy)
        return outputs[name]

    def warm_up(self) -> None:
        """One pass, so that no picture's time has what only the first costs. The weights stay as they are then."""
        self.net.forward(0)
        self.net.dev.download(self.net.data[self.output])
        self.net.keep_parameters()

    def predictions(self, files: Sequence[Picture], failed: Failed | None = None) -> Iterator[Prediction]:
        """One prediction per image, in their order: files, their content, or pixels as `Preparation.decode`
        takes them.

        failed(picture, error): called for an image that cannot be read, which then has no prediction; without it the
        error is raised.
        """
        dev, name = self.net.dev, self.preparation.name
        rows = np.zeros(self.net.graph.inputs[name].shape, np.float32)

        def prepare(file: Picture, position: int, row: int) -> list[str]:
            return self._prepare(file, position, rows[row * self.rows : (row + 1) * self.rows])

        for batch, begun in in_batches(files, self.batch, prepare, failed):
            self.net.set_inputs(**{name: rows})
            self.net.forward(0)
            scores = dev.download(self.net.data[self.output]).reshape(self.batch, self.rows, -1)
            scores = scores[: len(batch)].astype(np.float64).mean(1)
            seconds = (time.perf_counter() - begun) / len(batch)
            if not np.isfinite(scores).all():
                file, position, _ = batch[int(np.flatnonzero(~np.isfinite(scores).all(1))[0])]
                remedy = "are its weights those of this net, and is the input scaled as in training?"
                raise CaffeliteError(f"{_named(file, position)}: the net's scores are not finite", remedy=remedy)
            for (file, _, notes), row in zip(batch, scores, strict=True):
                yield Prediction(file, row, seconds, notes)

    def _prepare(self, file: Picture, position: int, rows: np.ndarray) -> list[str]:
        """Writes a picture's views into ``rows``; returns what was done to it."""
        try:
            image, notes = self.preparation.fitted(self.preparation.decode(file))
        except CaffeliteError as error:
            raise (CaffeliteError(f"picture {position}: {error}") if isinstance(file, bytes) else error) from None
        try:
            rows[:] = self.preparation.views(image, self.oversample)
        except CaffeliteError as error:
            raise CaffeliteError(f"{_named(file, position)}: {error}") from None
        return notes


def _named(picture: Picture, position: int) -> str:
    return str(picture) if isinstance(picture, Path) else f"picture {position}"


def gather(names: list[str], expand: Callable[[str], list[str]]) -> list[Path]:
    """The image files named by files, folders (recursively) and patterns, each once; other files of a folder are named
    in a warning, but for what systems put there. Errors: no such file."""
    paths: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.is_file() and not clutter_of(p.relative_to(path).parts))
            others = [str(p) for p in files if p.suffix.lower() not in ENDINGS]
            files = [p for p in files if p.suffix.lower() in ENDINGS]
            if others:
                log.warning("%s: no pictures by their names, %s", name, describe_left_out(others))
            what = f"{name} holds no pictures"
        else:
            files = [path] if path.exists() else [Path(p) for p in sorted(expand(name))]
            what = f"no file {name}"
        if not files:
            raise CaffeliteError(what, expected=f"pictures ({', '.join(ENDINGS)})")
        paths.update(dict.fromkeys(files))
    return list(paths)
