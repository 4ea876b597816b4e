"""Lists the kernels of a training iteration on a GPU with their times, as PyTorch's profiler records them.

The net trains on random images, as `bench_gpu.py` has it, whole iterations as CUDA graphs: the records are of their
nodes. Per iteration: launches and microseconds of each kernel, their sum, and the time on the clock, also without a
profiler. PyTorch comes with the extra `bench`.

Examples:
  python tools/profile_gpu.py lenet
  python tools/profile_gpu.py resnet50 --precision fp16 --iterations 10 --rows 40
"""

import argparse
import sys
import time
from collections import defaultdict

import bench_gpu
import bench_inputs

from caffelite.devices.cuda import why_none

WARM_LAUNCHES = 6  # one runs eagerly, one is captured for each side of the input buffer, the others launch


def kernels(torch, run, wait, iterations: int) -> dict[str, tuple[int, float]]:
    """(launches, microseconds) of each kernel over all iterations."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        run(iterations)
        wait()
    totals: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for event in profiler.events():
        count, duration = totals[event.name]
        totals[event.name] = count + 1, duration + event.device_time_total
    return totals


def milliseconds(run, wait, iterations: int) -> float:
    begin = time.perf_counter()
    run(iterations)
    wait()
    return (time.perf_counter() - begin) / iterations * 1e3


def main() -> str | None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=bench_gpu.NETS)
    parser.add_argument("--precision", choices=bench_gpu.PRECISIONS, default="tf32")
    parser.add_argument("--iterations", type=int, default=32, help="that are recorded (default 32)")
    parser.add_argument("--rows", type=int, default=60, help="kernels in the table, longest first (default 60)")
    args = parser.parse_args()
    if reason := why_none():
        return f"nothing to profile: {reason}"
    try:
        import torch
    except ImportError as mistake:
        return f"PyTorch's profiler records the kernels: {mistake}; install the extra bench"
    torch.cuda.init()  # before CuPy's context: the profiler must see every launch
    path, shape = bench_gpu.model(args.net)
    batch = bench_gpu.NETS[args.net][0]
    net, _ = bench_inputs.read(path, batch, shape)
    run, wait = bench_gpu.caffelite_run(net, bench_inputs.random_batch(net, batch, shape), args.precision)
    for _ in range(WARM_LAUNCHES):
        run(args.iterations)
    wait()
    plain = milliseconds(run, wait, args.iterations)
    recorded = sorted(kernels(torch, run, wait, args.iterations).items(), key=lambda item: -item[1][1])
    n = args.iterations
    launches, total = (sum(values[i] for _, values in recorded) / n for i in (0, 1))
    print(
        f"{args.net}, {batch}, {args.precision}: {plain:.3f} ms an iteration; {launches:.1f} kernels of {total:.1f} µs"
    )
    print("| launches | µs | kernel |\n| --- | --- | --- |")
    for name, (count, duration) in recorded[: args.rows]:
        print(f"| {count / n:.1f} | {duration / n:.2f} | {name[:110]} |")
    return None


if __name__ == "__main__":
    sys.exit(main())
