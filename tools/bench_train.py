"""Times an iteration of a net, training or testing, side by side with the same net in PyTorch.

The net is a classifier of images, or an LSTM over codes, such as models/lstm. Both sides get the same kind of input,
random numbers, and run in processes of their own, so that their threads do not fight: a round is one process of each,
and rounds alternate. Figures are medians over rounds, of the median iteration on a CPU and the mean one on a GPU.
PyTorch comes with the extra `bench`; it runs in its default layout and in channels-last.

Examples:
  python tools/bench_train.py models/lenet/train_val.prototxt --batch 64
  python tools/bench_train.py models/lenet/train_val.prototxt --batch 64 --forward --precision bf16
  python tools/bench_train.py models/lenet/train_val.prototxt --batch 64 --threads 1,2 --busy
"""

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import bench_inputs
import bench_isa

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("caffelite", "torch", "torch channels-last")
CHECKOUT = "checkout"  # the side of --checkout
RECIPE = {"base_lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4}


class Setting(NamedTuple):
    """What a process of a round is: one side, on so many threads (0: all cores), beside a busy process or not."""

    side: str
    threads: int = 0
    busy: bool = False

    def label(self, several: bool) -> str:
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if several else ""
        return self.side + threads + (", busy" if self.busy else "")


def open_net(args, net, batch: tuple) -> tuple:
    """(caffelite's net with this input, what updates it or None where only forward is timed)"""
    import numpy as np

    from caffelite import caffelite_pb2 as pb
    from caffelite.devices import open_device
    from caffelite.errors import NOWHERE
    from caffelite.net import graph
    from caffelite.net.net import Net
    from caffelite.training.optim.updates import Updater

    options = {} if args.precision == "fp32" else {"precision": args.precision}
    device = open_device(0 if args.device == "gpu" else None, **options)
    phase = pb.TEST if args.forward else pb.TRAIN
    bound = Net.of(graph.build(net, pb.NetState(phase=phase)), device, seed=1, fused_passes=not args.forward)
    for top, values in zip(net.layer[0].top, batch, strict=True):
        device.upload(bound.blobs[top], values)
    for node in bound.graph.nodes:
        if (
            args.forward and node.layer.spec.type == "BatchNorm"
        ):  # moments as PyTorch's start, or numbers grow beyond bounds
            for param in node.layer.params[1:3]:
                device.upload(param.data, np.ones(param.data.shape))
    return bound, None if args.forward else Updater(pb.SolverParameter(**RECIPE), bound, NOWHERE)


def caffelite_step(args, net, batch: tuple):
    """(one iteration, wait for the device)"""
    bound, updater = open_net(args, net, batch)
    iterations = itertools.count()

    def step():
        iteration = next(iterations)
        bound.clear_loss()
        bound.forward(iteration)
        if updater:
            bound.backward()
            updater.run(RECIPE["base_lr"], iteration)

    return step, bound.dev.synchronize


def torch_step(args, net, batch: tuple):
    """(one iteration, wait for the device)"""
    import torch
    import torch_peer

    name = "cuda" if args.device == "gpu" else "cpu"
    torch.manual_seed(1)
    if args.device == "gpu":  # strict float32, as caffelite computes
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    layout = torch.channels_last if args.side.endswith("channels-last") else torch.contiguous_format
    x = torch.from_numpy(batch[0]).to(name, memory_format=layout)
    y = torch.from_numpy(batch[-1]).to(name)
    module = torch_peer.Peer(net, tuple(x.shape)).to(name, memory_format=layout).train(not args.forward)
    optimizer = torch.optim.SGD(
        module.parameters(), RECIPE["base_lr"], RECIPE["momentum"], weight_decay=RECIPE["weight_decay"], fused=True
    )

    def loss():
        with torch.autocast(name, torch.bfloat16, enabled=args.precision == "bf16"):
            return module(x, y)

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    step = torch.no_grad()(loss) if args.forward else train
    return step, torch.cuda.synchronize if args.device == "gpu" else lambda: None


def run_side(args) -> None:
    """What a process of one side does: prints the milliseconds of an iteration and the peak memory."""
    import resource

    net, _ = bench_inputs.read(args.net, args.batch, args.shape, args.forward)
    step, wait = (caffelite_step if args.side == "caffelite" else torch_step)(
        args, net, bench_inputs.random_batch(net, args.batch, args.shape)
    )
    for _ in range(max(2, args.iterations // 4)):
        step()
    wait()
    times = [time.perf_counter()]
    for _ in range(args.iterations):
        step()
        times.append(time.perf_counter())
    wait()
    times[-1] = time.perf_counter()
    lapse = (times[-1] - times[0]) / args.iterations
    if args.device == "cpu":  # where an iteration has ended when its call returns
        lapse = statistics.median(end - begin for begin, end in itertools.pairwise(times))
    found: dict = {"ms": lapse * 1e3, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if args.device == "cpu":
        found["isa"] = bench_isa.of_caffelite() if args.side == "caffelite" else bench_isa.of_torch()
    print(json.dumps(found))


@contextlib.contextmanager
def neighbor(busy: bool) -> Iterator[None]:
    """A process that keeps one core busy meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        yield
    finally:
        if process:
            process.kill()
            process.wait()


def launch(setting: Setting, args) -> dict:
    environment, script, side = bench_isa.environment(args.isa), __file__, setting.side
    if side == CHECKOUT:
        script, side = str(args.checkout / "tools/bench_train.py"), "caffelite"
        environment["PYTHONPATH"] = str(args.checkout)
    words = [
        sys.executable,
        script,
        str(Path(args.net).resolve()),
        "--side",
        side,
        "--batch",
        str(args.batch),
        "--iterations",
        str(args.iterations),
    ]
    words += ["--device", args.device, "--shape", ",".join(map(str, args.shape)), "--precision", args.precision]
    words += ["--forward"] * args.forward
    if setting.threads:
        environment |= dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(setting.threads))
    if args.passive:
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
    with neighbor(setting.busy):
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{setting.side}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout.strip().split("\n")[-1])


def machine(args) -> str:
    """The processor, how many of its cores this process may use, and what software ran."""
    from importlib import metadata

    from caffelite import __version__
    from caffelite.system import usable_cores

    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        name = next(
            (line.split(":")[1].strip() for line in cpuinfo.read_text().split("\n") if line.startswith("model name")),
            name,
        )
    parts = [
        f"{name}, {len(usable_cores())} cores",
        f"caffelite {__version__}",
        f"Python {platform.python_version()}",
    ]
    if args.device == "gpu":
        from caffelite.devices import cuda

        parts.insert(1, str(cuda.describe(0).get("Name", "GPU")))
    if importlib.util.find_spec("torch"):
        parts.append(f"torch {metadata.version('torch')}")
    return ", ".join(parts)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "net", help="a prototxt whose data layer has tops for images and labels, or for code, cont and target"
    )
    parser.add_argument("--batch", type=int, default=64, help="images an iteration, or texts (default 64)")
    parser.add_argument("--iterations", type=int, default=50, help="timed iterations of a round (default 50)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each side (default 5)")
    parser.add_argument("--forward", action="store_true", help="test instead of training: forward only, in phase TEST")
    parser.add_argument(
        "--precision", choices=("fp32", "bf16"), default="fp32", help="what both compute in (default fp32)"
    )
    parser.add_argument(
        "--threads",
        type=numbers,
        default=(0,),
        help="of each side; several by commas compare them (default: all cores)",
    )
    parser.add_argument(
        "--busy", action="store_true", help="time each side also beside a process that keeps one core busy"
    )
    parser.add_argument(
        "--isa", choices=tuple(bench_isa.LIMITS), help="instructions that both sides use at most (default: all)"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument(
        "--shape", type=numbers, help="C,H,W of an image, or the steps of a text (default: by the net's data layer)"
    )
    parser.add_argument(
        "--passive",
        action="store_true",
        help="let PyTorch's threads sleep while they wait, as caffelite's do; for busy machines",
    )
    parser.add_argument(
        "--checkout",
        type=Path,
        metavar="DIR",
        help="also time the caffelite of this checkout, such as a git worktree of an older revision",
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    args = arguments().parse_args()
    from caffelite.errors import CaffeliteError

    try:
        args.shape = args.shape or bench_inputs.guess_shape(args.net)
        if args.side:
            return run_side(args)
        if args.checkout and not (args.checkout / "tools/bench_train.py").is_file():
            sys.exit(f"--checkout {args.checkout}: no tools/bench_train.py there; expected a checkout of caffelite")
        net, _ = bench_inputs.read(args.net, args.batch, args.shape, args.forward)
    except CaffeliteError as error:
        sys.exit(str(error))
    sides = SIDES[: 2 if bench_inputs.reads_codes(net) else 3] if importlib.util.find_spec("torch") else SIDES[:1]
    if args.checkout:
        args.checkout = args.checkout.resolve()
        sides = (sides[0], CHECKOUT, *sides[1:])
    what = (
        f"texts of {args.shape[0]} steps"
        if bench_inputs.reads_codes(net)
        else f"images of {'×'.join(map(str, args.shape))}"
    )
    work = "forward" if args.forward else "forward, backward and update"
    print(f"{args.net}, {args.batch} {what}: {work} on random data, {args.precision}")
    print(machine(args))
    args.load = os.getloadavg()[0]
    if args.load > 0.5:
        print(
            f"the load is {args.load:.1f} before the first round: other programs run, and threads that spin suffer "
            "most; see --passive"
        )
    if len(sides) == 1:
        print('PyTorch is not installed, so nothing to compare with: pip install -e ".[bench]"')
    sys.stdout.flush()
    settings = [Setting(s, t, b) for b in (False, True)[: 1 + args.busy] for t in args.threads for s in sides]
    rounds: dict[Setting, list[dict]] = {setting: [] for setting in settings}
    for _ in range(args.rounds):
        for setting in settings:
            rounds[setting].append(launch(setting, args))
    report(args, {setting: summary(found, args.batch) for setting, found in rounds.items()})


def summary(found: list[dict], batch: int) -> dict:
    times = [r["ms"] for r in found]
    low, median, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return {
        "ms": median,
        "low": low,
        "high": high,
        "samples_s": batch / median * 1e3,
        "mb": max(r["mb"] for r in found),
        "isa": found[0].get("isa"),
    }


def report(args, results: dict[Setting, dict]) -> None:
    several, ratios = len(args.threads) > 1, {}
    print(f"\n{'':38}{'ms/iteration':>14}{'quartiles':>20}{'samples/s':>11}{'peak MB':>10}{'/ caffelite':>13}")
    for setting, r in results.items():
        ratio = r["ms"] / results[setting._replace(side="caffelite")]["ms"]
        if setting.side != "caffelite":
            ratios[setting.label(several)] = ratio
        times = f"{r['ms']:14.3f}{r['low']:10.3f}{r['high']:10.3f}{r['samples_s']:11.0f}{r['mb']:10.0f}"
        print(f"{setting.label(several):38}{times}{ratio:13.2f}")
    for side, isa in {setting.side: r["isa"] for setting, r in results.items() if r["isa"]}.items():
        print(f"{side} used {isa}")
    for setting, r in results.items():
        fewer = setting._replace(threads=args.threads[0])
        if fewer != setting:
            print(
                f"{setting.label(several)}: {r['ms'] / results[fewer]['ms']:.2f} of the time that {args.threads[0]} "
                "takes"
            )
        if setting.busy:
            print(
                f"{setting.label(several)}: {r['ms'] / results[setting._replace(busy=False)]['ms']:.2f} times as "
                "long as alone"
            )
    if args.json:
        what = {
            name: getattr(args, name) for name in ("net", "batch", "shape", "device", "forward", "precision", "passive")
        }
        sides = {setting.label(several): r for setting, r in results.items()}
        print(json.dumps({**what, "machine": machine(args), "load": args.load, "sides": sides, "ratios": ratios}))


if __name__ == "__main__":
    main()
