"""Shipped nets and solvers, damaged at random, built and trained for an iteration: each runs or says where its mistake
is.

OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python tests/fuzz.py --runs 10000 [--net lenet]
"""

import os
import random
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from fuzz_campaign import Campaign, main
from prototxt.test_prototxt_mutations import mutate

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError, Mistakes
from caffelite.layers import REGISTRY
from caffelite.layers.base import fillers
from caffelite.training import build_trainer
from caffelite.training.optim import rates

ROOT = Path(__file__).parent.parent
NETS = {
    "lenet": ("models/lenet/train_val.prototxt", "solvers/lenet_solver.prototxt"),
    "digits": ("models/lenet/digits_train_val.prototxt", "solvers/digits_solver.prototxt"),
    "autoencoder": ("models/mnist_autoencoder/train_val.prototxt", "solvers/mnist_autoencoder_solver.prototxt"),
    "logistic": ("models/logistic_regression/train_val.prototxt", "solvers/logistic_regression_solver.prototxt"),
}
FLAGS = "loss_weight: 2|loss_weight: 0|propagate_down: true|propagate_down: false|param { lr_mult: 0 }"
TOPS = 'top: "data" top: "more"|bottom: "data" bottom: "label"|bottom: "data"'
HEADS = (
    'force_backward: true |debug_info: true |iter_size: 2 |state { stage: "x" } |snapshot: 1 |test_compute_loss: true '
)
FIELDS = "pad dilation group axis bias_term kernel_h stride_w pad_h iter_size clip_gradients average_loss".split()
WORDS = (  # what to look for, and what to put there
    (r": (-?[0-9.]+)", "0 1 2 3 5 7 29 100 -1 -3 0.5 1e30 1000000 nan inf".split()),
    (r'type: "(\w+)"', (*REGISTRY, *fillers.FILLERS, "L1")),
    (r'(?:lr_policy|regularization_type): "(\w+)"', (*rates.POLICIES, "L1", "L2")),
    (r'(?:bottom|top): "(\w+)"', ("data", "label", "loss", "ip1", "score", "conv1")),
    (r"(\w+_param) \{", [d.name for d in pb.LayerParameter.DESCRIPTOR.fields if d.name.endswith("_param")]),
    (r"((?m:^ +\w.*$))", ["", *FLAGS.split("|")]),
    (r"((?m:^  (?:top|bottom): .*$))", ["", *TOPS.split("|")]),
    (r"(num_output|kernel_size|stride|batch_size|stepsize|power|max_iter|test_iter|base_lr|momentum)", FIELDS),
    (r"(\A)", HEADS.split("|")),
)


def texts(name: str) -> tuple[str, str]:
    """The text of a net, made small, and of its solver."""
    net, solver = ((ROOT / path).read_text() for path in NETS[name])
    net = re.sub(r"batch_size: \d+", "batch_size: 2", net)
    net = re.sub(r"(num_output: )(?!784)(\d{3,})", lambda m: m[1] + str(int(m[2]) % 97 + 10), net)
    return net, re.sub(r'net: "[^"]*"', 'net: "net.prototxt"', solver)


def damage(text: str, rng: random.Random) -> str:
    """Half the time what no longer parses, half the time words and numbers that do and mean something else."""
    if rng.random() < 0.5:
        return mutate(text, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        pattern, words = rng.choice(WORDS)
        spans = [match.span(1) for match in re.finditer(pattern, text)]
        start, end = rng.choice(spans or [(len(text), len(text))])
        text = text[:start] + rng.choice(words) + text[end:]
    return text


def train(device) -> None:
    """Trains the pair of the working directory for an iteration. AssertionError: a mistake has no place."""
    trainer = None
    try:
        document = prototxt.read_solver("solver.prototxt")
        document.message.iter_size = min(document.message.iter_size, 2)  # long runs are no mistake, but no news either
        trainer = build_trainer(document.message, document.locate, "solver.prototxt", device)
        trainer.learning.tests = [(net, min(count, 2)) for net, count in trainer.tests]
        with suppress(MemoryError):
            trainer.solve(iterations=1)
    except CaffeliteError as error:
        for mistake in error.mistakes if isinstance(error, Mistakes) else [error]:
            assert re.match(r"(net|solver)\.prototxt(:\d+)*: |logreg_\w+\.txt:\d+: ", str(mistake)), str(mistake)
        raise
    finally:
        if trainer:
            trainer.close()


class Fuzz(Campaign):
    """Damaged pairs of net and solver in a folder with tiny data."""

    def __init__(self, folder: Path, nets: Sequence[str] = tuple(NETS)):
        super().__init__(folder, nets)
        self.device, rng = devices.open_device(), np.random.default_rng(1)
        (folder / "data").mkdir()
        os.chdir(folder / "data")
        for name in ("mnist_train_lmdb", "mnist_test_lmdb", "digits_train_lmdb", "digits_test_lmdb"):
            write_lmdb(name, list(zip(rng.integers(0, 256, (5, 1, 28, 28)).astype(np.uint8), range(5), strict=True)))
        for name in ("logreg_train.h5", "logreg_test.h5"):
            write_hdf5(name, {"data": rng.standard_normal((7, 4)), "label": np.arange(7) % 2})
        for name in nets:  # what it needs is imported and compiled before the processes are forked
            self.write(folder / "work", *texts(name))
            train(self.device)
            shutil.rmtree(folder / "work")

    def write(self, work: Path, net: str, solver: str) -> None:
        """Makes the folder ``work`` with a pair and its data, and goes there."""
        work.mkdir()
        os.chdir(work)
        for path in (self.folder / "data").iterdir():
            Path(path.name).symlink_to(path)
        Path("net.prototxt").write_text(net, errors="surrogatepass")
        Path("solver.prototxt").write_text(solver, errors="surrogatepass")

    def prepare(self, subject: str, rng: random.Random, work: Path) -> Callable[[], None]:
        net, solver = texts(subject)
        self.write(work, *((damage(net, rng), solver) if rng.random() < 0.7 else (net, damage(solver, rng))))
        return lambda: train(self.device)


if __name__ == "__main__":
    main(Fuzz, tuple(NETS), "--net", 10000)
