"""The mesh of ranks: subgroups, links and sums of gradients, under mpirun."""

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
        found = [r for r, p in enumerate(places) if (p.stage, p.shard) == (place.stage, place.shard)]
        assert shape.replicas(rank) == found
        assert shape.model(rank) == [r for r, p in enumerate(places) if p.group == place.group]
        here = [r for r, p in enumerate(places) if (p.group, p.stage) == (place.group, place.stage)]
        assert shape.stage(rank) == here


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 1, 2), (2, 1, 1), (1, 2, 2), (2, 2, 1), (1, 1, 4), (1, 1, 3)])
def test_ranks_exchange_arrays_in_their_mesh(shape):
    ranks = shape[0] * shape[1] * shape[2]
    process = mpirun(ranks, sys.executable, JOB, *shape)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, out + err
    for rank in range(ranks):
        assert f"rank {rank} is right" in out


@needs_mpi
@pytest.mark.mpi
def test_another_number_of_processes_is_refused():
    process = mpirun(3, sys.executable, JOB, 1, 2, 1)
    out, err = process.communicate(timeout=100)
    assert process.returncode != 0 and "another number of processes" in err, out + err
