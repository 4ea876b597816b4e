"""The speed of one net on a GPU, for `caffelite device_query -report`: one line of JSON for each result.

Milliseconds of a training iteration as CUDA graphs, beside PyTorch's graphs where that is installed; the ten slowest
kernels, by PyTorch's profiler; and the ten slowest layers with the share of the GPU's speed that each reaches. Nets
with data sets of their own kind (detection, text, flow) run forward and backward on drawn ones, by `caffelite time`.

Example:
  python tools/gpu_figures.py lenet -precision fp16
"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import bench_gpu  # noqa: E402
import bench_inputs  # noqa: E402

from caffelite.system import command  # noqa: E402

NETS = {**bench_gpu.NETS, "cifar10_full": (100, 200)}  # batch, iterations of a round
# The commands that write the data of the other nets.
SHAPES = "dataset shapes --images 64"
COMMANDS = {
    "ssd_shapes": (SHAPES, "dataset detection shapes/train.json --name shapes_train"),
    "faster_rcnn_shapes": (SHAPES,),
    "ctc_words": ("dataset words --lines 64",),
    "flow_shapes": ("dataset motions --pairs 32",),
}
WARM, ROUNDS, SLOWEST, PASSES = 12, 3, 10, 10


def tell(name: str, detail: str, seconds: float = 0.0, **figures: float) -> None:
    print(json.dumps({"name": name, "detail": detail, "seconds": seconds, **figures}), flush=True)


def milliseconds(run, wait, iterations: int) -> float:
    """Of the fastest round, an iteration."""
    times = []
    run(WARM)
    for _ in range(ROUNDS):
        wait()
        begin = time.perf_counter()
        run(iterations)
        wait()
        times.append(1e3 * (time.perf_counter() - begin) / iterations)
    return min(times)


def torch_module():
    """PyTorch with a GPU, ready for its profiler; None without."""
    if not importlib.util.find_spec("torch"):
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    torch.cuda.init()  # before CuPy's context: the profiler must see every launch
    return torch


def train(name: str, precision: str, folder: Path) -> Path:
    """Times training beside PyTorch; returns a prototxt of the net on inputs of random numbers."""
    from google.protobuf import text_format

    torch, (count, iterations) = torch_module(), NETS[name]
    path = str(ROOT / "models" / name / "train_val.prototxt")
    shape = bench_inputs.guess_shape(path)
    net, _ = bench_inputs.read(path, count, shape)
    batch = bench_inputs.random_batch(net, count, shape)
    step, wait = bench_gpu.caffelite_run(net, batch, precision)
    ms = milliseconds(step, wait, iterations)
    label = f"{name}, {precision}, batch {count}"
    tell(label, f"{ms:.4g} ms an iteration, {1e3 * count / ms:,.0f} images/s", ms / 1e3, ms=ms)
    if torch:
        import profile_gpu

        totals = profile_gpu.kernels(torch, step, wait, PASSES)
        slowest = sorted(totals.items(), key=lambda item: -item[1][1])[:SLOWEST]
        rows = (f"{us / PASSES:.1f} µs in {launches / PASSES:.0f}: {kernel[:60]}" for kernel, (launches, us) in slowest)
        tell(f"{label}: slowest kernels", "; ".join(rows))
        theirs = milliseconds(*bench_gpu.torch_run(net, batch, precision, "graphs"), iterations)
        tell(f"{label}: PyTorch", f"{theirs:.4g} ms by graphs, {theirs / ms:.2f} of ours", theirs / 1e3, ms=theirs)
    file = folder / "net.prototxt"
    file.write_text(text_format.MessageToString(net))
    return file


def run(words: list[str], folder: Path) -> str:
    """What a command of caffelite prints, in a folder. Errors: it ends this program with the command's last line."""
    done = subprocess.run(command(words), capture_output=True, text=True, cwd=folder)
    if done.returncode:
        sys.exit((done.stderr.strip().splitlines() or [f"caffelite {words[0]} failed"])[-1])
    return done.stdout


def layers(name: str, precision: str, path: Path, folder: Path) -> None:
    """The slowest layers, and how long all take, by `caffelite time` in the folder of the net's data."""
    for line in COMMANDS.get(name, ()):
        run(line.split(), folder)
    words = ["time", "-model", str(path), "-gpu", "0", "-precision", precision, "-iterations", str(PASSES)]
    table = run(words, folder)
    slowest = sorted(timed_layers(table), key=lambda layer: -layer[1])[:SLOWEST]
    tell(f"{name}, {precision}: slowest layers", "; ".join(f"{n} {ms:.3g} ms ({share})" for n, ms, share in slowest))
    if whole := re.search(r"^Forward and backward.*?: ([\d.e+-]+) ms.*$", table, re.M):
        tell(f"{name}, {precision}: forward and backward", whole[0], float(whole[1]) / 1e3, ms=float(whole[1]))


def timed_layers(table: str) -> list[tuple[str, float, str]]:
    """(layer, milliseconds of both passes, share of a ceiling) of each row of the table."""
    rows = []
    for line in table.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        numbers = [cell for cell in cells[1:] if re.fullmatch(r"[\d.,]+(e[+-]\d+)?", cell)]
        share = next((cell for cell in cells if cell.endswith("%")), "")
        if len(cells) >= 3 and numbers and share:
            rows.append((cells[0], sum(float(n) for n in numbers[: 2 if len(cells) > 5 else 1]), share))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", help="a folder of models/")
    parser.add_argument("-precision", choices=bench_gpu.PRECISIONS, default="tf32")
    arguments = parser.parse_args()
    name, precision = arguments.net, arguments.precision
    path = ROOT / "models" / name / "train_val.prototxt"
    if not path.is_file():
        parser.error(f"no net {name} in models/")
    with tempfile.TemporaryDirectory(prefix="caffelite-figures-") as folder:
        trained = train(name, precision, Path(folder)) if name in NETS else path
        layers(name, precision, trained, Path(folder))


if __name__ == "__main__":
    main()
