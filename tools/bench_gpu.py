"""Times training on one GPU beside PyTorch: eagerly, as CUDA graphs, and by torch.compile.

Each side trains the same prototxt on random images (forward, backward, update) in a process of its own; all of a net's
live at once and are timed in turn, round by round. Figures are medians over rounds, after three that do not count:
graphs are captured in these. PyTorch's blobs lie channels last; in fp16 it runs under autocast with its gradient
scaler. What of the device's ceilings each layer reaches follows, as `caffelite time` tells it.

Examples:
  python tools/bench_gpu.py
  python tools/bench_gpu.py --nets lenet,resnet50 --precision fp16 --rounds 5
  python tools/bench_gpu.py --sides caffelite,graphs --no-layers
  python tools/bench_gpu.py --quick
"""

import argparse
import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bench_inputs
import bench_train

ROOT = Path(__file__).resolve().parent.parent
NETS = {
    "lenet": (64, 500),
    "alexnet": (256, 30),
    "googlenet": (128, 30),
    "resnet50": (128, 20),
}  # batch, iterations of a round
PRECISIONS = ("tf32", "fp16", "bf16", "fp32")
SIDES = ("caffelite", "eager", "graphs", "compile")
WARM = 12  # iterations before the first round: plans are chosen
WARM_ROUNDS = 3  # that do not count: of so many iterations one runs eagerly, and two are captured
COLUMNS = (
    "net, batch",
    "precision",
    "caffelite, ms",
    "images/s",
    "eager, ms",
    "graphs, ms",
    "compile, ms",
    "best of PyTorch / caffelite",
)


# one side, in its own process


def caffelite_trainer(net, batch: tuple, precision: str):
    """What trains the net on a batch."""
    from caffelite import caffelite_pb2 as pb
    from caffelite.devices import open_device
    from caffelite.errors import NOWHERE
    from caffelite.training import build_trainer

    device = open_device(0, precision=precision)
    recipe = pb.SolverParameter(net_param=net, lr_policy="fixed", max_iter=1 << 30, random_seed=1, **bench_train.RECIPE)
    recipe.snapshot_after_train = False
    solver = build_trainer(recipe, NOWHERE, "bench", device)
    for top, values in zip(net.layer[0].top, batch, strict=True):
        device.upload(solver.net.blobs[top], values)
    return solver


def caffelite_run(net, batch: tuple, precision: str) -> tuple[Callable[[int], None], Callable[[], None]]:
    """(trains so many iterations, waits for the device)"""
    trainer = caffelite_trainer(net, batch, precision)
    return trainer.step, trainer.net.dev.synchronize


def torch_run(
    net, batch: tuple, precision: str, side: str, place: str = "cuda"
) -> tuple[Callable[[int], None], Callable[[], None]]:
    """(trains so many iterations, waits for the device)"""
    import torch
    import torch_peer

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    x = torch.from_numpy(batch[0]).to(place, memory_format=torch.channels_last)
    y = torch.from_numpy(batch[-1]).to(place)
    module = torch_peer.Peer(net, tuple(x.shape)).to(place, memory_format=torch.channels_last)
    loss = torch.compile(module, mode="reduce-overhead") if side == "compile" else module
    how = bench_train.RECIPE
    optimizer = torch.optim.SGD(
        module.parameters(), how["base_lr"], how["momentum"], weight_decay=how["weight_decay"], fused=True
    )
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    scaler = torch.amp.GradScaler(place, enabled=precision == "fp16")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(place, half or torch.float16, enabled=half is not None):
            value = loss(x, y)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()

    run = captured(torch, step) if side == "graphs" else step

    def several(count: int) -> None:
        for _ in range(count):
            run()

    return several, getattr(torch, place).synchronize


def captured(torch, step: Callable[[], None]) -> Callable[[], None]:
    """A step as a CUDA graph, after some on a stream beside, as PyTorch asks for."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def serve(args) -> None:
    """Says that it is ready; from then on a round for each line that comes, answered by its milliseconds an
    iteration."""
    path, shape = model(args.side_net)
    net, _ = bench_inputs.read(path, args.batch, shape)
    batch = bench_inputs.random_batch(net, args.batch, shape)
    make = caffelite_run if args.side == "caffelite" else torch_run
    run, wait = make(net, batch, args.precision, *([] if args.side == "caffelite" else [args.side]))
    run(WARM)
    wait()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        count = int(line)
        begin = time.perf_counter()
        run(count)
        wait()
        print(json.dumps((time.perf_counter() - begin) / count * 1e3), flush=True)


# all of them, in turn


class Side:
    """The process of a side, which starts. ``fault``: why there are no figures, where it ended."""

    def __init__(self, name: str, net: str, batch: int, precision: str):
        words = [
            sys.executable,
            __file__,
            "--side",
            name,
            "--side_net",
            net,
            "--batch",
            str(batch),
            "--precision",
            precision,
        ]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        self._process, self.times, self.fault = subprocess.Popen(words, text=True, **pipes), [], ""

    def wait_until_ready(self) -> None:
        self._answer()

    def _answer(self) -> float | str | None:
        for line in self._process.stdout:
            if line.startswith(('"ready"', *"0123456789")):
                return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        self.fault = (self._errors.read().strip().splitlines() or ["it ended without a word"])[-1]
        return None

    def round(self, iterations: int) -> None:
        if not self.fault:
            with contextlib.suppress(BrokenPipeError):  # it has ended; its last words tell why
                self._process.stdin.write(f"{iterations}\n")
                self._process.stdin.flush()
            if (ms := self._answer()) is not None:
                self.times.append(ms)

    def close(self) -> None:
        with self._errors, self._process, contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


def model(net: str) -> tuple[str, tuple[int, ...]]:
    """Its file, and the shape of its images."""
    path = str(ROOT / "models" / net / "train_val.prototxt")
    return path, bench_inputs.guess_shape(path)


def timed(net: str, precision: str, sides: tuple[str, ...], rounds: int, iterations: int) -> dict[str, float | str]:
    """The median milliseconds of each side, or why there are none."""
    running = []
    try:
        for name in sides:
            running.append(Side(name, net, NETS[net][0], precision))
        for side in running:
            side.wait_until_ready()
        for _ in range(WARM_ROUNDS + rounds):
            for side in running:
                side.round(iterations)
    finally:
        for side in running:
            side.close()
    return {
        name: side.fault or statistics.median(side.times[WARM_ROUNDS:])
        for name, side in zip(sides, running, strict=True)
    }


def row(net: str, precision: str, found: dict[str, float | str]) -> str:
    """A line of the table; a side without figures has a dash."""
    batch, mine = NETS[net][0], found["caffelite"]
    cells = [f"{net}, {batch}", precision]
    cells += ["–", "–"] if isinstance(mine, str) else [f"{mine:.3f}", f"{1e3 * batch / mine:,.0f}"]
    others = [found.get(side, "") for side in SIDES[1:]]
    cells += ["–" if isinstance(ms, str) else f"{ms:.3f}" for ms in others]
    known = [ms for ms in others if not isinstance(ms, str)]
    cells.append("–" if isinstance(mine, str) or not known else f"{min(known) / mine:.2f}")
    return f"| {' | '.join(cells)} |"


def layers(net: str, precision: str) -> str:
    """What `caffelite time` tells of a net's layers."""
    from google.protobuf import text_format

    path, shape = model(net)
    message, _ = bench_inputs.read(path, NETS[net][0], shape)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{net}.prototxt"
        file.write_text(text_format.MessageToString(message))
        words = ["time", "-model", str(file), "-gpu", "0", "-precision", precision, "-iterations", "20"]
        done = subprocess.run(
            [sys.executable, "-c", "from caffelite.cli import main; main()", *words], capture_output=True, text=True
        )
    return done.stdout.strip() if done.returncode == 0 else (done.stderr.strip().splitlines() or [""])[-1]


def sides_at_hand() -> tuple[str, ...]:
    """Those that can run; says in a line what is missing, and ends where that is the GPU."""
    from caffelite.devices import cuda

    if not cuda.count():
        sys.exit(f"nothing to time: {cuda.why_none()}")
    if not importlib.util.find_spec("torch"):
        print('PyTorch is not installed, so nothing to compare with: pip install -e ".[bench]"')
        return SIDES[:1]
    import torch

    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} sees no GPU, so nothing to compare with: install a build of it for CUDA")
        return SIDES[:1]
    return SIDES


def choice(known) -> Callable[[str], tuple[str, ...]]:
    def words(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if unknown := [word for word in found if word not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
        return found

    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--nets", type=choice(NETS), default=tuple(NETS), help=f"of {', '.join(NETS)}, by commas (default: all)"
    )
    parser.add_argument(
        "--precision", type=choice(PRECISIONS), default=("tf32", "fp16"), help="by commas (default tf32,fp16)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each side (default 3)")
    parser.add_argument(
        "--sides", type=choice(SIDES), default=SIDES, help=f"of {', '.join(SIDES)}, by commas (default: all)"
    )
    parser.add_argument("--no-layers", action="store_true", help="no times of layers")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one round of few iterations, without layers and torch.compile: does it all run?",
    )
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--side_net", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        args.precision = args.precision[0]
        return serve(args)
    sides = tuple(s for s in sides_at_hand() if s in args.sides and not (args.quick and s == "compile"))
    print(bench_train.machine(argparse.Namespace(device="gpu")))
    print("| " + " | ".join(COLUMNS) + " |\n" + "| --- " * len(COLUMNS) + "|", flush=True)
    pairs, faults = [(net, precision) for net in args.nets for precision in args.precision], []
    for net, precision in pairs:
        found = timed(net, precision, sides, 1 if args.quick else args.rounds, 10 if args.quick else NETS[net][1])
        faults += [f"{net}, {precision}, {side}: {why}" for side, why in found.items() if isinstance(why, str)]
        print(row(net, precision, found), flush=True)
    print("".join(f"\n{fault}" for fault in faults), end="\n" if faults else "")
    for net, precision in [] if args.quick or args.no_layers else pairs:
        print(f"\n{net}, {precision}:\n\n```\n{layers(net, precision)}\n```", flush=True)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
