"""Several ranks train as one would, whether they divide the batch or the net."""

import sys
from pathlib import Path

import jobs
import numpy as np
import pytest
from launching import SOLVER, finish, mpirun, needs_mpi, prepare, shipped

pytestmark = [needs_mpi, pytest.mark.mpi]
RANKS = (2, 3, 4)
# Of a maximum over nearly equal numbers the last bit decides where a gradient goes, and the last bits of a sum depend
# on the batch that a process sees: nets with max pooling are compared in float64, to 1e-9.
SHARED = {name: "float32" for name in ("mlp", "weighted", "noisy", "clipped", "lars")}
SHARED |= {name: "float64" for name in ("lenet", "cifar10_quick", "cifar10_full")}
TWICE = ("mlp", "lenet")
DIVIDED = {  # in float64
    "mlp": {2: ["stages=2", "stages=2,micro_batches=4", "shards=2"], 4: ["stages=2", "shards=2"]},
    "weighted": {2: ["stages=2,micro_batches=3"], 4: ["stages=2,micro_batches=3"]},
    "noisy": {2: ["stages=2,micro_batches=3"]},
    "clipped": {2: ["stages=2,micro_batches=2", "shards=2"], 4: ["stages=2,micro_batches=3", "stages=2,shards=2"]},
    "lars": {2: ["stages=2", "shards=2"], 4: ["stages=2,shards=2"]},
    "lenet": {
        2: ["stages=2,micro_batches=4", "shards=2", "hybrid=2"],
        3: ["stages=3,micro_batches=6"],
        4: ["stages=4,micro_batches=2", "stages=2,shards=2,micro_batches=2", "hybrid=2", "hybrid=4"],
    },
}
ONE = sorted({*SHARED.items(), *((name, "float64") for name in DIVIDED)})


def prepare_solvers(folder: Path) -> None:
    """Solvers of 20 iterations of 12 samples."""
    prepare(folder)
    plain = SOLVER.replace("max_iter: 50", "max_iter: 20 average_loss: 20 snapshot_after_train: false ")
    texts = {
        "mlp": plain,
        "weighted": plain.replace("mlp.prototxt", "weighted.prototxt"),
        "noisy": plain.replace("mlp.prototxt", "noisy.prototxt"),
        "clipped": plain + "iter_size: 2 clip_gradients: 0.5",
        "lars": plain + "local_lr_auto: true local_gw_ratio: 0.02 warmup_iter: 10",
        "lenet": shipped(folder, "lenet", (1, 28, 28)) + " average_loss: 20",
        # A quarter of their pixels, for the time it takes.
        "cifar10_quick": shipped(folder, "cifar10_quick", (3, 16, 16)),
        "cifar10_full": shipped(folder, "cifar10_full", (3, 16, 16)),
    }
    weights = "loss_param { ignore_label: 3 class_weight: [1, 5, 0, 2, 0.1, 1, 1, 3, 1, 1] }"
    weighted = (folder / "mlp.prototxt").read_text().replace('"SoftmaxWithLoss"', f'"SoftmaxWithLoss" {weights}')
    (folder / "weighted.prototxt").write_text(weighted)
    for name, text in texts.items():
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of all nets' parameters, by one process and by jobs of two to four."""
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare_solvers(folder)
        for name, dtype in ONE:
            np.savez(folder / f"{name}.1.{dtype}.npz", **jobs.train(None, name, dtype))
        for ranks in RANKS:
            words = [f"{name}:{dtype}:{ranks}.{dtype}:" for name, dtype in SHARED.items()]
            words += [f"{name}:{SHARED[name]}:{ranks}.again:" for name in TWICE]
            words += [f"mlp:float32:{ranks}.half:half"]
            words += [
                f"{name}:float64:{ranks}.{split}:{split}"
                for name, actual in DIVIDED.items()
                for split in actual.get(ranks, [])
            ]
            finish(mpirun(ranks, sys.executable, jobs.__file__, *words, cwd=folder), timeout=250)
    return folder


def load(folder: Path, name: str, ranks: int, how: str) -> dict[str, np.ndarray]:
    with np.load(folder / f"{name}.{ranks}.{how}.npz") as file:
        return dict(file)


def parameters(*which) -> list[np.ndarray]:
    return [array for key, array in load(*which).items() if key.startswith("last")]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name, dtype", SHARED.items())
def test_ranks_that_divide_a_batch_train_as_one(trained, name, ranks, dtype):
    pairs = zip(parameters(trained, name, ranks, dtype), parameters(trained, name, 1, dtype), strict=True)
    for actual, expected in pairs:
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", TWICE)
def test_two_runs_give_the_same_bits(trained, name, ranks):
    again, first = load(trained, name, ranks, "again"), load(trained, name, ranks, SHARED[name])
    assert again.keys() == first.keys()
    for key, array in first.items():
        np.testing.assert_array_equal(again[key], array)


@pytest.mark.parametrize("ranks", RANKS)
def test_gradients_in_16_bits_stay_near(trained, ranks):
    half, full, one = (
        parameters(trained, "mlp", *which) for which in ((ranks, "half"), (ranks, "float32"), (1, "float32"))
    )
    assert any(np.abs(a - b).max() > 0 for a, b in zip(half, full, strict=True)), "they are rounded"
    for actual, expected in zip(half, one, strict=True):
        assert np.linalg.norm(actual - expected) < 0.1 * np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, ranks, split",
    [(name, ranks, split) for name, found in DIVIDED.items() for ranks, splits in found.items() for split in splits],
)
def test_parts_train_as_one_process(trained, name, ranks, split):
    actual, expected = load(trained, name, ranks, split), load(trained, name, 1, "float64")
    assert actual.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_allclose(actual[key], array, rtol=0, atol=1e-10 * np.abs(array).max())
