"""Times a training iteration of a classification net, side by side with the same net in PyTorch.

Both sides get the same kind of input, random images and labels, and run in processes of their own, so that their threads do not fight:
a round is one process of each, and rounds alternate. Figures are medians over rounds. PyTorch comes with the extra `bench`.

Example:
  python tools/bench_train.py models/lenet/train_val.prototxt --batch 64
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("caffelite", "torch", "torch channels-last")
SHAPE = (3, 227, 227)
FEEDS = ("Data", "ImageData", "HDF5Data", "WindowData", "MemoryData", "DummyData", "Input")
RECIPE = {"base_lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4}


def read(path: str, batch: int, shape: tuple[int, ...]):
    """The net for TRAIN, its data layers replaced by one that holds images (batch, C, H, W) and labels (batch)."""
    from caffelite import caffelite_pb2 as pb
    from caffelite import graph, prototxt

    document = prototxt.read_net(path)
    kept = [layer for layer in document.message.layer if not graph.keeps(layer, pb.NetState(phase=pb.TRAIN))]
    feeds = [layer for layer in kept if layer.type in FEEDS]
    net = pb.NetParameter(name=document.message.name)
    tops = [top for layer in feeds for top in layer.top]
    if len(tops) != 2:
        sys.exit(f"{path}: expected one data layer with tops data and label in phase TRAIN, found tops {tops}")
    feed = net.layer.add(name="input", type="Input", top=tops)
    feed.input_param.shape.add(dim=(batch, *shape))
    feed.input_param.shape.add(dim=(batch,))
    for layer in kept:
        if layer.type not in (*FEEDS, "Accuracy", "Silence"):
            copy = net.layer.add()
            copy.CopyFrom(layer)
            del copy.include[:], copy.exclude[:]
    return net, tops


def classes(net) -> int:
    """How many classes the labels may name: the units of the last layer that sets num_output."""
    counts = [p.num_output for layer in net.layer for p in (layer.inner_product_param, layer.convolution_param) if p.num_output]
    return counts[-1]


def guess_shape(path: str) -> tuple[int, int, int]:
    """C, H, W of the shipped nets; else what ImageNet nets take."""
    from caffelite import prototxt

    layers = prototxt.read_net(path).message.layer
    if any(word in layer.data_param.source for layer in layers for word in ("mnist", "digits")):
        return 1, 28, 28
    crops = [layer.transform_param.crop_size for layer in layers if layer.transform_param.crop_size]
    return (3, crops[0], crops[0]) if crops else SHAPE


def random_batch(net, batch: int, shape: tuple[int, ...]):
    import numpy as np

    rng = np.random.default_rng(1)
    return rng.random((batch, *shape), np.float32), rng.integers(0, classes(net), batch)


def caffelite_step(args, net, images, labels):
    """(one iteration, wait for the device)"""
    from caffelite import caffelite_pb2 as pb
    from caffelite import graph
    from caffelite.devices import open_device
    from caffelite.errors import NOWHERE
    from caffelite.net import Net
    from caffelite.solver.updates import Updater

    device = open_device(0 if args.device == "gpu" else None)
    bound = Net(graph.build(net, pb.NetState(phase=pb.TRAIN)), device, seed=1)
    for top, values in zip(net.layer[0].top, (images, labels), strict=True):
        device.upload(bound.blobs[top], values)
    updater = Updater(pb.SolverParameter(**RECIPE), bound, NOWHERE)
    iteration = 0

    def step():
        nonlocal iteration
        bound.clear_loss()
        bound.forward(iteration)
        bound.backward()
        updater.run(RECIPE["base_lr"], 1.0, iteration)
        iteration += 1

    return step, device.synchronize


def torch_step(args, net, images, labels):
    """(one iteration, wait for the device)"""
    import torch
    import torch_peer

    name = "cuda" if args.device == "gpu" else "cpu"
    torch.manual_seed(1)
    if args.device == "gpu":  # strict float32, as caffelite computes
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    layout = torch.channels_last if args.side.endswith("channels-last") else torch.contiguous_format
    x = torch.from_numpy(images).to(name, memory_format=layout)
    y = torch.from_numpy(labels).to(name)
    module = torch_peer.Peer(net, tuple(x.shape)).to(name, memory_format=layout).train()
    optimizer = torch.optim.SGD(module.parameters(), RECIPE["base_lr"], RECIPE["momentum"], weight_decay=RECIPE["weight_decay"], fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        module(x, y).backward()
        optimizer.step()

    return step, torch.cuda.synchronize if args.device == "gpu" else lambda: None


def run_side(args) -> None:
    """What a process of one side does: prints the milliseconds of an iteration and the peak memory."""
    import resource

    if args.threads:
        if args.side == "caffelite":
            import numba

            numba.set_num_threads(args.threads)
        else:
            import torch

            torch.set_num_threads(args.threads)
    net, _ = read(args.net, args.batch, args.shape)
    step, wait = (caffelite_step if args.side == "caffelite" else torch_step)(args, net, *random_batch(net, args.batch, args.shape))
    for _ in range(max(2, args.iterations // 4)):
        step()
    wait()
    begin = time.perf_counter()
    for _ in range(args.iterations):
        step()
    wait()
    lapse = time.perf_counter() - begin
    print(json.dumps({"ms": lapse / args.iterations * 1e3, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def launch(side: str, args) -> dict:
    words = [sys.executable, __file__, args.net, "--side", side, "--batch", str(args.batch), "--iterations", str(args.iterations)]
    words += ["--device", args.device, "--shape", ",".join(map(str, args.shape)), "--threads", str(args.threads)]
    environment = dict(os.environ)
    if args.threads:
        environment["NUMBA_NUM_THREADS"] = str(args.threads)
    if args.passive:
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{side}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout.strip().split("\n")[-1])


def machine(args) -> str:
    """The processor, how many of its cores this process may use, and what software ran."""
    from importlib import metadata

    from caffelite import __version__

    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        name = next((line.split(":")[1].strip() for line in cpuinfo.read_text().split("\n") if line.startswith("model name")), name)
    parts = [
        f"{name}, {args.threads or len(os.sched_getaffinity(0))} threads",
        f"caffelite {__version__}",
        f"Python {platform.python_version()}",
    ]
    if args.device == "gpu":
        from caffelite.devices import gpu

        parts.insert(1, str(gpu.describe(0).get("Name", "GPU")))
    if importlib.util.find_spec("torch"):
        parts.append(f"torch {metadata.version('torch')}")
    return ", ".join(parts)


def shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", help="a prototxt whose data layer has tops for images and labels")
    parser.add_argument("--batch", type=int, default=64, help="images an iteration (default 64)")
    parser.add_argument("--iterations", type=int, default=50, help="timed iterations of a round (default 50)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each side (default 5)")
    parser.add_argument("--threads", type=int, default=0, help="threads of each side (default: all cores)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--shape", type=shape, help="C,H,W of an image (default: by the net's data layer)")
    parser.add_argument(
        "--passive", action="store_true", help="let PyTorch's threads sleep while they wait, as caffelite's do; for busy machines"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    from caffelite.errors import CaffeliteError

    try:
        args.shape = args.shape or guess_shape(args.net)
        if args.side:
            return run_side(args)
        read(args.net, args.batch, args.shape)
    except CaffeliteError as error:
        sys.exit(str(error))
    sides = SIDES if importlib.util.find_spec("torch") else SIDES[:1]
    print(f"{args.net}, {args.batch} images of {'×'.join(map(str, args.shape))}: forward, backward and update on random data")
    print(machine(args))
    args.load = os.getloadavg()[0]
    if args.load > 0.5:
        print(f"the load is {args.load:.1f} before the first round: other programs run, and threads that spin suffer most; see --passive")
    if len(sides) == 1:
        print('PyTorch is not installed, so nothing to compare with: pip install -e ".[bench]"')
    sys.stdout.flush()
    rounds: dict[str, list[dict]] = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side in sides:
            rounds[side].append(launch(side, args))
    report(args, {side: summary(found, args.batch) for side, found in rounds.items()})


def summary(found: list[dict], batch: int) -> dict:
    times = [r["ms"] for r in found]
    median = statistics.median(times)
    return {"ms": median, "low": min(times), "high": max(times), "images_s": batch / median * 1e3, "mb": max(r["mb"] for r in found)}


def report(args, results: dict[str, dict]) -> None:
    mine = results["caffelite"]["ms"]
    print(f"\n{'':22}{'ms/iteration':>14}{'lowest':>10}{'highest':>10}{'images/s':>11}{'peak MB':>10}{'/ caffelite':>13}")
    for side, r in results.items():
        print(f"{side:22}{r['ms']:14.3f}{r['low']:10.3f}{r['high']:10.3f}{r['images_s']:11.0f}{r['mb']:10.0f}{r['ms'] / mine:13.2f}")
    if args.json:
        ratios = {side: r["ms"] / mine for side, r in results.items() if side != "caffelite"}
        what = {"net": args.net, "batch": args.batch, "shape": args.shape, "device": args.device, "passive": args.passive}
        print(json.dumps({**what, "machine": machine(args), "load": args.load, "sides": results, "ratios": ratios}))


if __name__ == "__main__":
    main()
