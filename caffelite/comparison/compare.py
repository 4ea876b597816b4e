"""Compares two programs: their outputs, the layers whose names agree, and how many classes both name rightly."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import devices
from ..errors import CaffeliteError, keyword_errors
from ..proof.accuracy import Accuracy
from ..proof.differences import Differences, share
from ..proof.logits import paired
from . import samples as data
from .net_program import NetProgram, open_net
from .onnx_program import OnnxProgram
from .opencv_program import OpenCvProgram
from .programs import Layer, Program, plain
from .torch_program import TorchProgram

NEAR = 1e-4  # of the greatest value: what another order of summation may change
OPENCV = "opencv:"  # before a file that OpenCV reads
MOST = 1000  # samples of data, unless told otherwise


@dataclass(frozen=True)
class Row:
    """A layer or output by its name in a, and its greatest difference as a share of b's greatest value; infinite where
    the shapes differ."""

    name: str
    shape: tuple[int, ...]
    difference: float


@dataclass(frozen=True)
class Comparison:
    """samples: compared; near: what is allowed. layers: those of a's that b has too, on the first samples, in order.
    accuracy: of both, None where there are no labels."""

    samples: int
    near: float
    outputs: list[Row]
    layers: list[Row] = field(default_factory=list)
    accuracy: tuple[float | None, float | None] = None, None

    @property
    def same(self) -> bool:
        """Whether no output differs by more than ``near``."""
        return all(row.difference <= self.near for row in self.outputs)

    @property
    def first(self) -> Row | None:
        """The first layer that differs by more than ``near``; None where none does."""
        return next((row for row in self.layers if not row.difference <= self.near), None)

    def record(self) -> dict[str, Any]:
        """All of it as JSON has it; null for a difference that is no finite number."""
        tables = {
            name: [
                asdict(row) | {"difference": row.difference if np.isfinite(row.difference) else None} for row in rows
            ]
            for name, rows in (("outputs", self.outputs), ("layers", self.layers))
        }
        return asdict(self) | tables | {"same": self.same, "first": self.first.name if self.first else None}


def open_program(name: str, dev: Any) -> Program:
    """A program by its name: NET.prototxt, a folder or the name of a net that ships, with caffemodels behind commas;
    FILE.onnx; net.py of ``export -to torch``, whose code runs; any of the first two behind "opencv:". Errors: no such
    file; it cannot be read."""
    if name.startswith(OPENCV):
        file = name.removeprefix(OPENCV)
        like = _plain_program(file, dev)
        path = Path(like.document.locate.file if isinstance(like, NetProgram) else file)
        return OpenCvProgram(path, like, like.files if isinstance(like, NetProgram) else (), name)
    if name.endswith(".py"):
        return TorchProgram(Path(name), name)
    return _plain_program(name, dev)


def _plain_program(name: str, dev: Any) -> NetProgram | OnnxProgram:
    return OnnxProgram(Path(name), name) if name.endswith(".onnx") else open_net(name, dev)


@keyword_errors
def compare(
    a: str | os.PathLike,
    b: str | os.PathLike,
    data: str | os.PathLike | None = None,
    *,
    samples: int | None = None,
    near: float = NEAR,
    layers: bool = True,
    gpu: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares two programs that compute the same net, as ``caffelite compare`` does.

    a, b: a net (prototxt, folder, name of a net that ships; caffemodels behind commas), an ONNX file, net.py of
    ``caffelite export -to torch``, whose code runs, or "opencv:" and one of the first two. data: a picture, a folder of
    them, a list or table with their classes, an .npz file of inputs (and ``labels``), or a net with test data; None:
    random inputs. samples: at most so many; default: 8 random ones, or 1,000 of data. near: what is allowed, as a share
    of the greatest value of each output. layers: whether to compare layers. gpu: for nets. seed: of random inputs.
    Errors: CaffeliteError where one of them cannot be read or run, or their inputs or outputs do not belong together.
    """
    dev = devices.open_device(gpu)
    return compare_programs(
        open_program(os.fspath(a), dev),
        open_program(os.fspath(b), dev),
        None if data is None else os.fspath(data),
        dev,
        samples,
        near,
        layers,
        seed,
    )


def compare_programs(
    a: Program,
    b: Program,
    source: str | None,
    dev: Any,
    samples: int | None = None,
    near: float = NEAR,
    layers: bool = True,
    seed: int = 0,
) -> Comparison:
    """As `compare`, of programs that are open. dev: for the net of test data."""
    feeder = data.Feeder(a, b)
    differences = Differences(near, b.title, a.title)
    shapes: dict[str, tuple[int, ...]] = {}
    judged, done, rows = (Accuracy(), Accuracy()), 0, list[Row]()
    for batch in _batches(feeder, a, source, samples, seed, dev):
        made, theirs = a.outputs(batch.a), b.outputs(batch.b)
        for name, (one, other) in _pairs(made, theirs, a, b).items():
            one, other = _in_order(one), _in_order(other)
            shapes[name] = one.shape
            differences.measure(name, one, _shaped(other, one))
        for name, (one, other) in _logits(a.logits(batch.a), b.logits(batch.b)).items():
            shapes[name] = one.shape
            differences.measure(name, one, other)
        for accuracy, scores in zip(judged, (made, theirs), strict=True):
            accuracy.add(scores, batch.labels)
        if layers and not done:
            first = {name: values[: feeder.rows] for name, values in batch.a.items()}
            other_first = {name: values[: feeder.rows] for name, values in batch.b.items()}
            rows = _layer_rows(a.layers(first), b.layers(other_first))
        done += len(next(iter(batch.a.values())))
    outputs = [Row(name, shapes[name], value) for name, value in differences.shares.items()]
    return Comparison(done, near, outputs, rows, (judged[0].share, judged[1].share))


def _batches(
    feeder: data.Feeder, a: Program, source: str | None, samples: int | None, seed: int, dev: Any
) -> Iterator[data.Batch]:
    if source is None:
        return feeder.random(samples or data.RANDOM, seed)
    if not os.path.exists(source) and not any(sign in source for sign in "*?["):
        raise CaffeliteError(f"no file {source}", expected="pictures, an .npz file, or a net with test data")
    if source.endswith(".npz"):
        return feeder.arrays(Path(source), samples or MOST)
    if data.is_net(source):
        return feeder.test_data(source, samples or MOST, dev)
    return feeder.pictures(source, samples or MOST, _classes(a) if source.endswith(".txt") else 0)


def _classes(program: Program) -> int:
    """The classes of a program's only output."""
    zeros = {name: np.zeros([dim or 1 for dim in shape], np.float32) for name, shape in program.inputs.items()}
    return max((values.shape[1] for values in program.outputs(zeros).values() if values.ndim > 1), default=0)


def _pairs(
    made: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], a: Program, b: Program
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The outputs that belong together, by a's names: those of equal names, else by order where there are as many."""
    by_name = {plain(name): values for name, values in theirs.items()}
    if {plain(name) for name in made} <= by_name.keys():
        return {name: (values, by_name[plain(name)]) for name, values in made.items()}
    if len(made) != len(theirs):
        expected, found = ", ".join(made), ", ".join(theirs)
        raise CaffeliteError(f"{b.title} has other outputs than {a.title}", expected=expected, found=found)
    return {name: (values, other) for (name, values), other in zip(made.items(), theirs.values(), strict=True)}


def _logits(mine: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The logits of outputs that belong together, as outputs do; none where the two do not tell as many."""
    by_name = {plain(name): values for name, values in theirs.items()}
    if not {plain(name) for name in mine} <= by_name.keys():
        by_name = dict(zip(map(plain, mine), theirs.values(), strict=False)) if len(mine) == len(theirs) else {}
    return paired(mine, {name: by_name[plain(name)] for name in mine if plain(name) in by_name})


def _in_order(values: np.ndarray) -> np.ndarray:
    """Rows of detections (1, 1, M, 7) by image, class and score, which programs order as they like, without rows of
    zeros, by which some fill up; other values as they are."""
    if values.ndim != 4 or values.shape[:2] != (1, 1) or values.shape[3] != 7:
        return values
    rows = values[0, 0][values[0, 0].any(1)]
    return rows[np.lexsort((-rows[:, 2], rows[:, 1], rows[:, 0]))][None, None]


def _shaped(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The values in another array's shape, where they differ in axes of one element alone."""
    same = [n for n in values.shape if n > 1] == [n for n in like.shape if n > 1]
    return values.reshape(like.shape) if same else values


def _layer_rows(mine: list[Layer], theirs: list[Layer]) -> list[Row]:
    """A row for each layer that both have under one name, in a's order. Those of other shapes are no pair: programs
    divide layers differently."""
    by_name = {plain(name): layer for layer in reversed(theirs) for name in reversed(layer.names)}
    rows = []
    for layer in mine:
        other = next((by_name[plain(name)] for name in layer.names if plain(name) in by_name), None)
        if other is None:
            continue
        one = _in_order(layer.values)
        values = _shaped(_in_order(other.values), one)
        if values.shape == one.shape:
            rows.append(Row(layer.names[0], one.shape, share(values, one)))
    return rows
