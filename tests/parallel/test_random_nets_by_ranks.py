"""Random nets that two ranks train as one alone does: tools/random_nets.py under mpirun."""

import sys

import pytest
from launching import ROOT, environment, mpirun, needs_mpi, outputs

pytestmark = [needs_mpi, pytest.mark.mpi]
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
LATE = 1200  # seconds: both ranks compile all that these nets need, on cores that other work may share


@pytest.mark.parametrize("first, count", [(0, 20), pytest.param(7320000, 20, marks=pytest.mark.slow)])
def test_two_ranks_train_random_nets_as_one(first, count, tmp_path):
    """The ranks share the cores of this machine themselves; among the nets are some that draw numbers."""
    words = [sys.executable, ROOT / "tools/random_nets.py", "--nets", count, "--seed", first]
    env = {name: value for name, value in environment().items() if name not in THREADS}
    out, err = outputs(mpirun(2, *words, env=env, cwd=tmp_path), LATE)
    assert f"{count} nets, 0 differences" in out, out + err
