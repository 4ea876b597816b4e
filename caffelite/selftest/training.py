"""Checks of training: 50 iterations of LeNet with seeded weights and images; eager, by graphs, and compared with a
CPU."""

import functools
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import prototxt
from ..data.writers import write_lmdb
from ..devices import open_device
from ..devices.protocol import Device
from ..training import build_trainer
from .bench import SEED, Bench, Skipped, Wrong, compare, rng

ITERATIONS, BATCH, IMAGES, CLASSES = 50, 64, 640, 10
TIMED = 96  # in launches of as many iterations as ITERATIONS has shown: a new count would run eagerly at first
FALLS = 0.7  # maximum ratio of the last loss to the first
CLOSE = 1e-2  # tolerance of losses after 50 iterations, which differ by rounding
NET = """layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "@SOURCE" batch_size: @BATCH backend: LMDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
  inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "relu1" }
layer { name: "ip2" type: "InnerProduct" bottom: "relu1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
SOLVER = """net: "{net}" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005 max_iter: {iterations}
average_loss: {iterations} snapshot_after_train: false random_seed: {seed}"""


def written(folder: Path, iterations: int = ITERATIONS, batch: int = BATCH) -> Path:
    """The solver in a folder, with its net and its images: blurred patterns, one a class, in noise."""
    draw = rng()
    patterns = draw.normal(size=(CLASSES, 1, 7, 7)).repeat(4, 2).repeat(4, 3)
    images = ((patterns[i % CLASSES] + draw.normal(size=(1, 28, 28))) * 40 + 128 for i in range(IMAGES))
    write_lmdb(
        folder / "images", ((np.clip(image, 0, 255).astype(np.uint8), i % CLASSES) for i, image in enumerate(images))
    )
    net, solver = folder / "net.prototxt", folder / "solver.prototxt"
    net.write_text(NET.replace("@SOURCE", str(folder / "images")).replace("@BATCH", str(batch)))
    solver.write_text(SOLVER.format(net=net, iterations=iterations, seed=SEED))
    return solver


class Trained(NamedTuple):
    """The losses of all iterations, the weights after them, and milliseconds of one of the last."""

    losses: np.ndarray
    weights: np.ndarray
    ms: float


def trained(dev: Device, last: int = 0) -> Trained:
    """``ITERATIONS``, and then ``last`` more, which are timed."""
    with tempfile.TemporaryDirectory(prefix="caffelite-test-") as folder:
        path = written(Path(folder), ITERATIONS + last, BATCH)
        document = prototxt.read_solver(path)
        with closing(build_trainer(document.message, document.locate, str(path), dev)) as solver:
            solver.step(ITERATIONS)
            dev.synchronize()
            begin = time.perf_counter()
            solver.step(last)
            dev.synchronize()
            ms = 1e3 * (time.perf_counter() - begin) / max(1, last)
            return Trained(
                np.array(solver.loss_window(ITERATIONS + last)), dev.download(solver.net.params.data).copy(), ms
            )


@functools.cache
def on_cpu() -> Trained:
    return trained(open_device())


def eager(bench: Bench) -> str:
    """LeNet, 50 iterations, eager"""
    losses = trained(bench.device("fp32", deterministic=True, eager=True)).losses
    if not (np.isfinite(losses).all() and len(losses) == ITERATIONS and losses[-1] < FALLS * losses[0]):
        raise Wrong(f"the loss goes from {losses[0]:.4g} to {losses[-1]:.4g}")
    return f"loss {losses[0]:.4g} to {losses[-1]:.4g}"


def graphs(bench: Bench) -> str:
    """LeNet by graphs, compared with eager"""
    bench.wants_gpu("a CPU captures nothing")
    one, other = (trained(bench.device("fp32", deterministic=True, eager=is_eager)) for is_eager in (True, False))
    if why := bench.device("fp32", deterministic=True).why_eager():
        raise Wrong(f"not captured: {why}")
    for what, a, b in (("losses", one.losses, other.losses), ("weights", one.weights, other.weights)):
        if not np.array_equal(a, b):
            raise Wrong(f"{what} differ from eager, by up to {np.abs(a - b).max():.2g}")
    return "losses and weights are bit-equal"


def beside_cpu(bench: Bench) -> str:
    """LeNet compared with the CPU"""
    if bench.number is None:
        raise Skipped("this is the CPU")
    losses = trained(bench.device("fp32", deterministic=True)).losses
    compare("the first loss", losses[:1], on_cpu().losses[:1], 1e-4)
    return f"losses off by up to {compare('losses', losses, on_cpu().losses, CLOSE):.1e}"


def full_speed(bench: Bench) -> str:
    """LeNet at full speed"""
    return f"{trained(bench.device(), TIMED).ms:.3g} ms an iteration of {BATCH} images"


CHECKS = eager, graphs, beside_cpu, full_speed
