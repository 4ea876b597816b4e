"""A small net over a small database, and processes that train it."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from browsing import wait

from caffelite.data.writers import write_lmdb
from caffelite.runs import launch
from caffelite.runs.config import RunConfig

NET = """
name: "small"
layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.00390625 } data_param { source: "%s/db" batch_size: 8 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "score" type: "InnerProduct" bottom: "conv" top: "score"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
SOLVER = """
net: "%s/net.prototxt" test_iter: 2 test_interval: 20 base_lr: 0.01 momentum: 0.9 lr_policy: "step" gamma: 0.5
stepsize: 30 max_iter: 60 display: 5 snapshot: 20 snapshot_prefix: "%s/%s" random_seed: 3
"""


def make_root(root: Path) -> None:
    """Writes the database and the net."""
    rng = np.random.default_rng(5)
    write_lmdb(root / "db", [(rng.integers(0, 256, (1, 8, 8), np.uint8), i % 3) for i in range(40)])
    (root / "net.prototxt").write_text(NET % root)


def write_solver(root: Path, name: str) -> Path:
    path = root / f"{name}.prototxt"
    path.write_text(SOLVER % (root, root, name))
    return path


def train(root: Path, name: str, *overrides: str) -> Path:
    """Trains in this process; the run folder."""
    launch.train(RunConfig(str(write_solver(root, name)), overrides=overrides))
    return root / f"{name}_run"


class Trainer:
    """A process that trains, as a terminal starts it; ended at the latest with the context.

    wait_for: a file of the root that the start waits for; then the process is halted (SIGSTOP) until `go_on`.
    """

    def __init__(self, root: Path, name: str, *overrides: str, wait_for: str = ""):
        self._file = root / wait_for if wait_for else None
        self.folder = root / f"{name}_run"
        words = [sys.executable, "-m", "caffelite", "train", "-solver", str(write_solver(root, name))]
        for each in overrides:
            words += ["-set", each]
        self.process = subprocess.Popen(words, cwd=root, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def __enter__(self) -> "Trainer":
        wait(lambda: (self.folder / "losses.f32").exists() and (self.folder / "losses.f32").stat().st_size)
        if self._file:
            wait(self._file.exists)
            self.process.send_signal(signal.SIGSTOP)
        return self

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def losses(folder: Path) -> bytes:
    return (folder / "losses.f32").read_bytes()
