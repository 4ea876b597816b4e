"""Times the algorithms of 3×3 convolutions on a CPU, pass by pass, and prints one table.

The time is that of the processor, which other programs disturb less than that of a clock; so the algorithms run on one
thread, in turn, and the shortest of several runs counts.

Examples:
  python tools/bench_convolutions.py
  python tools/bench_convolutions.py 8x64x56x64 4x512x14x512 --rounds 9
"""

import argparse
import os
import time

SHAPES = ("8x64x56x64", "8x128x28x128", "8x256x14x256", "8x512x7x512", "4x256x56x256", "4x512x28x512", "4x512x14x512")
PASSES = "forward", "data gradient", "weight gradient"


def bench(device, shape: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each pass, by algorithm. shape: N×C×side×M."""
    import numpy as np

    from caffelite.devices import Window, algorithms

    n, c, side, m = map(int, shape.split("x"))
    x, y, window = (n, c, side, side), (n, m, side, side), Window((3, 3), pad=(1, 1))
    rng = np.random.default_rng(1)
    image, dy, w = (rng.standard_normal(s, np.float32) for s in ((n, side, side, c), (n, side, side, m), (m, c, 3, 3)))
    top, dx, dw = np.empty_like(dy), np.empty_like(image), np.empty_like(w)
    found = {}
    for name in algorithms.candidates(x, y, window, 1, False):
        op = device.convolution(x, y, window, channels_last=True, algorithm=name)
        runs = (
            lambda op=op: op.forward(image, w, None, top),
            lambda op=op: op.backward(image, w, dy, dx, None, None),
            lambda op=op: op.backward(image, w, dy, None, dw, None),
        )
        found[name] = [shortest(run, rounds) for run in runs]
    return found


def shortest(run, rounds: int) -> float:
    run()
    laps = []
    for _ in range(rounds):
        begin = time.process_time()
        run()
        laps.append(time.process_time() - begin)
    return 1e3 * min(laps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES, metavar="shape", help="N×C×side×M, as 8x64x56x64")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each pass (default 5)")
    args = parser.parse_args()
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    from caffelite.devices import open_device

    device = open_device()
    print(f"{'shape':16}{'algorithm':12}" + "".join(f"{name:>17}" for name in PASSES))
    for shape in args.shapes:
        for name, laps in bench(device, shape, args.rounds).items():
            print(f"{shape:16}{name:12}" + "".join(f"{ms:14.1f} ms" for ms in laps), flush=True)


if __name__ == "__main__":
    main()
