"""The samples on which two programs are compared: random ones, arrays, pictures or the test data of a net."""

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..data.tables import CLASSES
from ..data.transforms import Transform
from ..deploy import known
from ..deploy.classify import gather
from ..deploy.preprocessing import Preparation
from ..errors import CaffeliteError
from ..export.onnx import drawn, drawn_pixels, to_pixels
from ..export.precision import batches as test_batches
from ..file_names import TRAIN_NET
from ..layers.base import unknown_types
from ..net.graph import Value
from ..onnx_import import read_inputs
from ..report.collect import head
from ..runs.open_net import open_net
from .net_program import NetProgram
from .programs import OpenShape, Program

RANDOM, MOST_ROWS = 8, 16  # random samples; samples that go through at once where programs leave that open
LABELS = "labels"  # of the samples, beside the inputs in an .npz file


@dataclass(frozen=True)
class Batch:
    """What each of the two programs is fed, by its own names of the inputs, and the classes, where they are known."""

    a: dict[str, np.ndarray]
    b: dict[str, np.ndarray]
    labels: np.ndarray | None = None


class Feeder:
    """Makes batches for two programs, whose inputs belong together by name, else by order. Errors: another number of
    inputs; one takes pixels, and no net tells how they become the other's numbers."""

    def __init__(self, a: Program, b: Program):
        self._a, self._b = a, b
        if len(a.inputs) != len(b.inputs):
            expected, found = ", ".join(a.inputs), ", ".join(b.inputs)
            raise CaffeliteError(f"{b.title} has other inputs than {a.title}", expected=expected, found=found)
        same = a.inputs.keys() == b.inputs.keys()
        self._pairs = {name: name if same else other for name, other in zip(a.inputs, b.inputs, strict=True)}
        self._check_channels()
        self.net: NetProgram | None = next((each for each in (a, b) if isinstance(each, NetProgram)), None)
        self._transforms = self._by_names_of_a()
        for name, other in self._pairs.items():
            if (name in a.pixels) != (other in b.pixels) and name not in self._transforms:
                what = f'"{name}" of one program takes pixels, and of the other what mean and scale make of them'
                raise CaffeliteError(what, remedy="compare each with the prototxt, which has mean and scale")

    def _check_channels(self) -> None:
        """Errors: inputs with other axes or channels. A net takes images of any size."""
        for name, other in self._pairs.items():
            mine, theirs = self._a.inputs[name], self._b.inputs[other]
            channels = {dim for shape in (mine, theirs) for dim in shape[1:2] if dim}
            if mine and theirs and (len(mine) != len(theirs) or len(channels) > 1):
                what = f'the inputs "{name}" of {self._a.title} and "{other}" of {self._b.title} differ'
                expected, found = ("x".join(str(dim or "?") for dim in shape) for shape in (mine, theirs))
                raise CaffeliteError(what, expected=expected, found=found)

    def _by_names_of_a(self) -> dict[str, Transform]:
        if self.net is None:
            return {}
        back = {name: name for name in self._pairs} if self.net is self._a else {o: n for n, o in self._pairs.items()}
        return {back[name]: transform for name, transform in self.net.transforms.items()}

    @property
    def rows(self) -> int:
        """The longest first axis of an input: so many samples show the layers."""
        return max((shape[0] or 1 for p in (self._a, self._b) for shape in p.inputs.values() if shape), default=1)

    @property
    def _at_once(self) -> int:
        """Samples of data that go through at once: as many as a program that fixes the batch takes."""
        fixed = any(shape and shape[0] for p in (self._a, self._b) if p is not self.net for shape in p.inputs.values())
        return self.rows if fixed else MOST_ROWS

    def shapes(self) -> dict[str, OpenShape]:
        """The shapes of a's inputs, as far as one of the two tells them. Errors: neither does."""
        shapes = {}
        for name, other in self._pairs.items():
            known = [each for each in (self._a.inputs[name], self._b.inputs[other]) if each]
            shape = tuple(next((d for d in dims if d), None) for dims in zip(*known, strict=False)) if known else ()
            if not shape or any(dim is None for dim in shape[1:]):
                found = "x".join(str(dim or "?") for dim in shape) or "nothing"
                raise CaffeliteError(
                    f'the shape of the input "{name}" is open', found=found, remedy="name data: -data FILE.npz"
                )
            shapes[name] = shape
        return shapes

    def batch(self, values: Mapping[str, np.ndarray], labels: np.ndarray | None = None) -> Batch:
        """values: by a's names what a net takes, after mean and scale; where no net is compared, what both take."""
        fed_a, fed_b = {}, {}
        for name, other in self._pairs.items():
            transform = self._transforms.get(name)
            both = [
                to_pixels(transform, values[name]) if transform and each in program.pixels else values[name]
                for program, each in ((self._a, name), (self._b, other))
            ]
            fed_a[name], fed_b[other] = both
        return Batch(fed_a, fed_b, labels)

    def random(self, samples: int, seed: int) -> Iterator[Batch]:
        """Normal numbers, or pixels; what layers need that read other inputs."""
        rng = np.random.default_rng(seed)
        nets = self.net.graph.inputs if self.net else {}
        shapes = {name: tuple(dim or 1 for dim in shape) for name, shape in self.shapes().items()}
        for _ in range(-(-samples // next(iter(shapes.values()))[0])):
            values = {}
            for name, sizes in shapes.items():
                value = nets.get(name if self.net is self._a else self._pairs[name])
                if name in self._transforms:
                    values[name] = drawn_pixels(self._transforms[name], sizes[0], rng)[1]
                elif name in self._a.pixels:
                    values[name] = rng.integers(0, 256, sizes).astype(np.float32)
                elif value is not None and value.shape == sizes:
                    values[name] = drawn(value, rng)
                else:
                    values[name] = rng.standard_normal(sizes).astype(np.float32)
            yield self.batch(values)

    def arrays(self, path: Path, samples: int) -> Iterator[Batch]:
        """Of an .npz file: an array for each input, by a's names, and ``labels`` where they are known."""
        stored = read_inputs(path)
        labels = stored.pop(LABELS, None) if LABELS not in self._a.inputs else None
        if stored.keys() != self._a.inputs.keys():
            expected = ", ".join([*self._a.inputs, f"and perhaps {LABELS}"])
            raise CaffeliteError(f"{path} has other arrays", expected=expected, found=", ".join(stored))
        counts = {
            len(values) if values.ndim else 0 for values in (*stored.values(), *([] if labels is None else [labels]))
        }
        if len(counts) != 1 or 0 in counts:
            found = ", ".join(f"{name} {list(values.shape)}" for name, values in stored.items())
            raise CaffeliteError(f"the arrays of {path} are not of the same samples", found=found)
        for start in range(0, min(samples, counts.pop()), self._at_once):
            rows = slice(start, min(start + self._at_once, samples))
            values = {name: np.asarray(each[rows], np.float32) for name, each in stored.items()}
            yield self.batch(values, None if labels is None else np.asarray(labels[rows], int))

    def pictures(self, names: str, samples: int, classes: int) -> Iterator[Batch]:
        """Of a picture, a folder of them, or a list or table with their classes."""
        documents = [each.document for each in (self.net, self._a, self._b) if each and each.document]
        if not documents:
            remedy = "compare with the prototxt, or name arrays: -data FILE.npz"
            raise CaffeliteError("nothing tells how pictures become the input", remedy=remedy)
        document, labels = documents[0], None
        preparation = Preparation(document.message, document.locate)
        if names.endswith((".txt", ".csv")):
            listed = known.read(
                Path(names), [*document.message.deploy_param.label] or [*map(str, range(classes))], CLASSES
            )
            files, labels = listed.files, listed.answers
        else:
            files = gather([names], glob.glob)
        name = next(iter(self._a.inputs))
        for start in range(0, min(samples, len(files)), self._at_once):
            chosen = files[start : min(start + self._at_once, samples)]
            views = [preparation.views(preparation.fitted(preparation.decode(file))[0]) for file in chosen]
            yield self.batch(
                {name: np.concatenate(views)}, None if labels is None else labels[start : start + len(chosen)]
            )

    def test_data(self, model: str, samples: int, dev: Any) -> Iterator[Batch]:
        """The test data of a net, with labels where it is a classifier."""
        validation = open_net(prototxt.read_net(model, tolerate=unknown_types.tolerate), dev, pb.TEST, keep=True)
        with closing(validation.graph):
            judged = head(validation.graph)
            labels: Value | None = judged.labels if judged else None
            names = {name: self._in_data(name, validation.graph.feeds) for name in self._pairs}
            for batch in test_batches(validation, [*names.values()], {}, samples, labels):
                yield self.batch({name: batch.inputs[each] for name, each in names.items()}, batch.labels)

    def _in_data(self, name: str, feeds: list[Any]) -> str:
        """The blob of the data layers that is an input: by its name in a or b; of a single one the first."""
        blobs = [value.name for node in feeds for value in node.tops]
        wanted = [each for each in (name, self._pairs[name]) if each in blobs]
        return wanted[0] if wanted else blobs[0] if len(self._pairs) == 1 and blobs else name


def is_net(name: str) -> bool:
    """Whether data are those of a net: a prototxt, or the folder of a project."""
    return name.endswith(".prototxt") or os.path.isfile(os.path.join(name, TRAIN_NET))
