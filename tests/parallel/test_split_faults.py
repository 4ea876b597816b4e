"""A process that fails while others wait for its part of the net ends the job, with its stage and its layer."""

import re

import pytest
from launching import COMMAND, SOLVER, finish, mpirun, needs_mpi
from test_faults import FAULTS, ROOT_OF_0, end, places, the_last_snapshot_stands

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
IMAGES = """layer { name: "x" type: "Data" top: "x" transform_param { scale: 0.0039 mean_value: 60 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
"""
BATCH = "placement { shards: 2 division: BATCH }"
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
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    "fault, reported, how",
    [
        ("kill", "died: it was killed", "died"),
        ("stop", "is stopped by a signal and has made no progress for", "is stopped"),
        ("sleep", "hangs: it has made no progress for", "hangs"),
        ("raise", 'ended: .*layer "fault".*a bug in a layer', "ended"),
    ],
)
def test_a_stage_that_fails_while_the_other_waits(folder, started, fault, reported, how, rank):
    process = job(folder, rank, fault)
    started.append(process)
    err = end(process)
    assert re.search(f"caffelite: rank {rank} {reported}", err), err
    found = places(err)
    assert found[rank].startswith(f'iteration 6, forward, in layer "fault"  <- {how}'), err
    assert re.search(rf"rank {rank} \(stage {rank}, ", err), err
    assert re.match(rf"iteration [67], .*waiting for rank {rank}|iteration 6, ", found[1 - rank]), err
    if how in ("is stopped", "hangs"):  # mpirun ends the others where a rank has died
        assert "<-" not in found[1 - rank], "only the failing rank is blamed"
    the_last_snapshot_stands(folder, 3)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_shard_that_dies_while_the_others_gather(folder, started, rank):
    process = job(folder, rank, "kill", ranks=4, first="placement { shards: 2 }")
    started.append(process)
    err = end(process)
    stage, shard = divmod(rank, 2)
    assert re.search(rf"rank {rank} \(stage {stage}, shard {shard}, .*in layer \"fault\"  <- died", err), err
    assert f"caffelite: rank {rank} died" in err and len(places(err)) == 4


@pytest.mark.parametrize("ranks, split", [(2, "stages=2"), (4, "stages=2"), (2, "")])
def test_corrupted_weights_are_traced_over_all_stages(folder, started, ranks, split):
    """The layer that makes the first NaN is on the second stage; its bundle replays in one process. Without a split two
    devices read half of the samples each."""
    net = ROOT_OF_0 if split else IMAGES + ROOT_OF_0[ROOT_OF_0.index('layer { name: "value"') :]
    net = net if split else re.sub('type: "(Data|InnerProduct)"', rf"\g<0> {BATCH}", net)
    (folder / "root.prototxt").write_text(net)
    (folder / "solver.prototxt").write_text(
        SOLVER.replace("mlp", "root").replace("0.05", "0.001") + 'snapshot_prefix: "run" display: 1'
    )
    divided = [*COMMAND, *(["-split", split] if split else []), "-scaling", "strong"]
    finish(mpirun(ranks, *divided, "-set", "root.power_param.shift=1", "-iterations", "3", cwd=folder))
    process = mpirun(ranks, *divided, "-snapshot", "run_iter_3.solverstate", cwd=folder)
    started.append(process)
    err = end(process)
    assert "The weights are already corrupted: repeating from run_iter_3.solverstate" in err
    assert err.count('the loss is not finite at iteration 3: layer "root" (Power), gradient of "size"') == 1, err
    assert "last place" not in err and (folder / "run_fault_iter_3/report.json").exists()
    replay = [*COMMAND[:3], "replay", "run_fault_iter_3"]
    out, err = mpirun(1, *replay, cwd=folder).communicate(timeout=60)
    assert 'gradient of "size"' in out + err, out + err
