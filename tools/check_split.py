"""Trains nets in parts on several processes and compares their parameters with those of one process.

    python tools/check_split.py                                 every net, 20 iterations, on 2 and 4 ranks
    python tools/check_split.py lenet googlenet --iterations 5  these, 5 iterations

Each net trains on random data in small batches, divided into stages, into shards, into both, and by samples and outputs
(hybrid). The table has the largest difference of a parameter, relative to the largest number of its blob. The exit
status is 1 where it is above 1e-5 in float32 or 1e-10 in float64.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from google.protobuf import text_format

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "parallel")]

from caffelite import caffelite_pb2 as pb  # noqa: E402
from caffelite import prototxt  # noqa: E402
from caffelite.data.writers import write_hdf5, write_lmdb  # noqa: E402

LIMITS = {"float32": 1e-5, "float64": 1e-10}
STAGES = {2: ["stages=2", "stages=2,micro_batches=2"], 4: ["stages=4", "stages=4,micro_batches=2"]}
SHARDS = {2: ["shards=2", "hybrid=2"], 4: ["stages=2,shards=2", "hybrid=4"]}
# Batch and shape of an image; no image: the LSTM net. The last: whether a batch can be divided into micro-batches and
# by samples.
NETS = {
    "lenet": (8, (1, 28, 28), True),
    "cifar10_full": (8, (3, 32, 32), True),
    "alexnet": (4, (3, 227, 227), True),
    "googlenet": (4, (3, 224, 224), True),
    "resnet18": (4, (3, 224, 224), False),
    "lstm": (20, None, False),
}
RECIPE = (
    'base_lr: 0.0005 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005 random_seed: 4 snapshot_after_train: false'
)


def prepare(folder: Path, name: str, iterations: int) -> None:
    """Writes a solver with the net's name, its net and its data."""
    batch, shape, _ = NETS[name]
    net = pb.NetParameter()
    net.CopyFrom(prototxt.read_net(ROOT / "models" / name / "train_val.prototxt").message)
    rng = np.random.default_rng(7)
    if shape:
        images = [(rng.integers(0, 255, shape).astype(np.uint8), int(rng.integers(10))) for _ in range(4 * batch)]
        write_lmdb(folder / f"{name}_data", images)
    else:
        codes = rng.integers(0, 128, (200, 4))
        arrays = {"code": codes, "cont": rng.random((200, 4)) > 0.1, "target": np.roll(codes, -1, 0)}
        write_hdf5(folder / f"{name}.h5", {key: array.astype(np.float32) for key, array in arrays.items()})
        (folder / f"{name}_data").write_text(f"{name}.h5\n")
    for layer in net.layer:
        for field in ("data_param", "hdf5_data_param"):
            if layer.HasField(field):
                getattr(layer, field).source, getattr(layer, field).batch_size = f"{name}_data", batch
        if layer.HasField("transform_param") or layer.HasField("data_param"):
            transform = layer.transform_param
            transform.ClearField("mean_file")
            transform.mean_value[:], transform.scale = [128], 1 / 128
    (folder / f"{name}.prototxt").write_text(text_format.MessageToString(net))
    text = f'net: "{name}.prototxt" {RECIPE} max_iter: {iterations} average_loss: {iterations}'
    (folder / name).write_text(text)


def run(folder: Path, ranks: int, words: list[str]) -> None:
    job = [sys.executable, str(ROOT / "tests" / "parallel" / "split_jobs.py"), *words]
    threads = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = job if ranks == 1 else ["mpirun", "-n", str(ranks), *job]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **threads}, stdout=subprocess.DEVNULL)


def difference(folder: Path, name: str, dtype: str, split: str) -> float:
    """The largest one of all parameters and losses."""
    with np.load(folder / f"{name}.{dtype}.one.npz") as one, np.load(folder / f"{name}.{dtype}.{split}.npz") as other:
        pairs = [(one[key], other[key]) for key in one.files]
    return max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--dtypes", nargs="*", default=list(LIMITS))
    arguments = parser.parse_args()
    wrong = False
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in arguments.nets or NETS:
            prepare(folder, name, arguments.iterations)
            run(folder, 1, [f"{name}:{dtype}:{dtype}.one:" for dtype in arguments.dtypes])
            for ranks in arguments.ranks:
                splits = [each for each in STAGES[ranks] if NETS[name][2] or "micro" not in each]
                splits += [each for each in SHARDS[ranks] if NETS[name][2] or "hybrid" not in each]
                words = [f"{name}:{dtype}:{dtype}.{split}:{split}" for split in splits for dtype in arguments.dtypes]
                run(folder, ranks, words)
                for split in splits:
                    found = {dtype: difference(folder, name, dtype, split) for dtype in arguments.dtypes}
                    wrong |= any(found[dtype] > LIMITS[dtype] for dtype in found)
                    numbers = "  ".join(f"{dtype} {value:.2g}" for dtype, value in found.items())
                    print(f"{name:14} {ranks} ranks  {split:26} {numbers}", flush=True)
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
