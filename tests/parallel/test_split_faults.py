"""A process that fails while others wait for its part of the net ends the job, with its stage and its layer."""

import re

import pytest
from launching import COMMAND, SOLVER, mpirun, needs_mpi
from test_faults import FAULTS, end, places, the_last_snapshot_stands

pytestmark = [needs_mpi, pytest.mark.mpi]
NET = """
name: "stages"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "images" backend: LMDB batch_size: 12 }
  transform_param { scale: 0.0039 } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 64 weight_filler { type: "xavier" } } %(first)s }
%(before)s
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" placement { stage: 1 }
  inner_product_param { num_output: 32 weight_filler { type: "xavier" } } }
%(after)s
layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" }
"""
LAYER = """
layer { name: "fault" type: "Python" bottom: "%s" top: "fault_out"
  python_param { module: "faults" layer: "Fault" param_str: "%s" } }
layer { name: "fault_read" type: "Silence" bottom: "fault_out" }
"""


def job(folder, rank: int, fault: str, *options: str, ranks: int = 2, first: str = ""):
    """A run in which a layer of a rank's stage fails in its seventh iteration."""
    (folder / "faults.py").write_text(FAULTS)
    layer = LAYER % (("ip1", "ip2")[rank // (ranks // 2)], f"{fault} {rank} 7")
    places = {"before": "", "after": "", "first": first, ("before", "after")[rank // (ranks // 2)]: layer}
    (folder / "stages.prototxt").write_text(NET % places)
    text = SOLVER.replace("max_iter: 50", "max_iter: 1000000").replace("mlp", "stages")
    (folder / "solver.prototxt").write_text(text + 'snapshot: 3 snapshot_prefix: "run"')
    return mpirun(ranks, *COMMAND, "-python", ".", "-hang_seconds", "2", *options, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rank, fault, reported, how",
    [
        (0, "stop", "is stopped by a signal and has made no progress for", "is stopped"),
        (0, "sleep", "hangs: it has made no progress for", "hangs"),
        (1, "sleep", "hangs: it has made no progress for", "hangs"),
        (0, "raise", 'ended: .*layer "fault".*a bug in a layer', "ended"),
    ],
)
def test_a_stage_that_fails_while_the_other_waits(folder, started, rank, fault, reported, how):
    """The other kinds of stages that fail are those of ranks, in test_faults."""
    process = job(folder, rank, fault)
    started.append(process)
    err = end(process)
    assert re.search(f"caffelite: rank {rank} {reported}", err), err
    actual = places(err)
    assert actual[rank].startswith(f'iteration 6, forward, in layer "fault"  <- {how}'), err
    assert re.search(rf"rank {rank} \(stage {rank}, ", err), err
    assert re.match(rf"iteration [67], .*waiting for rank {rank}|iteration 6, ", actual[1 - rank]), err
    if how in ("is stopped", "hangs"):  # mpirun ends the others where a rank has died
        assert "<-" not in actual[1 - rank], "only the failing rank is blamed"
    the_last_snapshot_stands(folder, 3)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_shard_that_dies_while_the_others_gather(folder, started, rank):
    process = job(folder, rank, "kill", ranks=4, first="placement { shards: 2 }")
    started.append(process)
    err = end(process)
    stage, shard = divmod(rank, 2)
    assert re.search(rf"rank {rank} \(stage {stage}, shard {shard}, .*in layer \"fault\"  <- died", err), err
    actual = places(err)
    assert f"caffelite: rank {rank} died" in err and len(actual) == 4
    assert actual[rank].startswith('iteration 6, forward, in layer "fault"'), err
    assert all(re.match("iteration [5-7], ", place) for place in actual.values()), err
    the_last_snapshot_stands(folder, 3)
