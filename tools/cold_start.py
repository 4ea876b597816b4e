"""Times `caffelite train` from command to first iteration: with no compiled kernels, and with those of the run before.

Caches are folders of their own ($CAFFELITE_CACHE, $NUMBA_CACHE_DIR), so that yours stay as they are. The net reads
random images from an LMDB.

Example:
  python tools/cold_start.py --net models/lenet/train_val.prototxt --batch 64
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_inputs
import bench_train

RECIPE = (
    'net: "net.prototxt" base_lr: 0.001 lr_policy: "fixed" max_iter: 1 display: 1 snapshot_after_train: false '
    "solver_mode: CPU"
)


def prepare(folder: Path, net: str, batch: int, shape: tuple[int, ...]) -> None:
    """Net, solver and database of a run, in ``folder``."""
    import numpy as np
    from google.protobuf import text_format

    from caffelite import caffelite_pb2 as pb
    from caffelite.data.writers import write_lmdb

    message, tops = bench_inputs.read(net, batch, shape)
    if bench_inputs.reads_codes(message):
        sys.exit(f"{net}: expected a net that reads images")
    message.layer[0].CopyFrom(pb.LayerParameter(name="data", type="Data", top=tops))
    message.layer[0].data_param.source, message.layer[0].data_param.batch_size = "images", batch
    message.layer[0].data_param.backend = pb.DataParameter.LMDB
    rng = np.random.default_rng(1)
    write_lmdb(
        folder / "images",
        ((rng.integers(0, 256, shape).astype(np.uint8), i % bench_inputs.classes(message)) for i in range(batch)),
    )
    (folder / "net.prototxt").write_text(text_format.MessageToString(message))
    (folder / "solver.prototxt").write_text(RECIPE)


def start(folder: Path, caches: Path) -> tuple[float, list[str]]:
    """(seconds until the first iteration is reported, the log's lines before it)"""
    environment = {**os.environ, "CAFFELITE_CACHE": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    words = [sys.executable, "-c", "from caffelite.cli import main; main()", "train", "-solver", "solver.prototxt"]
    begin, lines, seconds = time.perf_counter(), [], None
    with subprocess.Popen(
        words, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        for line in process.stderr:
            if "Iteration 0" in line and seconds is None:
                seconds = time.perf_counter() - begin
            elif seconds is None:
                lines.append(line.rstrip())
    if process.returncode or seconds is None:
        sys.exit("\n".join(lines[-5:]) or f"caffelite train ended with status {process.returncode}")
    return seconds, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--net", default=str(bench_train.ROOT / "models/lenet/train_val.prototxt"), help="a prototxt (default: LeNet's)"
    )
    parser.add_argument("--batch", type=int, default=64, help="images an iteration (default 64)")
    parser.add_argument(
        "--shape", type=bench_train.numbers, help="C,H,W of an image (default: by the net's data layer)"
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="runs with compiled kernels, after the one without (default 3)"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args()
    from caffelite.errors import CaffeliteError

    with tempfile.TemporaryDirectory() as name:
        folder, caches = Path(name) / "run", Path(name) / "caches"
        folder.mkdir()
        try:
            prepare(folder, args.net, args.batch, args.shape or bench_inputs.guess_shape(args.net))
        except CaffeliteError as error:
            sys.exit(str(error))
        first, lines = start(folder, caches)
        reported = next((line for line in lines if "Compiling" in line), None)
        print(f"first run, nothing compiled: {first:.1f} s" + (f', after "{reported}"' if reported else ""), flush=True)
        later = [start(folder, caches)[0] for _ in range(args.runs)]
    print(f"later runs, kernels compiled: {statistics.median(later):.2f} s ({min(later):.2f} to {max(later):.2f})")
    if args.json:
        print(json.dumps({"net": args.net, "batch": args.batch, "first": first, "reported": reported, "later": later}))


if __name__ == "__main__":
    main()
