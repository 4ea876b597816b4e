"""A job that checks meshes of its ranks and the links between them: mpirun -n N python mesh_jobs.py
GROUPS,STAGES,SHARDS ..."""

import sys

import numpy as np

from caffelite import devices, parallel
from caffelite.parallel import Bucket, MeshShape


def check_subgroups(mesh: parallel.Mesh) -> None:
    """Each subgroup gathers its own ranks, in order."""
    shape, rank = mesh.shape, mesh.world.rank
    assert mesh.data.gather(rank) == shape.replicas(rank)
    assert mesh.model.gather(rank) == shape.model(rank)
    assert mesh.data.total(np.array([rank + 0.5])) == sum(shape.replicas(rank)) + 0.5 * shape.groups


def check_messages(mesh: parallel.Mesh, dtype: str) -> None:
    """Every device sends to every other one of its group, large and small arrays and several with one tag, before any
    of them receives."""
    at, shape, links = mesh.position, mesh.shape, mesh.links
    me = at.stage * shape.shards + at.shard
    peers = [(stage, shard) for stage in range(shape.stages) for shard in range(shape.shards)]
    peers.remove((at.stage, at.shard))
    pending = []
    for size in (1, 70_000, 3):
        for stage, shard in peers:
            sent = np.full((2, size), 1000 * me + stage * shape.shards + shard + size, dtype)
            pending.append((links.send(sent, (stage, shard), 5), sent))
    for size in (1, 70_000, 3):
        for stage, shard in peers:
            received = np.zeros((2, size), dtype)
            links.receive(received, (stage, shard), 5)
            np.testing.assert_array_equal(received, 1000 * (stage * shape.shards + shard) + me + size)
    for each, _ in pending:
        each.wait()


def check_collectives(mesh: parallel.Mesh, dtype: str) -> None:
    """Sums have the bits of a sum in the order of shards."""
    at, shape, links = mesh.position, mesh.shape, mesh.links
    rng = np.random.default_rng(at.group * 10 + at.stage)  # the same on all shards
    for size in (1, 2, 5, 30_001):
        every = (rng.standard_normal((shape.shards, shape.shards, size)) * 10 ** rng.uniform(-6, 6)).astype(dtype)
        whole = np.empty((shape.shards, shape.shards, size), dtype)
        links.all_gather(every[at.shard], whole)
        np.testing.assert_array_equal(whole, every)
        expected = np.zeros(every.shape[1:], dtype)
        for part in every:
            expected += part
        part = np.empty(size, dtype)
        links.reduce_scatter(every[at.shard], part)
        np.testing.assert_array_equal(part, expected[at.shard])
        total = every[at.shard].copy()
        links.all_reduce(total)
        np.testing.assert_array_equal(total, expected)


def check_gradients(mesh: parallel.Mesh, dev, half: bool) -> None:
    """Gradients are summed over groups, the loss and the flags over all ranks."""
    rank, shape = mesh.world.rank, mesh.shape
    flat, loss = np.empty(1000, np.float32), np.empty(1, np.float32)
    buckets = [Bucket(400, 1000, 0), Bucket(0, 400, 1)]
    reducer = mesh.world.reducer(dev, flat, buckets, half, over=mesh if mesh.links else None)
    for _ in range(2):
        flat[...], loss[...] = rank + np.arange(1000) % 8, rank
        reducer.set_flags(np.array([rank == 1, False], float))
        reducer.begin(loss)
        reducer.after_step(0)
        reducer.finish()
        assert list(reducer.read_loss(loss)) == [shape.size > 1, False]
        assert loss == sum(range(shape.size))
        expected = sum(shape.replicas(rank)) + np.arange(1000) % 8 * shape.groups
        np.testing.assert_allclose(flat, expected, rtol=2e-3 if half else 0)


def main() -> None:
    with parallel.session(60) as comm:
        dev = devices.open_device()
        for word in sys.argv[1:]:
            mesh = comm.mesh(MeshShape(*map(int, word.split(","))), dev)
            assert mesh.shape.rank(mesh.position) == comm.rank
            check_subgroups(mesh)
            if mesh.links:
                for dtype in ("float32", "float64"):
                    check_messages(mesh, dtype)
                    check_collectives(mesh, dtype)
            for half in (False, True):
                check_gradients(mesh, dev, half)
            print(f"rank {comm.rank} is right in {word}", flush=True)


if __name__ == "__main__":
    main()
