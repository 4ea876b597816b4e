"""Two processes train a net with layers of a fork."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from launching import COMMAND, ROOT, SOLVER, finish, mpirun, needs_mpi

from caffelite import weights

pytestmark = [needs_mpi, pytest.mark.mpi]
FORK = ROOT / "tests/fork/small_fork"
NET = """
layer { name: "data" type: "DummyData" top: "x" top: "t" dummy_data_param {
  shape { dim: 8 dim: 3 dim: 2 dim: 2 } shape { dim: 8 dim: 2 dim: 2 dim: 2 }
  data_filler { type: "constant" value: 0.7 } data_filler { type: "constant" value: 0.3 } } }
layer { name: "mix" type: "ChannelMix" bottom: "x" top: "y"
  channel_mix_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "wave" type: "Wave" bottom: "y" top: "w" wave_param { frequency: 0.7 } }
layer { name: "loss" type: "HuberLoss" bottom: "w" bottom: "t" top: "loss" huber_loss_param { mean: ALL } }
"""


def trained(folder: Path, ranks: int) -> list[np.ndarray]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "mlp.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER + 'snapshot_prefix: "s"')
    finish(mpirun(ranks, *COMMAND, "-fork", FORK, cwd=folder), timeout=250)
    return weights.decode_model((folder / "s_iter_50.caffemodel").read_bytes(), folder / "s")["mix"]


def test_two_processes_learn_what_one_learns(tmp_path):
    """Each has a process of its own for the fork's code; the batches of both are alike."""
    alone, together = (trained(tmp_path / str(ranks), ranks) for ranks in (1, 2))
    assert np.abs(alone[0]).max() > 0.01
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
