"""A job for one or several ranks, which trains solvers and saves their parameters: mpirun -n N python jobs.py
SOLVER:DTYPE:NAME:HOW ...

SOLVER.NAME.npz has the arrays of the complete net. HOW is a split; nothing, where ranks divide the batch alone; "half",
where they send gradients in 16 bits; or "perturbed", where one process trains from weights that are one rounding larger
or smaller. Pipelines compute the weight gradients of small inner products once for all micro-batches too.
"""

import sys
from pathlib import Path

import numpy as np

from caffelite import devices, parallel, prototxt, weights
from caffelite.net import deferred
from caffelite.training import Trainer, build_trainer
from caffelite.training.checkpoint.content import parameters_of

LEAST_WEIGHTS = deferred.LEAST_WEIGHTS


def perturb(run: Trainer) -> None:
    """Moves each parameter to the next larger or smaller floating-point number."""
    flat = run.net.params.data
    values = run.dev.download(flat)
    towards = np.where(np.random.default_rng(1).random(values.shape) < 0.5, -np.inf, np.inf)
    run.dev.upload(flat, np.nextafter(values, towards.astype(values.dtype)))


def train(comm, path: str, dtype: str, how: str = "", **options) -> dict[str, np.ndarray]:
    """The history of each parameter after the first iteration ("first 0" ...: rate times gradient), each parameter at
    the end ("last 0" ...) and the losses. Right on rank 0."""
    document = prototxt.read_solver(path)
    dev = devices.open_device(dtype=dtype)
    options |= {"split": "" if how in ("half", "perturbed") else how, "fp16_gradients": how == "half"}
    run = build_trainer(document.message, document.locate, path, dev, comm=comm, **options)
    mesh = run.learning.division.mesh
    try:
        if how == "perturbed":
            perturb(run)
        actual = {}
        for name, flat, iterations in (("first", run.state.histories[0], 1), ("last", run.net.params.data, None)):
            run.step(iterations) if iterations else run.solve()
            if not mesh.position.group:
                blobs = parameters_of(run.net, run.learning.division).blobs(flat)
                actual |= {f"{name} {i}": blob for i, blob in enumerate(blobs)}
        same = mesh.data.gather(dev.download(run.net.params.data).tobytes())
        assert len(set(same)) == 1, "ranks end with other parameters"
        return {**actual, "losses": np.array(run.loss_window(run.p.max_iter))}
    finally:
        run.close()


def assert_as_one(model: Path, atol: float) -> None:
    """What several processes trained by solver.prototxt, the MLP, is what one trains."""
    net = weights.read_model(model)
    expected = train(None, "solver.prototxt", "float32")
    for i, actual in enumerate(blob for name in ("ip1", "ip2") for blob in net[name]):
        np.testing.assert_allclose(
            actual.reshape(expected[f"last {i}"].shape), expected[f"last {i}"], rtol=0, atol=atol
        )


def main() -> None:
    with parallel.session(60) as comm:
        for word in sys.argv[1:]:
            path, dtype, name, how = word.split(":")
            deferred.LEAST_WEIGHTS = 1 if "=" in how else LEAST_WEIGHTS
            actual = train(comm, path, dtype, how, strong_scaling=True)
            if not comm.rank:
                np.savez(f"{path}.{name}.npz", **actual)


if __name__ == "__main__":
    main()
