"""The speed of one net on a GPU, for `caffelite device_query -report`: one line of JSON for each result.

Milliseconds of a training iteration as CUDA graphs; what was chosen for each convolution, with the times of the
candidates; the ten slowest kernels, by PyTorch's profiler; and the ten slowest layers with the share of the GPU's speed
that each reaches. Nets of images train on random numbers, beside PyTorch's
graphs where that is installed; nets with data sets of their own kind (detection, text, flow) train on drawn ones.

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
from collections.abc import Callable
from contextlib import chdir, closing
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
ITERATIONS = 20  # of a round, on data sets


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


def figures(label: str, count: int, iterations: int, step: Callable[[int], None], wait: Callable[[], None]) -> float:
    """Times training and lists its slowest kernels; returns the milliseconds of an iteration. count: images in it."""
    ms = milliseconds(step, wait, iterations)
    tell(label, f"{ms:.4g} ms an iteration, {1e3 * count / ms:,.0f} images/s", ms / 1e3, ms=ms)
    if torch := torch_module():
        import profile_gpu

        totals = profile_gpu.kernels(torch, step, wait, PASSES)
        slowest = sorted(totals.items(), key=lambda item: -item[1][1])[:SLOWEST]
        rows = (f"{us / PASSES:.1f} µs in {launches / PASSES:.0f}: {kernel[:60]}" for kernel, (launches, us) in slowest)
        tell(f"{label}: slowest kernels", "; ".join(rows))
    return ms


def train(name: str, precision: str, folder: Path) -> Path:
    """Trains on a batch of random numbers, beside PyTorch; returns a prototxt of the net with inputs for it."""
    from google.protobuf import text_format

    count, iterations = NETS[name]
    torch_module()
    path = str(ROOT / "models" / name / "train_val.prototxt")
    shape = bench_inputs.guess_shape(path)
    net, _ = bench_inputs.read(path, count, shape)
    batch = bench_inputs.random_batch(net, count, shape)
    label = f"{name}, {precision}, batch {count}"
    trainer = bench_gpu.caffelite_trainer(net, batch, precision)
    ms = figures(label, count, iterations, trainer.step, trainer.net.dev.synchronize)
    choices(label, trainer.net.dev)
    if torch_module():
        theirs = milliseconds(*bench_gpu.torch_run(net, batch, precision, "graphs"), iterations)
        tell(f"{label}: PyTorch", f"{theirs:.4g} ms by graphs, {theirs / ms:.2f} of ours", theirs / 1e3, ms=theirs)
    file = folder / "net.prototxt"
    file.write_text(text_format.MessageToString(net))
    return file


def train_on_data(name: str, precision: str, folder: Path, gpu: int | None = 0) -> Path:
    """Trains by the net's solver on drawn data, which are written to the folder; returns the net's prototxt."""
    from caffelite.runs.config import RunConfig
    from caffelite.runs.open_net import open_assigned_device, open_trainer, read_solver, without_extras

    for line in COMMANDS[name]:
        run(line.split(), folder)
    torch_module()
    path = ROOT / "models" / name / "train_val.prototxt"
    config = RunConfig(str(ROOT / f"solvers/{name}_solver.prototxt"), precision=precision, overrides=(f"net={path}",))
    with chdir(folder):
        document = read_solver(config)
        document.message = without_extras(document.message)
        device = open_assigned_device([] if gpu is None else [gpu], options=config.device_options())
        with closing(open_trainer(config, document, device, snapshots=False)) as trainer:
            count = trainer.batch * trainer.p.iter_size
            label = f"{name}, {precision}, batch {count}"
            figures(label, count, ITERATIONS, trainer.step, device.synchronize)
            choices(label, device)
    return path


def choices(label: str, device) -> None:
    """What solves each convolution, with the times by which it was chosen."""
    lines = device.algorithms.described() if device.algorithms else []
    tell(f"{label}: choices", "; ".join(lines) or "nothing was timed")


def run(words: list[str], folder: Path) -> str:
    """What a command of caffelite prints, in a folder. Errors: it ends this program with the command's last line."""
    done = subprocess.run(command(words), capture_output=True, text=True, cwd=folder)
    if done.returncode:
        sys.exit((done.stderr.strip().splitlines() or [f"caffelite {words[0]} failed"])[-1])
    return done.stdout


def layers(name: str, precision: str, path: Path, folder: Path) -> None:
    """The slowest layers, and how long all take, by `caffelite time` in the folder of the net's data."""
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
    parser.add_argument("net", help="of models/, or lenet and other nets of bench_gpu.py")
    parser.add_argument("-precision", choices=bench_gpu.PRECISIONS, default="tf32")
    arguments = parser.parse_args()
    name, precision = arguments.net, arguments.precision
    if name not in NETS and name not in COMMANDS:
        parser.error(f"no net {name} to time; it is one of {', '.join([*NETS, *COMMANDS])}")
    with tempfile.TemporaryDirectory(prefix="caffelite-figures-") as folder:
        trained = (train if name in NETS else train_on_data)(name, precision, Path(folder))
        layers(name, precision, trained, Path(folder))


if __name__ == "__main__":
    main()
