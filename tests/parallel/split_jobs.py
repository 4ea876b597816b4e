"""A job whose ranks divide nets, which trains solvers and saves their parameters: mpirun -n N python split_jobs.py
SOLVER:DTYPE:NAME:SPLIT ...

SOLVER.NAME.npz has the arrays of the complete net. Without a split one process trains the complete net; with the split
"perturbed" it does so from weights that are one rounding larger or smaller. Pipelines compute the weight gradients of
small inner products once for all micro-batches too.
"""

import sys

import numpy as np

from caffelite import devices, parallel, prototxt
from caffelite.net import deferred
from caffelite.training import Trainer, build_trainer
from caffelite.training.checkpoint.content import parameters_of


def perturb(run: Trainer) -> None:
    """Moves each parameter to the next larger or smaller floating-point number."""
    flat = run.net.params.data
    values = run.dev.download(flat)
    towards = np.where(np.random.default_rng(1).random(values.shape) < 0.5, -np.inf, np.inf)
    run.dev.upload(flat, np.nextafter(values, towards.astype(values.dtype)))


def train(comm, path: str, dtype: str, split: str, **options) -> dict[str, np.ndarray]:
    """The history of each parameter after the first iteration ("first 0" ...: rate times gradient), each parameter at
    the end ("last 0" ...) and the losses. Right on rank 0."""
    document = prototxt.read_solver(path)
    dev = devices.open_device(dtype=dtype)
    perturbed = split == "perturbed"
    run = build_trainer(
        document.message, document.locate, path, dev, comm=comm, split="" if perturbed else split, **options
    )
    try:
        if perturbed:
            perturb(run)
        found = {}
        for name, flat, iterations in (("first", run.state.histories[0], 1), ("last", run.net.params.data, None)):
            run.step(iterations) if iterations else run.solve()
            if not run.parts.mesh.position.group:
                blobs = parameters_of(run.net, run.parts).blobs(flat)
                found |= {f"{name} {i}": blob for i, blob in enumerate(blobs)}
        return {**found, "losses": np.array(run.loss_window(run.p.max_iter))}
    finally:
        run.close()


def main() -> None:
    deferred.LEAST_WEIGHTS = 1
    with parallel.session(60) as comm:
        for word in sys.argv[1:]:
            path, dtype, name, split = word.split(":")
            found = train(comm, path, dtype, split, strong_scaling=True)
            if not comm.rank:
                np.savez(f"{path}.{name}.npz", **found)


if __name__ == "__main__":
    main()
