"""A job whose ranks divide nets, which trains solvers and saves their parameters: mpirun -n N python split_jobs.py
SOLVER:DTYPE:NAME:SPLIT ...

The parameters of the complete net are saved as SOLVER.NAME.npz, the losses with them. Without a split one process
trains the complete net.
"""

import sys

import numpy as np

from caffelite import devices, parallel, prototxt
from caffelite.training import Trainer
from caffelite.training.checkpoint.parameters import parameters_of


def train(comm, path: str, dtype: str, split: str, **options) -> list[np.ndarray]:
    """The parameters of the complete net after training, then the losses; right on rank 0."""
    document = prototxt.read_solver(path)
    dev = devices.open_device(dtype=dtype)
    run = Trainer(document.message, document.locate, path, dev, comm=comm, split=split, **options)
    try:
        run.solve()
        found = (
            [] if run.parts.mesh.position.group else list(parameters_of(run.net, run.parts).blobs(run.net.params.data))
        )
        return [*found, np.array(run.loss_window(run.p.max_iter))]
    finally:
        run.close()


def main() -> None:
    with parallel.session(60) as comm:
        for word in sys.argv[1:]:
            path, dtype, name, split = word.split(":")
            found = train(comm, path, dtype, split, strong_scaling=True)
            if not comm.rank:
                np.savez(f"{path}.{name}.npz", *found)


if __name__ == "__main__":
    main()
