"""Files with a comment for every choice: ``caffelite new layer NAME``, a layer type of the user's, and ``caffelite new
job.sbatch SOLVER``, a script that SLURM runs and requeues."""

import re
import shlex
from pathlib import Path

from ..errors import CaffeliteError, reporting
from ..layers.base.extension import check_vacant, words

TEXT = '''"""The layer type @NAME@. Use it: caffelite check net.prototxt -python @FILE@. Test it: python @FILE@"""

from caffelite.extending import ArrayLayer, layer


@layer("@NAME@")  # the type in prototxts; number=... gives its message the field number of a fork of Caffe
class @NAME@(ArrayLayer):
    """y = x / (1 + slope * |x|); x, y of one shape."""

    # Fields of @FIELD@ { ... } with their defaults: float, int, bool, str, list[float], ...
    slope: float = 1

    # How many bottoms and tops there may be: fewest and most, None for any number.
    bottoms, tops = (1, 1), (1, 1)
    # Bottoms that never get a gradient, such as labels: constant_bottoms = frozenset({1})
    # A loss has weight 1 by default: loss = True
    # Whether a sample's values depend on other samples of the batch.
    couples_samples = False

    def setup(self):
        """Checks of the fields. An error names the place in the prototxt."""
        if self.slope < 0:
            raise self.error("a bad slope", "slope", expected="0 or more", found=self.slope)

    def shapes(self, bottoms):
        """The shape of each top. A parameter: self.add_param(shape, filler("xavier")), from caffelite.extending."""
        return [bottoms[0]]

    def compute(self, xp, x):
        """The top, or a tuple of tops. xp is NumPy on a CPU and CuPy on a GPU; parameters come after the bottoms."""
        return x / (1 + self.slope * xp.abs(x))

    def gradient(self, xp, x, y, dy):
        """The gradient of each bottom and parameter. For experiments: gradient = finite_differences"""
        return dy[0] / (1 + self.slope * xp.abs(x[0])) ** 2


if __name__ == "__main__":
    import numpy as np

    from caffelite.testing import check_layer

    x = np.random.default_rng(1).normal(size=(3, 4))
    check_layer("@NAME@", x, settings="@FIELD@ { slope: 2 }", reference=lambda x: x / (1 + 2 * abs(x)))
    print("@NAME@: forward, gradient, NaN and a batch of one are right")
'''


def write(name: str, force: bool = False) -> Path:
    """Writes the file into the current folder. Errors: a type that caffelite has, a file that exists."""
    if not re.fullmatch(r"[A-Z]\w*", name, re.ASCII):
        what = "this is no name of a layer type"
        raise CaffeliteError(what, expected="letters and digits, as in MyLayer", found=name)
    check_vacant(name)
    path = Path(f"{words(name)}.py")
    return _written(path, TEXT, force, NAME=name, FIELD=f"{words(name)}_param")


def _written(path: Path, text: str, force: bool, **names: str) -> Path:
    """Writes a text with other names in place of @NAME@. Errors: the file exists, or cannot be written."""
    if path.exists() and not force:
        raise CaffeliteError(f"{path} exists already", remedy="add -force to replace it")
    for name, value in {"FILE": path.name, **names}.items():
        text = text.replace(f"@{name}@", value)
    with reporting(f"write {path}"):
        path.write_text(text)
    return path


JOB_SCRIPT = """#!/bin/bash
# Submit it in this folder, which all nodes must have under the same path: sbatch @FILE@
#SBATCH --job-name=@NAME@
# The processes of all nodes train one net. With GPUs: --gpus-per-node=4, --ntasks-per-node=4, and -gpu all below.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
# A training that needs more time is requeued; --partition and --account may be needed too.
#SBATCH --time=12:00:00
# The job starts again where a node dies or a more important job took its nodes; the log goes on in the same file.
#SBATCH --requeue
#SBATCH --open-mode=append
# SIGUSR1 comes so many seconds before the end of the time: longer than one iteration, a test and a snapshot take.
#SBATCH --signal=USR1@120

# One thread for each core of a process.
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK NUMBA_NUM_THREADS=$SLURM_CPUS_PER_TASK
# -resume auto goes on from the newest valid snapshot, or begins where there is none. A node that dies costs the
# iterations since that snapshot: set snapshot in the solver.
srun --mpi=pmi2 caffelite train -solver @SOLVER@ -resume auto
status=$?
# 138: SIGUSR1 ended all processes after the same iteration, with a snapshot.
if [ $status = 138 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
"""


def write_job_script(path: Path, solver: Path | None, force: bool = False) -> Path:
    """Writes the script. Errors: no such solver, a file that exists."""
    if solver is None or not solver.is_file():
        found = f'"{solver}"' if solver else "none"
        raise CaffeliteError("the script needs a solver", expected="the file of a solver", found=found)
    name = shlex.quote(solver.stem.removesuffix("_solver").replace(" ", "_"))
    return _written(path, JOB_SCRIPT, force, NAME=name, SOLVER=shlex.quote(str(solver)))
