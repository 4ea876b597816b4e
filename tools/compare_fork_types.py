"""Compares BVLC's Caffe, compiled from its sources, with caffelite: every layer type on the rows of tests/layers.

    python tools/compare_fork_types.py CAFFE [TYPE ...]

CAFFE: the folder of its sources. Prints a table: by type the rows that both computed, the largest difference of tops
and of gradients relative to the largest value, and the time of both. What differs rightly or cannot be compared is
named with the reason.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from layers.layer_rows import ROWS  # noqa: E402

from caffelite import Net  # noqa: E402
from caffelite.errors import CaffeliteError  # noqa: E402
from caffelite.fork import option, tree  # noqa: E402
from caffelite.layers import REGISTRY  # noqa: E402

DATA = {"Data", "HDF5Data", "HDF5Output", "ImageData", "WindowData", "MemoryData", "Python", "Input", "DummyData"}
RANDOM = {"Dropout": "random numbers", "Split": "gradients of a layer that nets insert"}


@dataclass
class Result:
    """Of a type. differences: of tops and of gradients; seconds: of caffelite and of the fork."""

    rows: int = 0
    differences: list[float] = field(default_factory=lambda: [0.0, 0.0])
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])
    mistakes: list[str] = field(default_factory=list)


def passes(path: Path, row: Any, arrays: dict, params: list, slopes: dict) -> tuple[dict, dict, float, list]:
    """Tops, gradients, seconds and parameters of a net; params and slopes: where they are given, else drawn."""
    net = Net(path, 0 if row.phase == "TRAIN" else 1)
    for name, values in arrays.items():
        net.blobs[name].data[...] = values
    blobs = net.params.get("layer", [])
    drawn = np.random.default_rng(6)
    for i, blob in enumerate(blobs):  # positive, as variances are
        blob.data[...] = params[i] if params else drawn.uniform(0.1, 1, blob.data.shape)
    net.forward()
    tops = {name: blob.data.copy() for name, blob in net.blobs.items() if name.startswith("y")}
    random = np.random.default_rng(5)
    for name, top in tops.items():
        slopes.setdefault(name, random.normal(size=top.shape))
    constant = {f"x{i}" for i in constants(row)}
    gradients: dict[str, np.ndarray] = {}
    for _ in range(2):  # the first compiles
        net.clear_param_diffs()
        start = time.perf_counter()
        net.forward()
        for name in tops:
            net.blobs[name].diff[...] = slopes[name].reshape(tops[name].shape)
        if row.differentiable:
            net.backward()
            gradients = {name: net.blobs[name].diff.copy() for name in arrays if name not in constant}
            gradients |= {f"parameter {i}": blob.diff.copy() for i, blob in enumerate(blobs)}
    return tops, gradients, time.perf_counter() - start, [blob.data.copy() for blob in blobs]


def constants(row: Any) -> set[int]:
    """The bottoms without gradients."""
    return {*row.constant, *REGISTRY[row.kind].constant_bottoms}


def difference(ours: dict, theirs: dict) -> float:
    """The largest, relative to the largest value."""
    worst = 0.0
    for name, values in ours.items():
        other = theirs[name].reshape(values.shape)
        scale = max(float(np.abs(values).max(initial=0)), float(np.abs(other).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(values - other).max(initial=0)) / scale)
    return worst


def compare(row: Any, caffe: str, folder: Path, result: Result) -> None:
    """Adds a row to the result of its type."""
    path = folder / "net.prototxt"
    down = " ".join(f"propagate_down: {str(i not in constants(row)).lower()}" for i in range(len(row.bottoms)))
    head, own = row.text().rsplit("layer {", 1)
    path.write_text(f"force_backward: true\n{head}layer {{ {down} {own}")
    random = np.random.default_rng(4)
    arrays, slopes = row.draw(random), {}
    try:
        option.leave()
        ours = passes(path, row, arrays, [], slopes)
        option.use(caffe, "all")
        theirs = passes(path, row, arrays, ours[3], slopes)
    except CaffeliteError as mistake:
        result.mistakes.append(f"{row}: {mistake}")
        return
    finally:
        option.leave()
    result.rows += 1
    for i in range(2):
        result.differences[i] = max(result.differences[i], difference(ours[i], theirs[i]))
    result.seconds = [result.seconds[0] + ours[2], result.seconds[1] + theirs[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caffe", help="the sources of a Caffe")
    parser.add_argument("types", nargs="*", help="layer types (default: all that have a row)")
    arguments = parser.parse_args()
    caffe = arguments.caffe
    types = set(arguments.types) or set(tree.read(caffe).types) - DATA - RANDOM.keys()
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as name:
        for row in sorted((row for row in ROWS if row.kind in types), key=lambda row: row.kind):
            compare(row, caffe, Path(name), results.setdefault(row.kind, Result()))
    print(
        "| type | rows | tops | gradients | ms, caffelite | ms, Caffe's code |\n| --- | --- | --- | --- | --- | --- |"
    )
    for kind, result in results.items():
        numbers = " | ".join(f"{value:.1e}" for value in result.differences)
        times = " | ".join(f"{1000 * value:.1f}" for value in result.seconds)
        print(f"| {kind} | {result.rows} | {numbers} | {times} |")
    for result in results.values():
        for mistake in result.mistakes:
            print(mistake.splitlines()[0][:300])
    print("without a row:", *sorted(types - results.keys()))


if __name__ == "__main__":
    main()
