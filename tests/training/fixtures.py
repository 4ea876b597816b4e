"""Small nets and data that the tests of the solver share, and a runner that keeps what a run logs."""

import logging
import re
from dataclasses import dataclass

import numpy as np
import pytest
from devices.host.backend import HostBackend

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.devices.cuda import GPU
from caffelite.training import Requests, Trainer, build_trainer

# Everything that a resume could get wrong: mirrored crops, shuffled rows, dropout, random dummy data, several test
# nets.
NET = """
name: "everything"
layer { name: "images" type: "Data" top: "image" top: "label" include { phase: TRAIN }
  transform_param { mirror: true crop_size: 6 scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
layer { name: "images" type: "Data" top: "image" top: "label" include { phase: TEST }
  transform_param { crop_size: 6 scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 3 } }
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" include { phase: TRAIN }
  hdf5_data_param { source: "rows.txt" batch_size: 4 shuffle: true } }
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" include { phase: TEST }
  hdf5_data_param { source: "rows.txt" batch_size: 3 } }
layer { name: "noise" type: "DummyData" top: "noise" include { phase: TRAIN }
  dummy_data_param { shape { dim: 4 dim: 2 } data_filler { type: "gaussian" std: 0.1 } } }
layer { name: "conv" type: "Convolution" bottom: "image" top: "conv" param { lr_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "drop" type: "Dropout" bottom: "conv" top: "conv" }
layer { name: "class" type: "InnerProduct" bottom: "conv" top: "class"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "hidden" type: "InnerProduct" bottom: "x" top: "hidden"
  inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "hidden" top: "hidden" }
layer { name: "drop2" type: "Dropout" bottom: "hidden" top: "hidden" dropout_param { dropout_ratio: 0.3 } }
layer { name: "value" type: "InnerProduct" bottom: "hidden" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }
layer { name: "distance" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "distance" loss_weight: 0.5 }
layer { name: "jitter" type: "EuclideanLoss" bottom: "value" bottom: "noise" top: "jitter" loss_weight: 0.1
  include { phase: TRAIN } }
layer { name: "accuracy" type: "Accuracy" bottom: "class" bottom: "label" top: "accuracy"
  include { phase: TEST stage: "score" } }
"""

PLAIN = """
name: "plain"
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value" param { lr_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 2 weight_filler { type: "gaussian" std: 0.5 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }
"""


@pytest.fixture(scope="session")
def device():
    return devices.open_device()


@pytest.fixture(params=["early", "late"])
def late(request):
    """A device that computes as late as CUDA may, and copies as early or as late."""
    return GPU(0, "float32", HostBackend("late", request.param))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with both nets and their data: 10 images of three classes, 13 rows of 5 numbers with 2 to
    predict."""
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (10, 3, 8, 8)).astype(np.uint8)
    write_lmdb(tmp_path / "images", [(image, i % 3) for i, image in enumerate(images)])
    write_hdf5(tmp_path / "rows.h5", {"x": rng.standard_normal((13, 5)), "y": rng.standard_normal((13, 2))})
    (tmp_path / "everything.prototxt").write_text(NET)
    (tmp_path / "plain.prototxt").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass
class Run:
    """A run that ended: its solver (closed) and its log without times."""

    solver: Trainer
    log: list[str]

    def losses(self) -> list[float]:
        return [float(m[1]) for line in self.log if (m := re.match(r"Iteration \d+.*, loss = (\S+)", line))]

    def params(self) -> list[np.ndarray]:
        return [blob.copy() for blob in self.solver.net.params.blobs]


class Keep(logging.Handler):
    def __init__(self, lines: list[str]):
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(re.sub(r" \(\S+ iter/s, \S+ iters\)", "", record.getMessage()))


@pytest.fixture
def make(device):
    """Builds a solver from its text; closes it at the end."""
    made = []

    def build(text: str, device=device, **options) -> Trainer:
        document = prototxt.parse(text, pb.SolverParameter, "solver.prototxt")
        made.append(build_trainer(document.message, document.locate, "solver.prototxt", device, **options))
        return made[-1]

    yield build
    for solver in made:
        solver.close()


@pytest.fixture
def train(make):
    """Trains with a solver of this text. stop_at: the iteration after which a request to stop comes."""

    def run(text: str, *, stop_at: int | None = None, iterations: int | None = None, before=None, **options) -> Run:
        lines: list[str] = []
        keep, log = Keep(lines), logging.getLogger("caffelite")
        level = log.level
        log.addHandler(keep)
        log.setLevel(logging.INFO)
        try:
            requests = Requests()
            solver = make(text, requests=requests, **options)
            if before:
                before(solver)

            def progress(solver: Trainer, rate: float) -> None:
                requests.stop = requests.stop or solver.iteration == stop_at

            solver.solve(progress, iterations)
        finally:
            log.removeHandler(keep)
            log.setLevel(level)
        return Run(solver, lines)

    return run
