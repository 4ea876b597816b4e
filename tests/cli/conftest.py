"""A small net and its data, and the command line run within the test's own process."""

from __future__ import annotations

import io
import logging
import shlex
from dataclasses import dataclass

import numpy as np
import pytest

from caffelite import cli
from caffelite.data.writers import write_hdf5
from caffelite.inspection import timing

NET = """
name: "small"
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }
layer { name: "sigmoid" type: "Sigmoid" bottom: "x" top: "sigmoid" include { stage: "more" } }
layer { name: "tanh" type: "TanH" bottom: "x" top: "tanh" include { min_level: 2 } }
"""
SOLVER = """
net: "net.prototxt" test_iter: 2 test_interval: 10 base_lr: 0.05 lr_policy: "inv" gamma: 0.1 power: 0.75
max_iter: 20 display: 5 snapshot: 10 snapshot_prefix: "run" random_seed: 1
"""


@dataclass
class Answer:
    status: int
    out: str
    err: str

    @property
    def ok(self) -> Answer:
        """This answer, of a command that did what it should."""
        assert self.status == 0, self.out + self.err
        return self

    @property
    def refused(self) -> Answer:
        """This answer, of a command with a mistake."""
        assert self.status == 2, self.out + self.err
        return self

    @property
    def lines(self) -> list[str]:
        """The messages of the log, without what stands before them."""
        return [line.split("] ", 1)[1] for line in self.err.splitlines() if "] " in line]


@pytest.fixture
def folder(tmp_path, in_tmp_path):
    """The working directory, with net.prototxt and solver.prototxt."""
    rng = np.random.default_rng(1)
    write_hdf5(tmp_path / "rows.h5", {"x": rng.standard_normal((13, 5)), "y": rng.standard_normal((13, 2))})
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    return tmp_path


@pytest.fixture
def call(monkeypatch):
    """Runs `caffelite ARGUMENTS` and gives its status and what it printed. A single argument is a command line."""
    monkeypatch.setattr("caffelite.runs.trial.TIMED", 0)  # one iteration after the first
    # `time` compares with a large product and a large copy, which take a second.
    monkeypatch.setattr(timing, "SIDE", {"cpu": 64, "gpu": 64})
    monkeypatch.setattr(timing, "COPIED", {"cpu": 1 << 16, "gpu": 1 << 16})
    log = logging.getLogger("caffelite")
    before = log.handlers[:], log.level, log.propagate

    def run(*arguments: object) -> Answer:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        status = 0
        words = shlex.split(str(arguments[0])) if len(arguments) == 1 else [str(a) for a in arguments]
        try:
            cli.main(words)
        except SystemExit as end:
            status = end.code or 0
        assert "Traceback" not in err.getvalue()
        return Answer(status, out.getvalue(), err.getvalue())

    yield run
    log.handlers[:], log.level, log.propagate = before
