"""The mesh of ranks: subgroups, links and sums of gradients, under mpirun."""

import itertools
import sys
from pathlib import Path

import pytest
from launching import mpirun, needs_mpi

from caffelite.parallel import MeshPosition, MeshShape

JOB = Path(__file__).with_name("mesh_jobs.py")


@pytest.mark.parametrize("groups, stages, shards", [(1, 1, 1), (2, 1, 1), (1, 3, 2), (2, 3, 4)])
def test_positions_number_the_ranks_in_order(groups, stages, shards):
    shape = MeshShape(groups, stages, shards)
    places = [MeshPosition(g, s, k) for g in range(groups) for s in range(stages) for k in range(shards)]
    assert [shape.position(rank) for rank in range(shape.size)] == places
    for rank, place in enumerate(places):
        assert shape.rank(place) == rank
        actual = [r for r, p in enumerate(places) if (p.stage, p.shard) == (place.stage, place.shard)]
        assert shape.replicas(rank) == actual
        assert shape.model(rank) == [r for r, p in enumerate(places) if p.group == place.group]
        here = [r for r, p in enumerate(places) if (p.group, p.stage) == (place.group, place.stage)]
        assert shape.stage(rank) == here


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(
    "ranks, shapes, refused",
    [(2, ["1,2,1", "1,1,2", "2,1,1"], []), (4, ["1,2,2", "2,2,1", "1,1,4"], []), (3, ["1,1,3"], ["1,2,1"])],
)
def test_ranks_exchange_arrays_in_their_meshes(ranks, shapes, refused):
    """A mesh of another number of processes ends the job."""
    process = mpirun(ranks, sys.executable, JOB, *shapes, *refused)
    out, err = process.communicate(timeout=100)
    assert bool(process.returncode) == bool(refused) == ("another number of processes" in err), out + err
    for rank, shape in itertools.product(range(ranks), shapes):
        assert f"rank {rank} is right in {shape}" in out, out + err
