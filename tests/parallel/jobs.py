"""A job for several ranks, which trains solvers and saves their parameters: mpirun -n N python jobs.py
SOLVER:DTYPE[:twice][:half] ...

What it saves is next to each solver, as SOLVER.<ranks>.<run>.npz; h after the run says that gradients travelled in 16
bits.
"""

import sys
from pathlib import Path

import numpy as np

from caffelite import devices, parallel, prototxt, weights
from caffelite.training import build_trainer


def train(comm, path: str, dtype: str, **options) -> list[np.ndarray]:
    document = prototxt.read_solver(path)
    run = build_trainer(document.message, document.locate, path, devices.open_device(dtype=dtype), comm=comm, **options)
    try:
        run.solve()
    finally:
        run.close()
    return [blob.copy() for blob in run.net.params.blobs]


def assert_as_one(model: Path, atol: float) -> None:
    """What several processes trained by solver.prototxt, the MLP, is what one trains."""
    net = weights.read_model(model)
    found = [blob for name in ("ip1", "ip2") for blob in net[name]]
    for blob, expected in zip(found, train(None, "solver.prototxt", "float32"), strict=True):
        np.testing.assert_allclose(blob.reshape(expected.shape), expected, rtol=0, atol=atol)


def main() -> None:
    with parallel.session(60) as comm:
        for word in sys.argv[1:]:
            path, dtype, *how = word.split(":")
            for turn in range(2 if "twice" in how else 1):
                params = train(comm, path, dtype, strong_scaling=True, fp16_gradients="half" in how)
                same = comm.gather([blob.tobytes() for blob in params])
                assert all(other == same[0] for other in same), "ranks end with other parameters"
                if not comm.rank:
                    np.savez(Path(path).with_suffix(f".{comm.size}.{turn}{'h' if 'half' in how else ''}.npz"), *params)


if __name__ == "__main__":
    main()
