"""Counts what a training iteration moves and launches on a GPU: a model, not a measurement, and no GPU is needed.

The net is bound to the GPU device as for training, but on a backend that runs nothing: it records each kernel, copy and
matrix product with its arrays (recording_backend.py). So the figures follow the code.

Bytes: each array of a launch counts once, as read or as written, however often the kernel touches it and whatever the
cache holds; what is copied from the host counts nowhere. Time: a launch takes 1 µs for the node of a CUDA graph, and
the longest of 1.8 µs, its bytes at 2.75 TB/s, and its products at half the peak of its precision; launches follow each
other, but for those on streams that fork. It is no floor: what a cache still holds comes faster. cuDNN's plans count as
one launch each, with bias and ReLU in the epilogue.

Examples:
  python tools/gpu_traffic.py models/resnet50/train_val.prototxt -precision fp16 -batch 128
  python tools/gpu_traffic.py models/lenet/train_val.prototxt -by kernel
  python tools/gpu_traffic.py models/resnet50/train_val.prototxt models/lenet/train_val.prototxt -precision fp16,tf32 \
    -by net
"""

import argparse
import logging
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from recording_backend import OUTSIDE, Launch, RecordingBackend, reserved

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data.pipeline import Batch
from caffelite.devices.cuda import GPU
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.inspection.feeds import Feeds, parse_shapes, rebatched
from caffelite.layers import REGISTRY
from caffelite.layers.base.feeding import feeding_type
from caffelite.net import graph
from caffelite.net.net import Net
from caffelite.training import build_trainer

PRECISIONS = ("tf32", "fp16", "bf16", "fp32")


class Samples:
    """A source of batches that hold nothing. images: the first top is made of pixels."""

    length, position, allocate = None, 0, None

    def __init__(self, shapes: list[tuple[int, ...]], images: bool):
        self.shapes = shapes
        self._arrays = [np.zeros(shape, np.float32) for shape in (shapes[1:] if images else shapes)]
        if images:
            self.transform = SimpleNamespace(mean=None, scale=1.0)
            self._pixels, self._picks = (
                reserved(math.prod(shapes[0])).reshape(shapes[0]),
                np.zeros((shapes[0][0], 4), np.int32),
            )

    def draw(self) -> Batch:
        return Batch(self._arrays, self._pixels, self._picks)

    def next(self) -> list[np.ndarray]:
        return self._arrays

    def close(self) -> None:
        pass


def read(path: str, batch: int | None) -> pb.NetParameter:
    """The net, its weights to start from 0: drawing them would take time."""
    net = prototxt.read_net(path).message
    for spec in net.layer:
        for _, message in spec.ListFields():
            if hasattr(message, "weight_filler"):
                message.ClearField("weight_filler")
    return rebatched(net, batch) if batch else net


def iteration(net: pb.NetParameter, precision: str, shapes: dict) -> RecordingBackend:
    """One training iteration with SGD, as a graph captures it."""
    recorder, feeds = RecordingBackend(precision == "fp32"), Feeds(shapes)

    def source(spec, phase, locate) -> Samples:
        opened = feeds(spec, phase, locate)
        opened.close()
        return Samples([tuple(shape) for shape in opened.shapes], feeding_type(REGISTRY[spec.type]).reads_images)

    recipe = pb.SolverParameter(
        net_param=net, lr_policy="fixed", base_lr=0.01, momentum=0.9, weight_decay=5e-4, max_iter=3, random_seed=1
    )
    recipe.snapshot_after_train = False
    device = GPU(0, "float32", recorder, precision, eager="nothing runs")

    def open_net(spec, share: Net | None) -> Net:
        wiring = graph.build(spec.message, spec.state, spec.locate, source)
        return Net.of(wiring, device, seed=recipe.random_seed, share=share)

    solver = build_trainer(recipe, NOWHERE, "model", device, open_net=open_net)
    watch(recorder, solver.net)
    for _ in range(2):  # memory that grows does so in the first iterations
        solver.learning.captured.run(1)
    recorder.begin()
    solver.learning.captured.queue(1, 0)
    return recorder


def watch(recorder: RecordingBackend, net) -> None:
    """Sets the layer that each recorded launch belongs to."""

    def labeled(node, run: Callable, way: str) -> tuple:
        def step() -> None:
            recorder.layer, recorder.way = node.name, way
            run()
            recorder.layer, recorder.way = OUTSIDE, "update"

        return node, step

    net._forward[:] = [labeled(node, run, "forward") for node, run in net._forward]
    net._backward[:] = [labeled(node, run, "backward") for node, run in net._backward]


class Total(NamedTuple):
    launches: int
    read: int
    written: int
    seconds: float


def totals(launches: list[Launch], key: Callable[[Launch], tuple]) -> dict[tuple, Total]:
    """Sums by what ``key`` tells, in the order in which that first appears."""
    found: dict[tuple, list[Launch]] = {}
    for launch in launches:
        found.setdefault(key(launch), []).append(launch)
    return {
        k: Total(len(some), sum(x.read for x in some), sum(x.written for x in some), sum(x.seconds for x in some))
        for k, some in found.items()
    }


HEAD = ("launches", "read, MB", "written, MB", "model, µs")


def row(words: tuple[str, ...], total: Total, *more: str) -> str:
    cells = (
        *words,
        f"{total.launches}",
        f"{total.read / 1e6:,.2f}",
        f"{total.written / 1e6:,.2f}",
        f"{1e6 * total.seconds:,.1f}",
        *more,
    )
    return f"| {' | '.join(cells)} |"


def head(words: tuple[str, ...], *more: str) -> Iterator[str]:
    yield f"| {' | '.join((*words, *HEAD, *more))} |"
    yield f"| {' | '.join(['---'] * len(words) + ['---:'] * (len(HEAD) + len(more)))} |"


def table(recorder: RecordingBackend, by: str) -> Iterator[str]:
    """The iteration's rows in markdown, by layer or by kernel, the largest kernels first; then all of it, as long as
    its longest path."""
    if by == "layer":
        words, found = ("layer", "pass"), totals(recorder.launches, lambda x: (x.layer, x.way))
    else:
        words, found = ("kernel",), totals(recorder.launches, lambda x: (x.kernel,))
        found = dict(sorted(found.items(), key=lambda pair: -pair[1].seconds))
    yield from head(words)
    for names, total in found.items():
        yield row(names, total)
    yield row(("all", *[""] * (len(words) - 1)), whole(recorder))


def whole(recorder: RecordingBackend) -> Total:
    """All launches; the time is that of the longest path over streams."""
    (total,) = totals(recorder.launches, lambda _: ()).values()
    return total._replace(seconds=recorder.stream.time)


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="prototxts of nets that train")
    parser.add_argument(
        "-precision", default="tf32", help=f"one or more of {', '.join(PRECISIONS)}, with commas; default: tf32"
    )
    parser.add_argument(
        "-batch",
        help="images of an iteration, one number or one for each MODEL, with commas; default: as the files have it",
    )
    parser.add_argument(
        "-shape", action="append", default=[], metavar="TOP=CxHxW", help="of a sample, where the file does not tell it"
    )
    parser.add_argument("-by", choices=("layer", "kernel", "net"), default="layer", help="what a row is")
    given = parser.parse_args(words)
    given.precision = given.precision.split(",")
    if unknown := sorted({*given.precision} - {*PRECISIONS}):
        parser.error(f"unknown precision {', '.join(unknown)}; known are {', '.join(PRECISIONS)}")
    try:
        given.batch = [int(word) for word in given.batch.split(",")] if given.batch else [None]
    except ValueError:
        parser.error(f"-batch {given.batch}: expected integers with commas")
    if len(given.batch) not in (1, len(given.models)) or any(b is not None and b < 1 for b in given.batch):
        parser.error("-batch: expected one number above 0, or one for each MODEL")
    given.batch *= len(given.models) if len(given.batch) == 1 else 1
    return given


def main(words: list[str]) -> int:
    given = arguments(words)
    logging.getLogger("caffelite").setLevel(logging.ERROR)
    one = given.by != "net"
    if not one:
        print("\n".join(head(("net, batch", "precision"), "in a row")))
    for path, batch in zip(given.models, given.batch, strict=True):
        for precision in given.precision:
            net = read(path, batch)
            recorder = iteration(net, precision, parse_shapes(given.shape))
            if one:
                print(f"{net.name or Path(path).stem}, {precision}\n", *table(recorder, given.by), "", sep="\n")
            else:
                named = f"{net.name or Path(path).stem}, {batch or 'as in its file'}", precision
                print(row(named, whole(recorder), str(recorder.stream.depth)), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CaffeliteError as mistake:
        print(mistake, file=sys.stderr)
        sys.exit(2)
