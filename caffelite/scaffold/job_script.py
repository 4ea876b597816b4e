"""``caffelite new job.sbatch SOLVER``: a script that SLURM runs and requeues, with a comment for every choice."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..errors import CaffeliteError

TEXT = """#!/bin/bash
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


def write(path: Path, solver: Path | None, force: bool = False) -> Path:
    """Writes the script. Errors: no such solver, a file that exists."""
    if solver is None or not solver.is_file():
        found = f'"{solver}"' if solver else "none"
        raise CaffeliteError("the script needs a solver", expected="the file of a solver", found=found)
    if path.exists() and not force:
        raise CaffeliteError(f"{path} exists already", remedy="add -force to replace it")
    name = shlex.quote(solver.stem.removesuffix("_solver").replace(" ", "_"))
    text = TEXT.replace("@FILE@", path.name).replace("@NAME@", name).replace("@SOLVER@", shlex.quote(str(solver)))
    try:
        path.write_text(text)
    except OSError as error:
        raise CaffeliteError(f"cannot write {path}: {error.strerror}") from None
    return path
