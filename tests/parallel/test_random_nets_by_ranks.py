"""Random nets that two ranks train as one alone does: tools/random_nets.py under mpirun."""

import subprocess
import sys

import pytest
from launching import MPIRUN, ROOT, environment, needs_mpi

pytestmark = [needs_mpi, pytest.mark.mpi]
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")


@pytest.mark.parametrize("first, count", [(0, 20), pytest.param(7320000, 20, marks=pytest.mark.slow)])
def test_two_ranks_train_random_nets_as_one(first, count, tmp_path):
    """The ranks share the cores of this machine themselves; among the nets are some that draw numbers."""
    words = [MPIRUN, "-n", "2", sys.executable, ROOT / "tools/random_nets.py", "--nets", str(count)]
    env = {name: value for name, value in environment().items() if name not in THREADS}
    done = subprocess.run(
        [*words, "--seed", str(first)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} nets, 0 differences" in done.stdout
