"""What Jupyter shows: pictures, tables of predictions and of layers, and curves that grow while a net trains."""

from __future__ import annotations

import base64
import html
import math
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import inputs
from .data import images
from .data.pictures import decode
from .errors import CaffeliteError, missing_extra
from .inspection import picture as drawing, scene, summary
from .inspection.nets import times
from .net.graph import Graph
from .progress import notebook_bar
from .runs.history import History, Row
from .runs.picture import picture
from .training.hooks.hook import Hook
from .training.scores import Scores
from .training.state import TrainingState
from .training.trainer import Trainer

PERIOD = 2.0  # seconds between two drawings of a curve that grows
MOST_ROWS = 2000  # losses of a curve; of more, every second is dropped
THUMBNAIL = 64  # pixels of the longer side


class Picture:
    """A picture that a notebook shows. content: of form "svg" or "png"."""

    def __init__(self, content: bytes, form: str = "svg"):
        self.content, self.form = content, form

    def save(self, file: str | Path) -> None:
        """Writes it. Errors: a name with another ending than the picture's form."""
        if Path(file).suffix.lower() != f".{self.form}":
            raise CaffeliteError(f"{file}: the picture is {self.form}", expected=f"a name that ends with .{self.form}")
        Path(file).write_bytes(self.content)

    def _repr_svg_(self) -> str | None:
        text = self.content.decode() if self.form == "svg" else ""
        return text[text.index("<svg") :] if text else None

    def _repr_png_(self) -> bytes | None:
        return self.content if self.form == "png" else None


class Predictions(list):
    """For each picture its predictions, the best first, as `Net.classify` returns them for one. pictures: files or
    pixels."""

    def __init__(self, rows: Iterable[list[Any]], pictures: Sequence[Path | np.ndarray]):
        super().__init__(rows)
        self.pictures = list(pictures)

    def frame(self) -> Any:
        """A pandas DataFrame with columns picture, label and score, of the best of each. Errors: pandas is not
        installed."""
        rows = [(name, row[0].label, row[0].score) for name, row in zip(self._names(), self, strict=True)]
        return pandas().DataFrame(rows, columns=["picture", "label", "score"])

    def _names(self) -> list[str]:
        return [str(one) if isinstance(one, Path) else f"picture {i}" for i, one in enumerate(self.pictures)]

    def _repr_html_(self) -> str:
        rows = []
        for name, one, predictions in zip(self._names(), self.pictures, self, strict=True):
            scores = "<br>".join(f"{html.escape(each.label)} {each.score:.3f}" for each in predictions)
            rows.append(f"<tr><td>{_thumbnail(one)}</td><td>{html.escape(name)}</td><td>{scores}</td></tr>")
        return f"<table><tr><th></th><th>picture</th><th>scores</th></tr>{''.join(rows)}</table>"


def _thumbnail(one: Path | np.ndarray) -> str:
    if isinstance(one, np.ndarray):
        image = images.channels_first(one)[:3]
    else:
        image = decode(inputs.read(one, inputs.IMAGE), color=True)
    scale = THUMBNAIL / max(image.shape[1:])
    if scale < 1:
        image = images.resize(image, *(max(1, round(scale * side)) for side in image.shape[1:]))
    pixels = images.channels_last(image)
    data = base64.b64encode(images.encode_png(pixels[..., ::-1] if pixels.ndim == 3 else pixels)).decode()
    return f'<img width="{THUMBNAIL}" src="data:image/png;base64,{data}">'


def net_html(graph: Graph, names: Collection[str]) -> str:
    """A table of the layers of these names, and the net as a picture."""
    table = summary.table(graph, [])
    head = "".join(f"<th>{name}</th>" for name in ("layer", "type", "shape", "parameters"))
    rows = ""
    for row in (each for each in table.rows if each.name in names):
        shapes, parameters = " ".join(map(times, row.tops)), f"{row.parameters:,}" if row.parameters else ""
        cells = html.escape(row.name), row.type, shapes, parameters
        rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    title = f"{html.escape(graph.name)}: {table.phase}, batches of {table.batch}, {table.parameters:,} parameters"
    drawn = scene.svg(drawing.picture(graph))
    return (
        f"<b>{title}</b><table><tr>{head}</tr>{rows}</table><details><summary>picture</summary>"
        f"{drawn[drawn.index('<svg') :]}</details>"
    )


class Curve(Hook):
    """The losses and tests of a trainer from now on, as a picture. name: the picture's title."""

    def __init__(self, trainer: Trainer, name: str) -> None:
        self._trainer, self.history, self._start = trainer, History(name), time.monotonic()
        trainer.reports.hooks.add(self)
        self.live: Live | None = None  # what is told of iterations

    def after_iteration(self, state: TrainingState) -> None:
        if self.live:
            self.live.update(state.iteration)

    def _row(self, iteration: int, values: dict[str, float]) -> Row:
        return Row(iteration, time.monotonic() - self._start, values)

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        rows = self.history.train
        rows += [self._row(iteration, {"loss": value}) for iteration, value in enumerate(values, first + 1)]
        if len(rows) > MOST_ROWS:
            del rows[::2]

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        named = [(name, values.tolist()) for name, _, values in scores.counted()]
        single = {name: values[0] for name, values in named if len(values) == 1}
        several = {f"{name}[{i}]": each for name, values in named if len(values) > 1 for i, each in enumerate(values)}
        self.history.add(which, self._row(state.iteration, single | several))

    def restored(self, state: TrainingState) -> None:
        for rows in (self.history.train, *self.history.tests.values()):
            rows[:] = [row for row in rows if row.iteration <= state.iteration]

    def picture(self) -> Picture | None:
        """None before the first loss. Errors: matplotlib is not installed."""
        self._trainer.report_losses()  # which come in blocks
        finite = any(math.isfinite(value) for row in self.history.train for value in row.values.values())
        return Picture(picture([self.history], "svg")) if finite else None


class Live:
    """A bar, and in a notebook a curve, of a training that runs. first, total: iterations. shown: False shows
    neither."""

    def __init__(self, curve: Curve, first: int, total: int, shown: bool):
        self._curve, self._next = curve, 0.0
        self._handle: Any = None
        self._bar = notebook_bar(total, first, shown)
        if shown and in_notebook():
            from IPython.display import display

            self._handle = display(display_id=True)

    def update(self, iteration: int) -> None:
        self._bar.update(iteration - self._bar.n)
        if self._handle and time.monotonic() >= self._next:
            self._draw()
            self._next = time.monotonic() + PERIOD

    def _draw(self) -> None:
        try:
            if drawn := self._curve.picture():
                self._handle.update(drawn)
        except CaffeliteError:
            self._handle = None  # without matplotlib the bar is enough

    def close(self) -> None:
        if self._handle:
            self._draw()
        self._bar.close()


def in_notebook() -> bool:
    """Whether Jupyter runs this program."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return bool(shell) and hasattr(shell, "kernel")


def pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise missing_extra("pandas", "notebook", "a table") from None
    return pandas
