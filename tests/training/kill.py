"""Kills a run that snapshots every iteration, at random moments, and resumes it from the newest state on disk each
time.

At the end its snapshot must hold, bit for bit, what that of a run that was never killed holds, less the run's id:
python tests/training/kill.py --kills 100
"""

import argparse
import random
import re
import sys
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from caffelite.data.writers import write_hdf5

sys.path.insert(0, str(Path(__file__).parents[1]))

import forked  # noqa: E402

NET = """
name: "killed"
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4
  shuffle: true } }
layer { name: "hidden" type: "InnerProduct" bottom: "x" top: "hidden"
  inner_product_param { num_output: 4000 weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "hidden" top: "hidden" }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "hidden" }
layer { name: "value" type: "InnerProduct" bottom: "hidden" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }
"""
SOLVER = (
    'net: "net.prototxt" base_lr: 0.00001 lr_policy: "fixed" momentum: 0.9 average_loss: 3 snapshot: 1 random_seed: 9 '
)


def prepare(folder: Path) -> None:
    rng = np.random.default_rng(1)
    write_hdf5(folder / "rows.h5", {"x": rng.standard_normal((13, 20)), "y": rng.standard_normal((13, 2))})
    (folder / "net.prototxt").write_text(NET)


def write_solver(folder: Path, prefix: str, iterations: int, snapshot: int = 1) -> str:
    name = f"{prefix}.prototxt"
    (folder / name).write_text(
        SOLVER.replace("snapshot: 1", f"snapshot: {snapshot}") + f'max_iter: {iterations} snapshot_prefix: "{prefix}"\n'
    )
    return name


def states(folder: Path, prefix: str) -> dict[int, Path]:
    return {
        int(m[1]): path
        for path in folder.iterdir()
        if (m := re.fullmatch(rf"{prefix}_iter_(\d+)\.solverstate", path.name))
    }


def newest(folder: Path, prefix: str) -> tuple[int, Path | None]:
    return max(states(folder, prefix).items(), default=(0, None))


def start(folder: Path, solver: str, state: Path | None) -> BaseProcess:
    resume = ["-snapshot", state.name] if state else []
    return forked.start(["train", "-solver", solver, *resume], folder, folder / "log")


def kill_once(folder: Path, rng: random.Random) -> int:
    """Runs until it has gone on from the newest state, kills it a random moment later; the newest iteration before."""
    solver = write_solver(folder, "killed", 10**6)
    before, state = newest(folder, "killed")
    process = start(folder, solver, state)
    early = rng.random() < 0.1
    end = time.monotonic() + (rng.uniform(0, 2) if early else 60)
    while time.monotonic() < end and (early or newest(folder, "killed")[0] <= before):
        if process.exitcode is not None:
            raise SystemExit(f"could not go on from {state}: {(folder / 'log').read_text()}")
        time.sleep(0.005)
    time.sleep(0 if early else rng.uniform(0, 0.3))
    process.kill()
    process.join()
    found = states(folder, "killed")
    for path in found.values():
        assert path.with_suffix(".caffemodel").exists(), f"{path} has no model"
    drafts = [path.name for path in folder.iterdir() if path.name.endswith(".draft")]
    assert len({name.split(".")[-2] for name in drafts}) <= 1 or early, f"drafts pile up: {drafts}"
    for iteration in sorted(found)[:-3]:
        found[iteration].unlink()
        found[iteration].with_suffix(".caffemodel").unlink()
    return before


def campaign(folder: Path, kills: int, seed: int = 0, say=lambda text: None) -> int:
    """The iterations that the killed run got to; raises where it differs from one that was never killed."""
    prepare(folder)
    rng = random.Random(seed)
    drafts = 0
    for i in range(kills):
        kill_once(folder, rng)
        drafts += any(path.name.endswith(".draft") for path in folder.iterdir())
        say(f"{i + 1} kills, iteration {newest(folder, 'killed')[0]}, {drafts} amid a snapshot")
    reached, state = newest(folder, "killed")
    end = reached + 5
    for solver, resume in (
        (write_solver(folder, "killed", end, 5), state),
        (write_solver(folder, "whole", end, 10**6), None),
    ):
        process = start(folder, solver, resume)
        process.join()
        assert process.exitcode == 0, (folder / "log").read_text()
    assert not [path for path in folder.iterdir() if path.name.endswith(".draft")], "drafts are left"
    from caffelite import caffelite_pb2 as pb

    killed, whole = (folder / f"{prefix}_iter_{end}.caffemodel" for prefix in ("killed", "whole"))
    one, other = (pb.NetParameter.FromString(path.read_bytes()) for path in (killed, whole))
    for model in (one, other):
        model.ClearField("run")
        model.ClearField("checksum")
    assert one == other, "the models differ"
    one, other = (pb.SolverState.FromString(path.with_suffix(".solverstate").read_bytes()) for path in (killed, whole))
    for state in (one, other):
        state.ClearField("learned_net")
        for name in ("checksum", "run", "model_digest"):
            state.ClearField(name)
        state.resume.ClearField("config_hash")
    assert one == other, "the states differ"
    return end


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        end = campaign(Path(folder), options.kills, options.seed, lambda text: print(text, flush=True))
    print(f"killed {options.kills} times; after {end} iterations equal to a run that was never killed")
