"""Several ranks train as one would."""

import re
import sys
from pathlib import Path

import jobs
import numpy as np
import pytest
from launching import COMMAND, SOLVER, finish, mpirun, needs_mpi, prepare, shipped

pytestmark = [needs_mpi, pytest.mark.mpi]
JOBS = Path(__file__).with_name("jobs.py")

# Of a maximum over nearly equal numbers the last bit decides where a gradient goes, and the last bits of a sum depend
# on the batch that a process sees: nets with max pooling are compared in float64, to 1e-9.
SOLVERS = {name: "float32" for name in ("mlp", "noisy", "accumulated", "lars")}
SOLVERS |= {name: "float64" for name in ("lenet", "cifar10_quick", "cifar10_full")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of all solvers' parameters after 20 iterations of 12 samples, on 1 to 4 ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare(folder)
        plain = SOLVER.replace("max_iter: 50", "max_iter: 20") + "snapshot_after_train: false "
        texts = {
            "mlp": plain,
            "noisy": plain.replace("mlp.prototxt", "noisy.prototxt"),
            "accumulated": plain + "iter_size: 2 clip_gradients: 0.5",
            "lars": plain + "local_lr_auto: true local_gw_ratio: 0.02 warmup_iter: 10",
            "lenet": shipped(folder, "lenet", (1, 28, 28)),
            # A quarter of their pixels, for the time it takes.
            "cifar10_quick": shipped(folder, "cifar10_quick", (3, 16, 16)),
            "cifar10_full": shipped(folder, "cifar10_full", (3, 16, 16)),
        }
        for name, text in texts.items():
            (folder / f"{name}_solver").write_text(text)
        for name, dtype in SOLVERS.items():
            np.savez(folder / f"{name}_solver.1.0.npz", *jobs.train(None, f"{name}_solver", dtype))
        for ranks in (2, 3, 4):
            words = [
                f"{name}_solver:{dtype}{':twice' if name in ('mlp', 'lenet') else ''}"
                for name, dtype in SOLVERS.items()
            ]
            finish(mpirun(ranks, sys.executable, JOBS, *words, "mlp_solver:float32:half", cwd=folder), timeout=250)
    return folder


def load(folder, name, ranks, run=0):
    with np.load(folder / f"{name}_solver.{ranks}.{run}.npz") as file:
        return [file[key] for key in file.files]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", SOLVERS)
def test_ranks_that_divide_a_batch_train_as_one(trained, name, ranks):
    for found, expected in zip(load(trained, name, ranks), load(trained, name, 1), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if SOLVERS[name] == "float32" else 1e-9)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_two_runs_give_the_same_bits(trained, name, ranks):
    for first, second in zip(load(trained, name, ranks, 0), load(trained, name, ranks, 1), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_gradients_in_16_bits_stay_near(trained, ranks):
    pairs = list(
        zip(load(trained, "mlp", ranks, "0h"), load(trained, "mlp", 1), load(trained, "mlp", ranks), strict=True)
    )
    assert any(np.abs(half - full).max() > 0 for half, _, full in pairs), "they are rounded"
    for half, expected, _ in pairs:
        assert np.linalg.norm(half - expected) < 0.1 * np.linalg.norm(expected)


# The command


def write(folder, text):
    (folder / "solver.prototxt").write_text(text)


def numbers(log):
    """Losses and scores, in order, without times."""
    return [
        (m[1], float(m[2]))
        for m in re.finditer(r"(Iteration \d+.*loss|net output #\d+: \w+) = (\S+)", re.sub(r" \(.*?iters\)", "", log))
    ]


def test_a_job_logs_once_and_resumes_with_other_ranks(folder):
    """Three jobs, of 1, 2 and 3 ranks: the first half of a run, its whole, and the second half from another's
    snapshot."""
    text = (
        SOLVER
        + 'test_iter: 5 test_interval: 10 display: 10 snapshot: 20 snapshot_prefix: "run" snapshot_format: BINARYPROTO '
    )
    write(folder, text)
    strong = [*COMMAND, "-scaling", "strong"]
    logs = {1: finish(mpirun(1, *strong, cwd=folder)), 2: finish(mpirun(2, *strong, cwd=folder))}
    assert "2 processes (MPI, CPU), strong scaling: 6 samples each, 12 in an iteration; rate 0.05" in logs[2]
    assert "50 iterations, 6 epochs of 100 samples" in logs[2]
    assert [name for name, _ in numbers(logs[2])] == [name for name, _ in numbers(logs[1])]
    for (_, found), (name, expected) in zip(numbers(logs[2]), numbers(logs[1]), strict=True):
        assert found == pytest.approx(expected, abs=2e-4), name
    (folder / "run_iter_50.solverstate").unlink()
    (folder / "run_iter_40.solverstate").write_bytes(b"cut off")
    later = finish(mpirun(3, *strong, "-resume", "auto", cwd=folder))
    assert "run_iter_40.solverstate is damaged" in later and "Resuming from run_iter_20.solverstate" in later
    assert len(re.findall("Resuming from run_iter", later)) == 1
    for (_, found), (name, expected) in zip(
        numbers(later)[1:], numbers(logs[1])[-len(numbers(later)) + 1 :], strict=True
    ):
        assert found == pytest.approx(expected, abs=2e-4), name


def test_epochs_count_the_samples_of_all_ranks(folder):
    """100 samples, 12 in a batch: 9 iterations an epoch with strong scaling, 5 with weak scaling of 2 ranks."""
    write(folder, SOLVER.replace("max_iter: 50", "max_epoch: 2") + 'snapshot_epoch: 1 snapshot_prefix: "run"')
    strong = finish(mpirun(2, *COMMAND, "-scaling", "strong", cwd=folder))
    text = "Epochs: 100 samples, %d in an iteration, %d iterations each; max_epoch 2 is max_iter %d"
    assert text % (12, 9, 18) in strong and (folder / "run_iter_18.caffemodel").exists()
    weak = finish(mpirun(2, *COMMAND, "-snapshot", "run_iter_9.solverstate", cwd=folder))
    assert text % (24, 5, 10) in weak and (folder / "run_iter_10.caffemodel").exists()
    assert len(re.findall("The snapshot has read 108 samples", weak)) == 1
    again = finish(mpirun(3, *COMMAND, "-scaling", "strong", "-snapshot", "run_iter_9.solverstate", cwd=folder))
    assert text % (12, 9, 18) in again and "The snapshot has read" not in again


def test_a_batch_that_cannot_be_divided(folder):
    write(folder, SOLVER)
    job = mpirun(5, *COMMAND, "-scaling", "strong", cwd=folder)
    err = job.communicate(timeout=60)[1]
    assert (
        job.returncode
        and 'mlp.prototxt:5:59: layer "data": 5 processes cannot share its batch; expected a multiple of 5, as 10 or '
        "15, found 12"
        in err
    )
    assert err.count("cannot share") == 1 and "last place" not in err
