"""Times the forward pass of deploy nets through `caffelite.Net` beside OpenCV's dnn, ONNX Runtime and OpenVINO.

All get the same input and the same weights; the last two run the file that `caffelite export` writes.

Each measurement is a process of its own; the programs take turns. The time is the median over the passes of all
rounds, the memory the peak of a process, its libraries included. A ratio is the other's time divided by caffelite's:
above 1, caffelite is faster. Without a caffemodel the weights are random. Needs the extras bench and onnx.

Examples:
  python tools/bench_inference.py models/squeezenet/deploy.prototxt
  python tools/bench_inference.py models/mobilenet/deploy.prototxt --isa avx2 --sides caffelite,openvino
  python tools/bench_inference.py det1.prototxt det1.caffemodel det2.prototxt det2.caffemodel -threads 1,2 -batches 1,8
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import bench_isa

if TYPE_CHECKING:
    import numpy as np

SIDES = "caffelite", "opencv", "onnxruntime", "openvino"


def opened(model: str):
    """The bound net of a deploy prototxt, phase TEST."""
    from caffelite import caffelite_pb2 as pb, prototxt
    from caffelite.devices import open_device
    from caffelite.net import graph
    from caffelite.net.net import Net

    document = prototxt.read_net(model)
    return Net.of(graph.build(document.message, pb.NetState(phase=pb.TEST), document.locate), open_device())


def random_weights(model: str, path: str) -> None:
    """Writes a caffemodel of random weights: variances near 1, kernels by their fan-in."""
    import numpy as np

    from caffelite.weights import encode_net

    net, rng, found = opened(model), np.random.default_rng(1), []
    for node, arrays in net.layer_blobs():
        kind = node.layer.spec.type
        for i, array in enumerate(arrays):
            if kind == "BatchNorm":
                array[...] = (rng.normal(0, 0.1, array.shape), rng.uniform(0.5, 1.5, array.shape), 1)[min(i, 2)]
            elif array.ndim > 1:
                array[...] = rng.normal(0, math.sqrt(2 / math.prod(array.shape[1:])), array.shape)
            else:
                array[...] = rng.normal(1 if kind == "Scale" and i == 0 else 0, 0.1, array.shape)
        found.append((node.layer.spec, arrays))
    Path(path).write_bytes(encode_net(net.graph.message, found))


def peak() -> float:
    """MB that this process had in memory at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def timed(run, seconds: float) -> list[float]:
    """Milliseconds of passes, for so many seconds."""
    for _ in range(3):
        run()
    laps: list[float] = []
    end = time.perf_counter() + seconds
    while len(laps) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        laps.append(1e3 * (time.perf_counter() - begin))
    return laps


Run = Callable[[], dict[str, "np.ndarray"]]  # a pass; returns the outputs by name


def caffelite_run(model: str, weights: str, arrays: dict, outputs: list[str], threads: int) -> Run:
    import caffelite

    net = caffelite.Net(model, weights)
    for name, array in arrays.items():
        net.blobs[name].reshape(*array.shape)
    return lambda: net.forward(**arrays)


def opencv_run(model: str, weights: str, arrays: dict, outputs: list[str], threads: int) -> Run:
    import cv2

    cv2.setNumThreads(threads)
    net = cv2.dnn.readNetFromCaffe(model, weights)

    def run() -> dict:
        for name, array in arrays.items():
            net.setInput(array, name)
        return dict(zip(outputs, net.forward(outputs), strict=True))

    return run


def exported(model: str, weights: str) -> str:
    """The ONNX file of a net, beside its weights."""
    path = f"{weights}.onnx"
    if not Path(path).exists():
        words = ["export", "-model", model, "-weights", weights, "-out", path, "-no_check"]
        subprocess.run([sys.executable, "-m", "caffelite", *words], check=True, capture_output=True)
    return path


def onnxruntime_run(model: str, weights: str, arrays: dict, outputs: list[str], threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(exported(model, weights), options, ["CPUExecutionProvider"])
    return lambda: dict(zip(outputs, session.run(outputs, arrays), strict=True))


def openvino_run(model: str, weights: str, arrays: dict, outputs: list[str], threads: int) -> Run:
    import openvino

    network = openvino.Core().read_model(exported(model, weights))
    network.reshape({name: list(array.shape) for name, array in arrays.items()})
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.compile_model(network, "CPU", config)
    request = compiled.create_infer_request()

    def run() -> dict:
        found = request.infer(arrays)
        return {name: found[compiled.output(name)] for name in outputs}

    return run


def side(args) -> None:
    """One measurement; prints a line of JSON."""
    import numpy as np

    rng = np.random.default_rng(2)
    shapes = json.loads(args.inputs)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    outputs: dict[str, np.ndarray] = {}
    opened = globals()[f"{args.side}_run"](*args.models[:2], arrays, json.loads(args.outputs), args.threads)
    laps = timed(lambda: outputs.update(opened()), args.seconds)
    np.savez(args.save, **{name.replace("/", "|"): np.ravel(values) for name, values in outputs.items()})
    print(json.dumps({"laps": laps, "mb": peak()}))


def describe(model: str) -> None:
    """Prints the shapes of a net's inputs and the names of its outputs."""
    net = opened(model)
    inputs = {name: list(value.shape) for name, value in net.graph.inputs.items()}
    print(json.dumps({"inputs": inputs, "outputs": [value.name for value in net.graph.outputs]}))


def called(*words: str, threads: int = 1) -> dict:
    """The JSON that a process of this script prints last."""
    env = os.environ | {name: str(threads) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")}
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().split("\n")[-1])


def compare(model: str, weights: str, threads: int, batch: int, args) -> dict:
    """Times and memory of the programs, and the largest difference of their outputs from caffelite's."""
    import numpy as np

    net = called(model, "--describe")
    inputs = {name: [batch or shape[0], *shape[1:]] for name, shape in net["inputs"].items()}
    laps: dict[str, list[float]] = {name: [] for name in args.sides}
    memory = dict.fromkeys(args.sides, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.npz") for name in args.sides}
        for _ in range(args.rounds):
            for name in args.sides:
                words = [
                    "--side",
                    name,
                    "-threads",
                    str(threads),
                    "--seconds",
                    str(args.seconds),
                    "--save",
                    files[name],
                ]
                words += ["--inputs", json.dumps(inputs), "--outputs", json.dumps(net["outputs"])]
                found = called(model, weights, *words, threads=threads)
                laps[name] += found["laps"]
                memory[name] = max(memory[name], found["mb"])
        outputs = {name: np.load(path) for name, path in files.items()}
    ours = outputs[args.sides[0]]
    far = max((_difference(ours, outputs[name]) for name in args.sides[1:]), default=0.0)
    times = {name: statistics.median(found) for name, found in laps.items()}
    return {"ms": times, "mb": memory, "difference": far}


def _difference(ours, theirs) -> float:
    """The largest difference of two sides' outputs, each divided by its largest value; infinite for other
    shapes and where a value is not finite."""
    import numpy as np

    def one(a, b) -> float:
        if a.size != b.size or not np.isfinite([a, b]).all():
            return math.inf
        return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))

    return max(one(ours[name], theirs[name]) for name in theirs.files)


def pairs(words: list[str], folder: str) -> list[tuple[str, str]]:
    """(prototxt, caffemodel) of the arguments; random weights in ``folder`` where there is no caffemodel."""
    found: list[tuple[str, str]] = []
    for i, word in enumerate(words):
        if word.endswith(".caffemodel"):
            continue
        weights = words[i + 1] if words[i + 1 : i + 2] and words[i + 1].endswith(".caffemodel") else ""
        if not weights:
            weights = str(Path(folder) / f"{i}.caffemodel")
            random_weights(word, weights)
        found.append((word, weights))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL [WEIGHTS]", help="deploy nets, each with its caffemodel")
    parser.add_argument("-threads", "--threads", default="1", help="numbers of threads, as 1,2 (default 1)")
    parser.add_argument(
        "-batches", "--batches", default="0", help="pictures in a batch, as 1,8 (default: as the net says)"
    )
    parser.add_argument(
        "--sides", default=",".join(SIDES), help=f"programs, caffelite first (default {','.join(SIDES)})"
    )
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side (default 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed passes in a process (default 1)")
    limited = "instructions that caffelite and OpenVINO use at most (the others have no such limit; default: all)"
    parser.add_argument("--isa", choices=tuple(bench_isa.LIMITS), help=limited)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    for name in ("--side", "--inputs", "--outputs", "--save"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--describe", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.describe:
        return describe(args.models[0])
    if args.side:
        args.threads = int(args.threads)
        return side(args)
    args.sides = args.sides.split(",")
    if unknown := set(args.sides) - set(SIDES):
        parser.error(f"--sides: expected some of {', '.join(SIDES)}; found {', '.join(sorted(unknown))}")
    os.environ.update(bench_isa.environment(args.isa))
    tabulate(args)


def tabulate(args) -> None:
    """Measures and prints a table: by net, threads and batch the milliseconds and MB of each program, and the ratio."""
    others = args.sides[1:]
    head = "".join(f"{name + ' ms':>16}{'ratio':>7}{'MB':>6}" for name in others)
    print(f"{'net':28}{'threads':>8}{'batch':>6}{'ms':>9}{'MB':>6}{head}{'difference':>12}", flush=True)
    counts, batches = ([int(count) for count in text.split(",")] for text in (args.threads, args.batches))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model, weights in pairs(args.models, folder):
            for threads, batch in itertools.product(counts, batches):
                found = compare(model, weights, threads, batch, args)
                ms, mb, own = found["ms"], found["mb"], found["ms"][args.sides[0]]
                rows.append({"net": model, "threads": threads, "batch": batch, **found})
                name = "/".join(Path(model).parts[-2:])[-27:]
                cells = "".join(f"{ms[each]:16.3f}{ms[each] / own:7.2f}{mb[each]:6.0f}" for each in others)
                line = f"{name:28}{threads:8}{batch:6}{own:9.3f}{mb[args.sides[0]]:6.0f}{cells}"
                print(f"{line}{found['difference']:12.1e}", flush=True)
    for each in others:
        ratios = [row["ms"][each] / row["ms"][args.sides[0]] for row in rows]
        print(f"{each}: geometric mean {statistics.geometric_mean(ratios):.2f}, smallest {min(ratios):.2f}")
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
