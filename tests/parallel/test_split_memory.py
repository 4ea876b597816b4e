"""A net that one process cannot hold, and two can."""

import sys
from pathlib import Path

import pytest
from launching import SOLVER, finish, mpirun, needs_mpi

pytestmark = [needs_mpi, pytest.mark.mpi]
# Weights of 320 MB: with gradients and history 960 MB, half of it on each of two devices. With a batch of few rows the
# gradients would take no memory.
NET = """
name: "large"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 40 dim: 1600 } shape { dim: 40 } data_filler { type: "gaussian" }
    data_filler { type: "constant" } } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 50000 weight_filler { type: "xavier" } } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
# The command in a process that may map so many more bytes than it has mapped after its imports.
LIMITED = """
import resource, sys
import caffelite.runs.launch, caffelite.devices
from caffelite.cli import main
caffelite.devices.open_device()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (900 << 20),) * 2)
sys.argv = ["caffelite", "train", "-solver", "solver.prototxt", "-record", "none", *sys.argv[1:]]
main()
"""


def test_two_processes_train_what_one_has_no_memory_for(tmp_path: Path):
    (tmp_path / "large.prototxt").write_text(NET)
    text = SOLVER.replace("mlp", "large").replace("max_iter: 50", "max_iter: 2 display: 1 snapshot_after_train: false")
    (tmp_path / "solver.prototxt").write_text(text)
    alone = mpirun(1, sys.executable, "-c", LIMITED, cwd=tmp_path)
    out, err = alone.communicate(timeout=100)
    assert alone.returncode != 0 and "out of memory" in err and "-split" in err, out + err
    log = finish(mpirun(2, sys.executable, "-c", LIMITED, "-split", "shards=2", cwd=tmp_path))
    assert "Iteration 1" in log and "Optimization Done" in log
