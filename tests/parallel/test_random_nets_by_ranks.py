"""Random nets that two ranks train as one alone does: tools/random_nets.py under mpirun."""

import sys

import pytest
from launching import ROOT, environment, mpirun, needs_mpi, outputs

pytestmark = [needs_mpi, pytest.mark.mpi]
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
LATE = 1200  # seconds: rank 0 compiles all that these nets need, on cores that other work may share


def test_two_ranks_train_random_nets_as_one(tmp_path):
    """The ranks share the cores of this machine themselves; among the nets are some that draw numbers."""
    words = [sys.executable, ROOT / "tools/random_nets.py", "--nets", 20, "--seed", 0, 7320000]
    env = {name: value for name, value in environment().items() if name not in THREADS}
    out, err = outputs(mpirun(2, *words, env=env, cwd=tmp_path), LATE)
    assert "40 nets, 0 differences" in out, out + err
