"""mpirun, small nets and their data, for the tests here."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import command_jobs
import numpy as np
import pytest

from caffelite.data.writers import write_hdf5, write_lmdb, write_mean

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-c", "from caffelite.cli import main; main()", "train", "-solver", "solver.prototxt"]
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
WHY_NOT = (
    "mpi4py is not installed" if not importlib.util.find_spec("mpi4py") else "there is no mpirun" if not MPIRUN else ""
)
needs_mpi = pytest.mark.skipif(bool(WHY_NOT), reason=f"{WHY_NOT}: pip install 'caffelite[mpi]'")

# Everything that could depend on the rank: mirrored random crops, shuffled rows, dropout.
MLP = """
name: "mlp"
layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { mirror: true crop_size: 6 scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 12 shuffle: true } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 64 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
# Beside each image numbers from a random filler, which must not depend on the rank either.
NOISE = """
layer { name: "noise" type: "DummyData" top: "noise"
  dummy_data_param { shape { dim: 12 dim: 7 } data_filler { type: "gaussian" std: 0.5 } } }
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "both" type: "Concat" bottom: "flat" bottom: "noise" top: "both" }
"""
# The root of 0 has no derivative.
ROOT_OF_0 = """
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 4 dim: 3 }
  data_filler { type: "gaussian" } } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "size" type: "ReLU" bottom: "value" top: "size" }
layer { name: "root" type: "Power" bottom: "size" top: "root" power_param { power: 0.5 } }
layer { name: "sum" type: "Reduction" bottom: "root" top: "sum" loss_weight: 1 }
"""
SOLVER = (
    'net: "mlp.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005 random_seed: 3 '
    "max_iter: 50 "
)


def images(count: int, shape: tuple[int, ...], rng) -> list[tuple[np.ndarray, int]]:
    """Noise with a bright stripe where its label says."""
    actual = []
    for i in range(count):
        image, label = rng.integers(0, 90, shape), i * 7 % 10
        image[:, label * shape[1] // 10] += 160
        actual.append((image.astype(np.uint8), label))
    return actual


def prepare(folder: Path) -> None:
    rng = np.random.default_rng(5)
    write_lmdb(folder / "images", images(100, (3, 8, 8), rng))
    write_hdf5(folder / "rows.h5", {"x": rng.standard_normal((13, 5)), "y": rng.standard_normal((13, 2))})
    (folder / "mlp.prototxt").write_text(MLP)
    first, rest = MLP.split('layer { name: "ip1"')
    noisy = f'{first}{NOISE}layer {{ name: "ip1"{rest}'.replace(
        'bottom: "data" top: "ip1"', 'bottom: "both" top: "ip1"'
    )
    (folder / "noisy.prototxt").write_text(noisy)


def shipped(folder: Path, name: str, shape: tuple[int, ...]) -> str:
    """A shipped net on made up images, 12 a batch, by its own recipe for 20 iterations: its solver."""
    made = images(60, shape, np.random.default_rng(6))
    write_lmdb(folder / f"{name}_images", made)
    write_mean(folder / "mean.binaryproto", np.mean([image for image, _ in made], 0), force=True)
    net, solver = ROOT / f"models/{name}/train_val.prototxt", ROOT / f"solvers/{name}_solver.prototxt"
    source = f'source: "{name}_images" batch_size: 12'
    text = re.sub(r'source: "\w+" batch_size: \d+', source, net.read_text())
    (folder / f"{name}.prototxt").write_text(text)
    recipe = r"(base_lr|lr_policy|gamma|power|momentum|weight_decay|stepvalue|type)\b"
    lines = [line for line in solver.read_text().split("\n") if re.match(recipe, line)]
    return "\n".join([*lines, f'net: "{name}.prototxt" max_iter: 20 random_seed: 4 snapshot_after_train: false'])


def environment() -> dict[str, str]:
    """For ranks that share few cores, and for an MPI that does not like to be run by root."""
    return {
        **os.environ,
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }


def mpirun(ranks: int, *command: object, **options) -> subprocess.Popen:
    words = [MPIRUN, "-n", str(ranks), *map(str, command)]
    options.setdefault("env", environment())
    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def outputs(process: subprocess.Popen, timeout: float) -> tuple[str, str]:
    """What a job that must succeed wrote on standard output and on standard error; both are shown where it fails or is
    late."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun ends its ranks
        out, err = process.communicate()
        pytest.fail(f"not done after {timeout:.0f} s:\n{out}{err}")
    assert process.returncode == 0, f"exit status {process.returncode}:\n{out}{err}"
    return out, err


def finish(process: subprocess.Popen, timeout: float = 120) -> str:
    """What a job that must succeed wrote on standard error."""
    return outputs(process, timeout)[1]


def run_all(ranks: int, commands: dict[str, list[str]], folder: Path) -> dict[str, tuple[list[int], str]]:
    """The statuses of all ranks and what they wrote, of several commands that one job runs one after the other; without
    a job, in this process, for a single rank."""
    if ranks == 1:
        with contextlib.chdir(folder):
            return {name: ([status], message) for name, (status, message) in command_jobs.run(commands).items()}
    job = mpirun(ranks, sys.executable, command_jobs.__file__, json.dumps(commands), cwd=folder)
    return json.loads(outputs(job, 300)[0])
