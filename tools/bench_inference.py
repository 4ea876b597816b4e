"""Times the forward pass of deploy nets beside OpenCV's dnn, on the same input and the same weights.

Each measurement is a process of its own; the two programs take turns. The time is the median over the passes of all
rounds, the memory the peak of a process, its libraries included. Without a caffemodel the weights are random.

Examples:
  python tools/bench_inference.py models/squeezenet/deploy.prototxt
  python tools/bench_inference.py det1.prototxt det1.caffemodel det2.prototxt det2.caffemodel -threads 1,2
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIDES = "caffelite", "opencv"


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


def side(args) -> None:
    """One measurement; prints a line of JSON."""
    import numpy as np

    model, weights = args.models[:2]
    inputs = json.loads(args.inputs)
    rng = np.random.default_rng(2)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}
    if args.side == "opencv":
        import cv2

        cv2.setNumThreads(args.threads)
        net = cv2.dnn.readNetFromCaffe(model, weights)
        names = json.loads(args.outputs)
        found = []

        def run() -> None:
            for name, array in arrays.items():
                net.setInput(array, name)
            found[:] = net.forward(names)

        laps = timed(run, args.seconds)
        outputs = dict(zip(names, found, strict=True))
    else:
        from caffelite.weights import read_model

        net = opened(model)
        net.load(read_model(weights, copy=False), weights)

        def run() -> None:
            net.set_inputs(**arrays)
            net.forward()

        laps = timed(run, args.seconds)
        outputs = {value.name: values for value, _, values in net.outputs()}
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


def compare(model: str, weights: str, threads: int, args) -> dict:
    """Times and memory of both programs, and the largest difference of their outputs."""
    import numpy as np

    net = called(model, "--describe")
    laps: dict[str, list[float]] = {name: [] for name in SIDES}
    memory = dict.fromkeys(SIDES, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / f"{name}.npz") for name in SIDES}
        for _ in range(args.rounds):
            for name in SIDES:
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
                words += ["--inputs", json.dumps(net["inputs"]), "--outputs", json.dumps(net["outputs"])]
                found = called(model, weights, *words, threads=threads)
                laps[name] += found["laps"]
                memory[name] = max(memory[name], found["mb"])
        ours, theirs = (np.load(files[name]) for name in SIDES)
        sizes = [np.abs(theirs[name]).max() for name in theirs.files]
        far = max(
            float(np.abs(ours[name] - theirs[name]).max() / max(size, 1e-30))
            if ours[name].size == theirs[name].size
            else math.inf
            for name, size in zip(theirs.files, sizes, strict=True)
        )
    times = {name: statistics.median(found) for name, found in laps.items()}
    return {"ms": times, "mb": memory, "difference": far}


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
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side (default 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed passes in a process (default 1)")
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
    counts = [int(count) for count in args.threads.split(",")]
    print(
        f"{'net':32}{'threads':>8}{'ms':>10}{'OpenCV ms':>11}{'ratio':>7}{'MB':>8}{'OpenCV MB':>11}{'ratio':>7}"
        f"{'difference':>12}",
        flush=True,
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model, weights in pairs(args.models, folder):
            for threads in counts:
                found = compare(model, weights, threads, args)
                ms, mb = ([found[key][name] for name in SIDES] for key in ("ms", "mb"))
                rows.append(
                    {"net": model, "threads": threads, **found, "ratio": ms[0] / ms[1], "memory": mb[0] / mb[1]}
                )
                name = "/".join(Path(model).parts[-2:])[-31:]
                print(
                    f"{name:32}{threads:8}{ms[0]:10.3f}{ms[1]:11.3f}{ms[0] / ms[1]:7.2f}{mb[0]:8.0f}{mb[1]:11.0f}"
                    f"{mb[0] / mb[1]:7.2f}{found['difference']:12.1e}",
                    flush=True,
                )
    for threads in counts:
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        print(f"{threads} threads: geometric mean {statistics.geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
