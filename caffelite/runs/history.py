"""The history of a run, from its folder or from a log of Caffe or caffelite."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from .. import inputs, stored
from ..errors import CaffeliteError
from ..spreadsheet import csv_text
from .folder import LOSSES, METRICS, sessions

POINTS = 1000  # of a curve that is made of the losses alone


def is_loss(name: str) -> bool:
    """Whether less of a score is better, by its name."""
    return "loss" in name.lower() or "error" in name.lower()


_ONE_OF_SEVERAL = re.compile(r"(.+)\[(\d{1,9})\]")


def output_of(name: str) -> tuple[str, int | None]:
    """(output, index) of a score that is one value of an output with several, such as ``class_accuracy[3]``; (name,
    None) of another score."""
    several = _ONE_OF_SEVERAL.fullmatch(name)
    return (several[1], int(several[2])) if several else (name, None)


def single(names: Iterable[str]) -> list[str]:
    """The scores, each once, that are no value of an output with several: a list of runs has columns for these."""
    return [name for name in dict.fromkeys(names) if output_of(name)[1] is None]


@dataclass
class Row:
    """Scores by name, of the batch of one iteration or of a test before it. loss: the smoothed one; rate: NaN if it was
    not recorded."""

    iteration: int
    seconds: float
    values: dict[str, float] = field(default_factory=dict)
    loss: float = float("nan")
    rate: float = float("nan")


@dataclass
class History:
    """The records of a run, in order: ``train``, and ``tests`` by the number of the test net.

    last: the loss of the last iteration where that comes after the rows of ``train``, by the name that it has there.
    last_rate: the learning rate of the last iteration, where the run ended. undisplayed: losses at even intervals, of a
    run that displayed none. folder: of the run; None of a log.
    """

    name: str
    train: list[Row] = field(default_factory=list)
    tests: dict[int, list[Row]] = field(default_factory=dict)
    last: Row | None = None
    last_rate: Row | None = None
    undisplayed: list[Row] = field(default_factory=list)
    folder: Path | None = None

    def rows(self, net: int | None = None) -> list[Row]:
        """Of a test net, or of training."""
        return self.train if net is None else self.tests.setdefault(net, [])

    def add(self, net: int | None, row: Row) -> None:
        """Appends a row; it replaces rows of the same and later iterations, which a resumed run does again."""
        rows = self.rows(net)
        while rows and rows[-1].iteration >= row.iteration:
            rows.pop()
        rows.append(row)

    def curve(self, name: str, net: int | None = None) -> list[Row]:
        """The rows that have a score; a training loss continues to ``last``."""
        every = self.tests.get(net, []) if net is not None else self.train or self.undisplayed
        rows = [row for row in every if name in row.values]
        return [*rows, self.last] if net is None and self.last and name in self.last.values else rows

    def end(self, iteration: int, seconds: float, loss: float, losses: list[float]) -> None:
        """Records the loss of the last iteration. losses: at each row of ``train``; the score that equals them gets
        it."""
        pairs = list(zip(self.train, losses, strict=True))
        names = {name for row in self.train for name in row.values}
        same = [name for name in names if all(name in row.values and _equal(row.values[name], x) for row, x in pairs)]
        if len(same) == 1:
            self.last = Row(iteration, seconds, {same[0]: loss}, loss)


def _equal(one: float, other: float) -> bool:
    """Whether two numbers are the same to the digits of a log."""
    return math.isclose(one, other, rel_tol=1e-5) or (math.isnan(one) and math.isnan(other))


def read(path: str | Path, samples: int | None = None) -> History:
    """The history of a run's folder, of its csv, or of a log. samples: where it is given, of a large
    csv only lines at that many places and those of the end are read. Errors: none of these, or nothing in it
    yet."""
    path = Path(path)
    file = path / METRICS if path.is_dir() else path
    try:
        if samples is None or file.name != METRICS:  # the lines of a log belong together
            text = inputs.read_text(file, inputs.LOG, "replace")
        else:
            text = read_sampled(file, samples)[0].decode("utf-8", "replace")
    except OSError as error:
        raise _unreadable(file, error) from None
    name = path.name if path.is_dir() else (path.resolve().parent.name if path.name == METRICS else path.name)
    history = of_metrics(text, name) if text.startswith("iteration,") else of_log(text.splitlines(), name)
    if file.name == METRICS:
        history.folder = file.parent
        _add_losses(history, file.parent)
    if not history.train and not history.undisplayed and not any(history.tests.values()):
        what = f"{file} contains no iteration"
        raise CaffeliteError(what, expected="a run's metrics, or the log of a training by caffelite or Caffe")
    return history


def recorded_losses(folder: Path, count: int) -> np.ndarray:
    """The first ``count`` losses of a run's folder, which are read where they are used. Errors: OSError; ValueError
    where there are fewer."""
    with inputs.open_file(folder / LOSSES) as file:
        return np.memmap(file, "<f4", "r", shape=(count,)) if count else np.zeros(0, "<f4")


def _add_losses(history: History, folder: Path) -> None:
    """Takes the last loss of a run's records, at the time that the pace of its rows gives; of a run that displayed
    nothing the losses at even intervals. The last learning rate is the one that the outcome states."""
    try:
        count = inputs.check(folder / LOSSES).st_size // 4
        losses = recorded_losses(folder, count)
    except (OSError, ValueError):
        return
    outcome = _last_outcome(folder)
    if not history.train and len(losses):
        _add_undisplayed(history, losses, outcome)
    rows = history.train
    end = len(losses) - 1
    if rows and end > rows[-1].iteration:
        first, last = rows[0], rows[-1]
        pace = (last.seconds - first.seconds) / max(last.iteration - first.iteration, 1)
        seconds = last.seconds + pace * (end - last.iteration)
        history.end(end, seconds, float(losses[end]), losses[[row.iteration for row in rows]].tolist())
    iteration, rate = rate_at_end(folder) or (-1, math.nan)
    if iteration == end and rows:
        took = outcome.get("seconds")
        history.last_rate = Row(end, took if isinstance(took, float) else math.nan, rate=rate)


def rate_at_end(folder: Path) -> tuple[int, float] | None:
    """(last iteration, its learning rate) of a run whose last session has ended; None where its outcome states none.

    The rate has the digits that rows have (`recorder`), so that a constant rate stays constant.
    """
    outcome = _last_outcome(folder)
    iteration, rate = outcome.get("iteration"), outcome.get("rate")
    if not isinstance(iteration, int) or iteration < 1 or not isinstance(rate, float):
        return None
    with np.errstate(over="ignore"):
        return iteration - 1, float(str(np.float32(rate)))


def _last_outcome(folder: Path) -> dict:
    """How the last session of a run ended; empty where it lives, was killed, or run.json cannot be read."""
    last = (sessions(folder) or [{}])[-1]
    outcome = stored.chosen(last, {"outcome": {str: Any}}).get("outcome", {})
    return stored.chosen(outcome, {"iteration": int, "rate": float, "seconds": float})


def _add_undisplayed(history: History, losses: np.ndarray, outcome: dict) -> None:
    """Rows of training from the losses alone, at most POINTS of them and the last one. Their seconds follow from the
    tests, else from the time that the run took, else they are NaN."""
    known = [(row.iteration, row.seconds) for rows in history.tests.values() for row in rows]
    if isinstance(outcome.get("seconds"), float) and isinstance(outcome.get("iteration"), int):
        known += [(0, 0.0), (outcome["iteration"], outcome["seconds"])]
    known.sort()
    iterations, times = [at for at, _ in known], [at for _, at in known]
    end = len(losses) - 1
    for i in sorted({*range(0, end, -(-len(losses) // POINTS)), end}):
        seconds = float(np.interp(i, iterations, times)) if len(known) > 1 else math.nan
        history.undisplayed.append(Row(i, seconds, {"loss": float(losses[i])}, float(losses[i])))


def of_metrics(text: str, name: str) -> History:
    history = History(name)
    for net, row in _rows(text.splitlines(keepends=True)):
        history.add(net, row)
    return history


def read_tests(folder: Path) -> dict[int, list[Row]]:
    """The tests of a run's folder, by the number of the test net. Its rows of training, of which there may be many
    more, take no memory. Errors: there is no csv."""
    history = History(folder.name)
    try:
        with io.TextIOWrapper(io.BufferedReader(inputs.open_file(folder / METRICS)), "utf-8", "replace") as lines:
            for net, row in _rows(lines):
                if net is not None:
                    history.add(net, row)
    except OSError as error:
        raise _unreadable(folder / METRICS, error) from None
    return history.tests


def _unreadable(file: Path, error: OSError) -> CaffeliteError:
    why = inputs.reason(error)
    what = f"cannot read {file}: {why[0].lower()}{why[1:]}"
    return CaffeliteError(what, expected="the folder of a run, or a log")


def _rows(lines: Iterable[str]) -> Iterator[tuple[int | None, Row]]:
    """(test net or None, row) of each row of a csv."""
    for each in metric_rows(lines):
        scores = {name.removesuffix("."): value for name, value in each.items() if name not in FIXED}
        loss, rate = each.get("smoothed_loss", math.nan), each.get("rate", math.nan)
        yield net_of(each["phase"]), Row(each["iteration"], each["seconds"], scores, loss, rate)


NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?nan|[-+]?inf"
STAMP = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
ITERATION = re.compile(r"Iteration (\d{1,15})(?!\d)")
LOSS = re.compile(rf"Iteration \d+.*?, loss = ({NUMBER})")
TEST = re.compile(r"Testing net \(#(\d+)\)")
OUTPUT = re.compile(rf"(Train|Test) net output #(\d+): (\S+) = ({NUMBER})")
RATE = re.compile(rf"lr = ({NUMBER})")


@dataclass
class Event:
    """A line of a log that matters. kind: "output", "loss" or "rate"; net: None for training."""

    kind: str
    iteration: int
    seconds: float
    value: float
    net: int | None = None
    name: str = ""


def events(lines: Iterable[str]) -> Iterator[Event]:
    """The events in a log of Caffe's form. Seconds count from the first line about solving, or else from the first
    line."""
    iteration, net, clock, start = None, 0, _Clock(), None
    for line in lines:
        stamp = STAMP.match(line)
        now = clock(stamp) if stamp else clock.now
        if start is None and ("Solving" in line or "Iteration" in line):
            start = now
        if match := ITERATION.search(line):
            iteration = int(match[1])
            if test := TEST.search(line):
                net = int(test[1])
        if iteration is None:
            continue
        seconds = (now - start).total_seconds() if start else 0.0
        if match := OUTPUT.search(line):
            yield Event("output", iteration, seconds, float(match[4]), None if match[1] == "Train" else net, match[3])
        elif match := LOSS.search(line):
            yield Event("loss", iteration, seconds, float(match[1]))
        elif match := RATE.search(line):
            yield Event("rate", iteration, seconds, float(match[1]))


class _Clock:
    """The times of log lines, which name no year: a date that goes back starts another."""

    def __init__(self) -> None:
        self.now = datetime(2000, 1, 1)

    def __call__(self, stamp: re.Match) -> datetime:
        month, day, hour, minute, second = (int(group) for group in stamp.groups()[:5])
        micros = int((stamp[6] or "0").ljust(6, "0")[:6])
        with suppress(ValueError):  # no date at all
            moments = [
                datetime(self.now.year + years, month, 1, hour, minute, second, micros) + timedelta(days=day - 1)
                for years in (0, 1)
            ]
            self.now = moments[self.now - moments[0] > timedelta(days=180)]
        return self.now


def of_log(lines: Iterable[str], name: str) -> History:
    history, loss = History(name), (-1, 0.0, float("nan"))
    for event in events(lines):
        if event.kind == "loss":
            loss = event.iteration, event.seconds, event.value
        elif event.kind == "rate":
            if history.train and history.train[-1].iteration == event.iteration:
                history.train[-1].rate = event.value
        else:
            rows = history.rows(event.net)
            # A name that comes again starts another row: a resumed run logs an iteration twice.
            if not rows or rows[-1].iteration != event.iteration or event.name in rows[-1].values:
                history.add(event.net, Row(event.iteration, event.seconds))
                if event.net is None and loss[0] == event.iteration:
                    rows[-1].loss = loss[2]
            rows[-1].values[event.name] = event.value
    if history.train and loss[0] > history.train[-1].iteration:
        history.end(*loss, [row.loss for row in history.train])
    return history


READ_WHOLE = 4 << 20  # bytes of a table that is read as a whole
PIECE = 512  # bytes that are read at a place
TAIL = 1 << 16  # bytes of the end that are read
LIST_PLACES, CHART_PLACES = 256, 4096  # of a list of runs, of a chart


def read_sampled(path: Path, samples: int) -> tuple[bytes, int]:
    """(lines, offset of their end) of a table, whose last line may be incomplete: all of them up to WHOLE bytes, else
    the first line, some at each of ``samples`` even distances, and those of the end. Errors: OSError."""
    with inputs.open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= READ_WHOLE:
            body = file.read(size) or b""
            end = body.rfind(b"\n") + 1
            return body[:end], end
        chunks, at = [_head(file.read(TAIL) or b"")], 0
        for i in range(samples):
            position = max(at, len(chunks[0]) + i * (size - TAIL) // samples - 1)
            file.seek(position)
            lines = _whole(file.read(min(PIECE, size - TAIL - position)) or b"" if position < size - TAIL else b"")
            chunks.append(lines[1])
            at = position + lines[0]
        file.seek(max(at, size - TAIL - 1))
        start = file.tell()
        skipped, tail = _whole(file.read(TAIL + 1) or b"")
        return b"".join([*chunks, tail]), start + skipped


def _head(body: bytes) -> bytes:
    return body[: body.find(b"\n") + 1]


def _whole(body: bytes) -> tuple[int, bytes]:
    """(offset of the end, the whole lines) of bytes whose first line began earlier."""
    start, end = body.find(b"\n") + 1, body.rfind(b"\n") + 1
    return end, body[start:end] if start else b""


HEAD = ("NumIters", "Seconds", "LearningRate")


def write_tables(history: History, folder: Path) -> list[Path]:
    """Writes NAME.train and NAME.test, and NAME.test1 and so on for more test nets; the paths, in this order."""
    phases = [("train", history.train), *((f"test{net or ''}", rows) for net, rows in sorted(history.tests.items()))]
    phases += [("test", [])] * (not history.tests)
    rates, written = _rates(history), []
    for phase, rows in phases:
        path = folder / f"{history.name}.{phase}"
        try:
            with open(path, "w", newline="") as file:
                names = list(dict.fromkeys(name for row in rows for name in row.values))
                table: list[list[object]] = [[*HEAD, *names], *(_line(row, rates[id(row)], names) for row in rows)]
                file.write(csv_text(table) if rows else "")
        except OSError as error:
            raise CaffeliteError(f"cannot write {path}: {(error.strerror or '').lower()}") from None
        written.append(path)
    return written


def _rates(history: History) -> dict[int, float]:
    """The LearningRate of each row as Caffe's script computes it: the last one logged before the row, the first row's
    from its successor."""
    latest, rates = math.nan, {}
    tests = [(row.iteration, 0, row) for rows in history.tests.values() for row in rows]
    order = [*tests, *((row.iteration, 1, row) for row in history.train)]
    for _, trains, row in sorted(order, key=lambda entry: entry[:2]):
        rates[id(row)] = latest
        if trains and not math.isnan(row.rate):
            latest = row.rate
    for rows in (history.train, *history.tests.values()):
        if len(rows) > 1:
            rates[id(rows[0])] = rates[id(rows[1])]
    return rates


def _line(row: Row, rate: float, names: list[str]) -> list[object]:
    return [float(row.iteration), row.seconds, rate, *(row.values.get(name, "") for name in names)]


FIXED = ("iteration", "seconds", "phase", "rate", "smoothed_loss")  # the columns before the scores
_PHASE = re.compile(r"train|test\d{0,9}")


def metric_rows(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The values of each row by column, less those that it lacks: numbers, and ``phase`` as text. lines: the header and
    whole lines after it; one that a crash cut off is left out."""
    reader = csv.reader(line for line in lines if line.endswith("\n"))
    names = next(reader, [])
    for line in reader:
        try:
            texts = dict(zip(names, line, strict=True))
            fixed = {"iteration": int(texts["iteration"]), "phase": texts["phase"]}
            values = {name: float(text) for name, text in texts.items() if text and name not in fixed}
        except (ValueError, KeyError):
            continue
        if "seconds" in values and _PHASE.fullmatch(texts["phase"]):
            yield fixed | values


def net_of(phase: str) -> int | None:
    """The test net of a row's phase; None for training."""
    return None if phase == "train" else int(phase.removeprefix("test") or 0)
