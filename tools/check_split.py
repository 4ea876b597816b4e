"""Trains nets in parts on several processes and compares their parameters with those of one process.

    python tools/check_split.py                                 every net, 20 iterations, on 2 and 4 ranks
    python tools/check_split.py lenet googlenet --iterations 5  these, 5 iterations

Each net trains on random data in small batches, divided into stages, into shards, into both, and by samples and outputs
(hybrid). The table has the largest difference of a parameter, relative to the largest number of its blob. The exit
status is 1 where it is above 1e-5 in float32 or 1e-10 in float64.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from google.protobuf import text_format

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "parallel")]

from caffelite import caffelite_pb2 as pb, prototxt  # noqa: E402
from caffelite.data.writers import write_hdf5, write_lmdb  # noqa: E402

LIMITS = {"float32": 1e-5, "float64": 1e-10}
ALLOWED = 10  # times the difference that one rounding of each weight makes
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


def smooth(net: pb.NetParameter) -> None:
    """Replaces each ReLU by an ELU, and maximum pooling by averages: a rounding then changes no gradient by a jump."""
    for layer in net.layer:
        if layer.type == "ReLU":
            layer.type = "ELU"
            layer.ClearField("relu_param")
        elif layer.type == "Pooling":
            layer.pooling_param.pool = pb.PoolingParameter.AVE


def prepare(folder: Path, name: str, iterations: int, smoothed: bool = False) -> None:
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
    if smoothed:
        smooth(net)
    (folder / f"{name}.prototxt").write_text(text_format.MessageToString(net))
    text = f'net: "{name}.prototxt" {RECIPE} max_iter: {iterations} average_loss: {iterations}'
    (folder / name).write_text(text)


def run(folder: Path, ranks: int, words: list[str]) -> bool:
    """Trains; False where the net cannot be divided so."""
    job = [sys.executable, str(ROOT / "tests" / "parallel" / "jobs.py"), *words]
    threads = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = job if ranks == 1 else ["mpirun", "-n", str(ranks), *job]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **threads}, capture_output=True, text=True)
    if done.returncode and "devices can divide no layer" not in done.stderr:
        raise SystemExit(done.stderr)
    return not done.returncode


class Difference(NamedTuple):
    """The largest difference of two runs, relative to the largest number of each array: of the gradients of the first
    iteration, of the parameters at the end, and of the losses."""

    gradients: float
    parameters: float
    losses: float

    def __str__(self) -> str:
        return f"{self.gradients:.1e} {self.parameters:.1e} {self.losses:.1e}"


def difference(folder: Path, name: str, dtype: str, split: str) -> Difference:
    """Of a run and the run of one process."""
    with np.load(folder / f"{name}.{dtype}.one.npz") as one, np.load(folder / f"{name}.{dtype}.{split}.npz") as other:
        if one.files != other.files:
            raise SystemExit(f"{name}, {split}: other arrays than one process has")
        found = [0.0, 0.0, 0.0]
        for key in one.files:
            kind = ("first", "last", "losses").index(key.split()[0])
            relative = float(np.abs(one[key] - other[key]).max() / max(np.abs(one[key]).max(), 1e-30))
            found[kind] = max(found[kind], relative)
    return Difference(*found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--dtypes", nargs="*", default=list(LIMITS), choices=LIMITS)
    parser.add_argument("--splits", nargs="*", help="values of -split (default: each kind)")
    text = "with ELU for ReLU and average for maximum pooling, so that roundings stay roundings"
    parser.add_argument("--smooth", action="store_true", help=text)
    arguments = parser.parse_args()
    wrong = False
    print("relative differences from one process: gradients of iteration 1, parameters at the end, losses")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in arguments.nets or NETS:
            prepare(folder, name, arguments.iterations, arguments.smooth)
            words = [f"{name}:{dtype}:{dtype}.one:" for dtype in arguments.dtypes]
            limits = dict(LIMITS)
            if "float32" in arguments.dtypes:
                run(folder, 1, [*words, f"{name}:float32:float32.perturbed:perturbed"])
                found = difference(folder, name, "float32", "perturbed")
                print(f"{name:14} 1 rank   {'weights moved by 1 ulp':26} float32 {found}", flush=True)
                limits["float32"] = max(limits["float32"], ALLOWED * found.parameters)
            else:
                run(folder, 1, words)
            for ranks in arguments.ranks:
                splits = arguments.splits or [*STAGES[ranks], *SHARDS[ranks]]
                splits = [each for each in splits if NETS[name][2] or not ("micro" in each or "hybrid" in each)]
                for split in splits:
                    words = [f"{name}:{dtype}:{dtype}.{split}:{split}" for dtype in arguments.dtypes]
                    if not run(folder, ranks, words):
                        print(f"{name:14} {ranks} ranks  {split:26} not possible", flush=True)
                        continue
                    each = {dtype: difference(folder, name, dtype, split) for dtype in arguments.dtypes}
                    wrong |= any(each[dtype].parameters > limits[dtype] for dtype in each)
                    numbers = "  ".join(f"{dtype} {value}" for dtype, value in each.items())
                    print(f"{name:14} {ranks} ranks  {split:26} {numbers}", flush=True)
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
