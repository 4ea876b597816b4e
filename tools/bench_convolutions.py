"""Times the algorithms of 3×3 or 5×5 convolutions on a CPU, pass by pass, and prints one table; or the passes of whole
nets in training beside their limits (net_limits.py), the largest losses first, and at the end each net's share of its
limit as a line of JSON.

The algorithms run in turn, and the shortest of several runs counts. The time of one thread is that of the processor,
which other programs disturb less than that of a clock; that of several threads is a clock's.

Examples:
  python tools/bench_convolutions.py
  python tools/bench_convolutions.py 8x64x56x64 4x512x14x512 --rounds 9
  python tools/bench_convolutions.py --size 5 100x32x16x32
  python tools/bench_convolutions.py --alexnet --threads 2
  python tools/bench_convolutions.py 16x128x14x256g2
  python tools/bench_convolutions.py --size 5 --pad 0 64x20x12x50
  python tools/bench_convolutions.py --depthwise
  python tools/bench_convolutions.py 8x512x14xd1 8x64x112xd2 --precision bf16
  python tools/bench_convolutions.py --nets resnet18,mobilenet --isa avx2
  python tools/bench_convolutions.py --nets all --top 20
"""

import argparse
import json
import os
import time

import bench_all
import bench_isa

from caffelite.devices import ops
from caffelite.system import usable_cores

SHAPES = ("8x64x56x64", "8x128x28x128", "8x256x14x256", "8x512x7x512", "4x256x56x256", "4x512x28x512", "4x512x14x512")
DEPTHWISE = ("8x32x112xd1", "8x64x112xd2", "8x128x56xd1", "8x256x28xd1", "8x256x28xd2", "8x512x14xd1", "8x1024x7xd1")
ALEXNET = (("16x96x27x256g2", 5), ("16x384x13x384g2", 3), ("16x384x13x256g2", 3))  # conv2, conv4, conv5
PASSES = "forward", "data gradient", "weight gradient"


def bench(device, shape: str, size: int, pad: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each pass, by algorithm. shape: N×C×side×M, N×C×side×MgG for G groups, or N×C×side×dS for a
    depthwise one of stride S. size: of the windows. pad: of the images."""
    import numpy as np

    from caffelite.devices import Window, algorithms

    n, c, side, last = shape.split("x")
    outputs, _, groups = last.partition("g")
    stride, m, groups = (int(last[1:]), int(c), int(c)) if last.startswith("d") else (1, int(outputs), int(groups or 1))
    x, window = (int(n), int(c), int(side), int(side)), Window((size, size), (stride, stride), (pad, pad))
    y, half = (x[0], m, *window.outputs(x[2:])), device.precision == "bf16"
    rng = np.random.default_rng(1)

    def image(shape: tuple[int, ...]):
        values = np.ascontiguousarray(rng.standard_normal(shape, np.float32).transpose(0, 2, 3, 1))
        if not half:
            return values
        device.conversions()[0](values, narrow := np.empty(values.shape, np.uint16))
        return narrow

    pixels, dy, w = image(x), image(y), rng.standard_normal((m, x[1] // groups, size, size), np.float32)
    top, dx, dw = np.empty_like(dy), np.empty_like(pixels), np.empty_like(w)
    found = {}
    for name in algorithms.candidates(x, y, window, groups, half):
        op = device.build(ops.Convolution(x, y, window, groups, channels_last=True, half=half, algorithm=name))
        runs = (
            lambda op=op: op.forward(pixels, w, None, top),
            lambda op=op: op.backward(pixels, w, dy, dx, None, None),
            lambda op=op: op.backward(pixels, w, dy, None, dw, None),
        )
        found[name] = [shortest(run, rounds, device.threads) for run in runs]
    return found


def shortest(run, rounds: int, threads: int) -> float:
    run()
    laps, clock = [], time.process_time if threads == 1 else time.perf_counter
    for _ in range(rounds):
        begin = clock()
        run()
        laps.append(clock() - begin)
    return 1e3 * min(laps)


def losses(names: list[str], rounds: int, most: int) -> dict[str, float]:
    """Prints the passes of nets in training that lose most beside their limits. Returns each net's share of its
    limit."""
    import net_limits

    rows, shares = [], {}
    for name in names:
        net = net_limits.Timed(name, bench_all.NETS[name][0])
        found = net.rows(rounds)
        whole = net.whole(rounds)
        shares[name] = sum(row.limit for row in found) / whole
        print(f"{name}: {whole:.2f} ms, of the limit {shares[name]:.2f}", flush=True)
        rows += found
    net_limits.show(net_limits.by_shape(rows)[:most])
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="shape", help="N×C×side×M, as 8x64x56x64, or depthwise")
    parser.add_argument("--depthwise", action="store_true", help="the depthwise convolutions of MobileNet")
    parser.add_argument("--alexnet", action="store_true", help="the convolutions of AlexNet in groups, batch 16")
    parser.add_argument("--size", type=int, choices=(3, 5), default=3, help="side of the windows (default 3)")
    parser.add_argument("--pad", type=int, help="of the images (default: half of the windows)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each pass (default 5)")
    parser.add_argument("--threads", type=int, help="threads (default 1, with --nets all cores)")
    parser.add_argument("--nets", metavar="NAME,..", help="the layers of these nets in training, or of all")
    parser.add_argument("--top", type=int, default=40, help="lines of the table with --nets (default 40)")
    parser.add_argument("--isa", choices=tuple(bench_isa.LIMITS), help="instructions at most (default: all)")
    args = parser.parse_args()
    args.threads = args.threads or (len(usable_cores()) if args.nets else 1)
    os.environ.update(bench_isa.environment(args.isa))
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)
    if args.nets:
        names = list(bench_all.NETS) if args.nets == "all" else args.nets.split(",")
        if unknown := set(names) - set(bench_all.NETS):
            parser.error(f"no such net: {', '.join(sorted(unknown))}; known are {', '.join(bench_all.NETS)}")
        print(json.dumps(losses(names, args.rounds, args.top)))
        return
    from caffelite.devices import open_device

    device = open_device(precision=args.precision)
    print(f"{'shape':16}{'algorithm':12}" + "".join(f"{name:>17}" for name in PASSES))
    shapes = [(shape, args.size) for shape in args.shapes or (DEPTHWISE if args.depthwise else SHAPES)]
    for shape, size in ALEXNET if args.alexnet else shapes:
        pad = size // 2 if args.pad is None else args.pad
        for name, laps in bench(device, shape, size, pad, args.rounds).items():
            print(f"{shape:16}{name:12}" + "".join(f"{ms:14.1f} ms" for ms in laps), flush=True)


if __name__ == "__main__":
    main()
