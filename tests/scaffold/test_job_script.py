"""caffelite new job.sbatch: the script and what it does at the end of a job."""

import os
import subprocess
from pathlib import Path

import pytest

from caffelite.errors import CaffeliteError
from caffelite.scaffold import examples

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def script(in_tmp_path):
    Path("solvers").mkdir()
    Path("solvers/digits_solver.prototxt").write_text("max_iter: 1\n")
    return examples.write_job_script(Path("job.sbatch"), Path("solvers/digits_solver.prototxt"))


def test_it_is_the_script_of_the_documentation(script):
    """Which the tests on a cluster run."""
    documented = (ROOT / "docs/cluster.md").read_text().split("`job.sbatch`:")[1].split("```")[1].partition("\n")[2]
    lines = script.read_text().splitlines()
    bare = [line for line in lines if not line.startswith("# ")]
    assert bare == documented.splitlines()
    assert lines.count("#!/bin/bash") == 1 and len(lines) > len(bare)


@pytest.mark.parametrize("status, requeued", [(138, ["requeue 7"]), (0, []), (2, [])])
def test_it_requeues_after_a_snapshot_on_sigusr1_alone(script, tmp_path, status, requeued):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {
        "srun": f'echo "$@" >> {tmp_path}/srun.txt; exit {status}',
        "scontrol": f'echo "$@" >> {tmp_path}/scontrol.txt',
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_ID": "7"}
    assert subprocess.run(["bash", script], env=environment).returncode == status
    words = (tmp_path / "srun.txt").read_text().strip()
    assert words == "--mpi=pmi2 caffelite train -solver solvers/digits_solver.prototxt -resume auto"
    asked = tmp_path / "scontrol.txt"
    assert (asked.read_text().splitlines() if asked.exists() else []) == requeued


def test_names_with_spaces_and_quotes(tmp_path):
    solver = tmp_path / "it's a_solver.prototxt"
    solver.write_text("max_iter: 1\n")
    written = examples.write_job_script(tmp_path / "job.sbatch", solver)
    assert subprocess.run(["bash", "-n", written]).returncode == 0


def test_errors(script):
    with pytest.raises(CaffeliteError, match="exists already"):
        examples.write_job_script(script, Path("solvers/digits_solver.prototxt"))
    for solver in (None, Path("none.prototxt")):
        with pytest.raises(CaffeliteError, match="needs a solver"):
            examples.write_job_script(Path("other.sbatch"), solver)
