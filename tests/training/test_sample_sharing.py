"""Passes that share a batch: the mean of their gradients and losses is that of the whole batch, or the net is
refused."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from textnet import build, inputs, layer

from caffelite import prototxt
from caffelite.data.writers import write_hdf5
from caffelite.devices import open_device
from caffelite.errors import CaffeliteError
from caffelite.layers.base.division import SampleShares
from caffelite.net.net import Net
from caffelite.training import build_trainer
from caffelite.training.sample_sharing import share_batch

SAMPLES, CLASSES = 12, 4
FEATURES = layer("InnerProduct", "x", tops="f", body='num_output: 4 weight_filler { type: "gaussian" std: 1 }')
IGNORED = np.array([9.0] * 5 + [1, 0, 3, 2, 2, 9, 1])  # of the first half one label counts
ALL_IGNORED = np.array([9.0] * 6 + [1, 0, 3, 2, 9, 1])
LABELS = np.arange(SAMPLES) % CLASSES + 0.0
NONE = "loss_param { normalization: NONE }"
IGNORE = "loss_param { ignore_label: 9 }"


def softmax(fields: str, kind: str = "SoftmaxWithLoss") -> str:
    """A net with a loss of a kind over the features."""
    return FEATURES + layer(kind, "f", "t", tops="loss", body=fields)


def cases():
    """A name, the layers, and the targets t of the samples."""
    for kind in ("SoftmaxWithLoss", "FocalLoss"):
        yield f"{kind} ignored", softmax(IGNORE, kind), IGNORED
        yield f"{kind} a share without labels", softmax(IGNORE, kind), ALL_IGNORED
        yield f"{kind} NONE", softmax("loss_param { normalization: NONE }", kind), LABELS
    fixed = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 5 }"
    yield "fixed", softmax(fixed), LABELS
    weights = "class_weight: [0.1, 3, 0, 1]"
    yield "weights", softmax(f"loss_param {{ {weights} }}"), np.repeat([0.0, 1, 2, 3], 3)
    yield "weights, ignored", softmax(f"loss_param {{ {weights} ignore_label: 9 }}"), IGNORED
    segnet = "loss_param { weight_by_label_freqs: true class_weighting: [0.1, 3, 0, 1] ignore_label: 9 }"
    yield "segnet's weights", softmax(segnet), IGNORED
    targets = np.where(IGNORED[:, None] == 9, 9, np.eye(CLASSES)[IGNORED.astype(int) % CLASSES])
    sigmoid = "loss_param { normalization: VALID ignore_label: 9 %s }"
    yield "sigmoid", softmax(sigmoid % "", "SigmoidCrossEntropyLoss"), targets
    yield "sigmoid weights", softmax(sigmoid % weights, "SigmoidCrossEntropyLoss"), targets
    gains = inputs(h=(4, 4)) + FEATURES + layer("InfogainLoss", "f", "t", "h", tops="loss", body=IGNORE)
    yield "infogain", gains, IGNORED
    none = "loss_param { normalization: NONE }"
    yield "smooth L1", softmax(none, "SmoothL1Loss"), np.eye(CLASSES)[LABELS.astype(int)]
    yield "centers", softmax("center_loss_param { num_output: 4 }", "CenterLoss"), np.repeat([0.0, 1, 1, 3], 3)


def detection():
    """MultiBoxLoss over three priors and two classes, and the objects (image, label, -, box, -), of which the first
    images have fewer."""
    rng = np.random.default_rng(1)
    corners = rng.uniform(0, 0.5, (3, 2))
    boxes = np.hstack([corners, corners + 0.4])
    images = np.repeat(np.arange(SAMPLES), [0, 0, 0, 1, 0, 1, 2, 2, 1, 2, 0, 1])
    objects = np.zeros((len(images), 8))
    objects[:, 0], objects[:, 1] = images, 1
    objects[:, 3:7] = boxes[rng.integers(0, 3, len(images))] + rng.uniform(-0.02, 0.02, (len(images), 4))
    head = 'num_output: %d weight_filler { type: "gaussian" }'
    heads = layer("InnerProduct", "x", tops="offsets", name="o", body=head % 12)
    heads += layer("InnerProduct", "x", tops="scores", name="s", body=head % 6)
    priors = np.stack([boxes.reshape(-1), np.full(12, 0.1)])[None]
    body = "num_classes: 2 mining_type: MINING neg_pos_ratio: 1 loc_loss_type: SMOOTH_L1 conf_loss_type: SOFTMAX"
    loss = layer("MultiBoxLoss", "offsets", "scores", "priors", "t", tops="loss", body=body)
    return inputs(priors=priors.shape) + heads + loss, priors, objects


def run(
    text: str, x: np.ndarray, targets: np.ndarray, shares: SampleShares | None, **more: np.ndarray
) -> tuple[np.ndarray, float]:
    """The gradients and the loss of a pass. more: further inputs."""
    graph = build(inputs(x=x.shape, t=targets.shape) + text)
    if shares:
        share_batch(graph, shares)
    net = Net.of(graph, open_device(None, "float64"), seed=3)
    arrays = {"x": x, "t": targets, "h": np.eye(CLASSES) + 0.2, **more}
    net.set_inputs(**{name: arrays[name] for name in graph.inputs})
    net.forward()
    net.backward()
    net.check_faults()
    return net.params.diff.copy(), float(net.loss[0])


def of_rows(targets: np.ndarray, rows: slice) -> np.ndarray:
    return targets[rows]


def of_images(objects: np.ndarray, rows: slice) -> np.ndarray:
    """The objects of images, which are counted from 0 again."""
    mine = objects[(objects[:, 0] >= rows.start) & (objects[:, 0] < rows.stop)]
    return (mine - np.eye(1, 8) * rows.start)[None, None]


def shared(
    text: str, x: np.ndarray, targets: np.ndarray, count: int, part=of_rows, **more: np.ndarray
) -> tuple[np.ndarray, float]:
    """The means of gradients and losses over passes that run at the same time, each of its part of the targets."""
    barrier, values = threading.Barrier(count, timeout=30), [np.zeros(1)] * count

    def share(rank: int) -> tuple[np.ndarray, float]:
        def total(own: np.ndarray) -> np.ndarray:
            barrier.wait()
            values[rank] = own
            barrier.wait()
            return np.sum(values, 0)

        rows = slice(rank * SAMPLES // count, (rank + 1) * SAMPLES // count)
        return run(text, x[rows], part(targets, rows), SampleShares(count, total), **more)

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(share, range(count)))
    gradients, losses = zip(*results, strict=True)
    return np.mean(gradients, 0), float(np.mean(losses))


def in_turn(
    text: str, x: np.ndarray, targets: np.ndarray, count: int, part=of_rows, **more: np.ndarray
) -> tuple[np.ndarray, float]:
    """The same of micro-batches, which run forward one after the other and then backward."""
    shares = SampleShares(count, np.asarray, count)
    rows = [slice(i * SAMPLES // count, (i + 1) * SAMPLES // count) for i in range(count)]
    parts = [{"x": x[mine], "t": part(targets, mine), "h": np.eye(CLASSES) + 0.2, **more} for mine in rows]
    largest = max(one["t"].shape for one in parts)  # objects are padded
    graph = build(inputs(x=parts[0]["x"].shape, t=largest) + text)
    share_batch(graph, shares)
    net = Net.of(graph, open_device(None, "float64"), seed=3)
    nets = [net, *(net.replica() for _ in rows[1:])]
    for net, arrays in zip(nets, parts, strict=True):
        arrays["t"] = padded(arrays["t"], largest)
        net.set_inputs(**{name: arrays[name] for name in graph.inputs})
        net.forward()
    for net in nets:
        net.settle()
    for i, net in enumerate(nets):
        net.backward(add=i > 0)
        net.check_faults()
    return nets[0].params.diff / count, float(nets[0].loss[0]) / count


def padded(objects: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image -1 are no objects."""
    rows = np.full(shape, -1.0)
    rows[tuple(slice(n) for n in objects.shape)] = objects
    return rows


@pytest.mark.parametrize("text, targets", [pytest.param(text, t, id=name) for name, text, t in cases()])
def test_the_mean_of_the_shares_is_the_batch(text, targets, seed):
    x = np.random.default_rng(seed).normal(size=(SAMPLES, 6))
    gradient, loss = run(text, x, targets, None)
    for count in (2, 3):
        for run_shares in (shared, in_turn):
            actual, mean = run_shares(text, x, targets, count)
            np.testing.assert_allclose(mean, loss, rtol=1e-12)
            np.testing.assert_allclose(actual, gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mining", ["MAX_NEGATIVE", "NONE"])
@pytest.mark.parametrize("normalization", ["VALID", "NONE", "FULL", "BATCH_SIZE"])
def test_the_mean_of_the_shares_of_pictures_with_objects(mining, normalization, seed):
    text, priors, objects = detection()
    fields = f"loss_param {{ normalization: {normalization} }} multibox_loss_param"
    text = text.replace("MINING", mining).replace("multibox_loss_param", fields)
    x = np.random.default_rng(seed).normal(size=(SAMPLES, 6))
    gradient, loss = run(text, x, of_images(objects, slice(0, SAMPLES)), None, priors=priors)
    for run_shares in (shared, in_turn):
        actual, mean = run_shares(text, x, objects, 2, of_images, priors=priors)
        np.testing.assert_allclose(mean, loss, rtol=1e-12)
        np.testing.assert_allclose(actual, gradient, rtol=1e-9, atol=1e-12)


TWO_LOSSES = """
layer {{ name: "d" type: "HDF5Data" top: "x" top: "t" hdf5_data_param {{ source: "list.txt" batch_size: 12 }} }}
layer {{ name: "f" type: "InnerProduct" bottom: "x" top: "f"
  inner_product_param {{ num_output: 4 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "a" type: "SoftmaxWithLoss" bottom: "f" bottom: "t" top: "a" {} }}
layer {{ name: "b" type: "{}" bottom: "f" bottom: "t" top: "b" loss_weight: 0.3 {} }}
"""
IGNORE_1 = "loss_param { ignore_label: 1 }"
FIXED = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 5 }"


def of_micro_batches(folder, losses: tuple[str, str, str], count: int, solver="") -> tuple[np.ndarray, list[float]]:
    """Parameters and losses after iterations of 12 samples in so many micro-batches."""
    (folder / "net.prototxt").write_text(TWO_LOSSES.format(*losses))
    (folder / "s.prototxt").write_text(
        'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 random_seed: 3 max_iter: 4 '
        f"snapshot_after_train: false average_loss: 4 {solver}"
    )
    document = prototxt.read_solver("s.prototxt")
    dev, split = open_device(None, "float64"), f"micro_batches={count}" if count > 1 else ""
    trainer = build_trainer(document.message, document.locate, "s.prototxt", dev, split=split)
    try:
        trainer.solve()
        return dev.download(trainer.net.params.data).copy(), list(trainer.loss_window(4))
    finally:
        trainer.close()


@pytest.fixture
def samples(tmp_path, in_tmp_path, seed):
    rng = np.random.default_rng(seed)
    write_hdf5(tmp_path / "x.h5", {"x": rng.normal(size=(24, 6)), "t": rng.integers(0, 4, 24).astype(float)})
    (tmp_path / "list.txt").write_text("x.h5\n")
    return tmp_path


@pytest.mark.parametrize("first, kind, second", [(NONE, "SoftmaxWithLoss", FIXED), (FIXED, "HingeLoss", "")])
def test_micro_batches_of_a_fixed_divisor_are_the_batch(samples, first, kind, second):
    parameters, losses = of_micro_batches(samples, (first, kind, second), 1)
    for count in (2, 3):
        mine, shown = of_micro_batches(samples, (first, kind, second), count)
        np.testing.assert_allclose(shown, losses, rtol=1e-12)
        np.testing.assert_allclose(mine, parameters, rtol=1e-10, atol=1e-13)


WEIGHED = "loss_param { class_weight: [0.1, 3, 0, 1] }"
CENTERS = "center_loss_param { num_output: 4 }"


@pytest.mark.parametrize("solver", ["", "iter_size: 2"])
@pytest.mark.parametrize(
    "first, kind, second",
    [(IGNORE_1, "HingeLoss", ""), (IGNORE_1, "SoftmaxWithLoss", WEIGHED), (FIXED, "CenterLoss", CENTERS)],
)
def test_micro_batches_of_a_counted_divisor_are_the_batch(samples, first, kind, second, solver):
    parameters, losses = of_micro_batches(samples, (first, kind, second), 1, solver)
    for count in (2, 3):
        mine, shown = of_micro_batches(samples, (first, kind, second), count, solver)
        np.testing.assert_allclose(shown, losses, rtol=1e-12)
        np.testing.assert_allclose(mine, parameters, rtol=1e-10, atol=1e-13)


def test_other_layers_that_couple_samples_are_refused():
    text = inputs(x=(4, 3), t=(4,)) + FEATURES + layer("HashingLoss", "f", "t", tops="loss")
    with pytest.raises(CaffeliteError, match="HashingLoss.*2 passes that divide a batch do not.*use -scaling weak"):
        share_batch(build(text), SampleShares(2, np.asarray))


def test_batch_normalization_and_scores_stay_as_they_are():
    text = FEATURES + layer("BatchNorm", "f", tops="n") + layer("SoftmaxWithLoss", "n", "t", tops="loss")
    text += layer("Accuracy", "n", "t", tops="accuracy", body="ignore_label: 1")
    share_batch(build(inputs(x=(4, 3), t=(4,)) + text), SampleShares(2, np.asarray))
