"""Update rules compared with NumPy in float64: numbers over several iterations, state in Caffe's order, exact resumes,
errors."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint.parameters import NetParameters
from caffelite.training.checkpoint.snapshot import read_state
from caffelite.training.optim.updates import RULES, Updater

NET = """
layer { name: "in" type: "Input" top: "x" top: "y" input_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" param { lr_mult: 0.5 } param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 4 weight_filler { type: "gaussian" std: 1 }
    bias_filler { type: "constant" value: 0.5 } } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" param { lr_mult: 1 decay_mult: 3 } param { lr_mult: 1 }
  inner_product_param { num_output: 2 weight_filler { type: "gaussian" std: 1 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "b" bottom: "y" }
"""
LR, DECAY = (0.5, 2, 1, 1), (1, 0, 3, 1)
SCALE, ITERATIONS = 0.25, 5  # four micro-batches

FIELDS = {
    "SGD": "momentum: 0.9",
    "Nesterov": "momentum: 0.9",
    "AdaGrad": "delta: 1e-4",
    "RMSProp": "rms_decay: 0.9 delta: 1e-4",
    "AdaDelta": "momentum: 0.9 delta: 1e-4",
    "Adam": "momentum: 0.8 momentum2: 0.95 delta: 1e-4",
    "AdamW": "momentum: 0.8 momentum2: 0.95 delta: 1e-4",
}


def read(text):
    return prototxt.parse(text, pb.SolverParameter, "s.prototxt")


@pytest.fixture(scope="module")
def double():
    return devices.open_device(dtype="float64")


def build(dev, text):
    net = bind(NET, dev=dev, seed=3)
    document = read(f"{text} iter_size: {round(1 / SCALE)}")
    return document.message, net, Updater(document.message, net, document.locate)


def expected_step(kind, p, w, g, kept, rate, t):
    """The papers' step, one blob in float64. kept: what the rule remembers, by name."""
    mu, delta = p.momentum, p.delta
    if kind == "SGD":
        kept["h"] = mu * kept["h"] + rate * g
        return w - kept["h"]
    if kind == "Nesterov":
        before = kept["h"]
        kept["h"] = mu * before + rate * g
        return w - ((1 + mu) * kept["h"] - mu * before)
    if kind == "AdaGrad":
        kept["h"] = kept["h"] + g**2
        return w - rate * g / (np.sqrt(kept["h"]) + delta)
    if kind == "RMSProp":
        kept["h"] = p.rms_decay * kept["h"] + (1 - p.rms_decay) * g**2
        return w - rate * g / (np.sqrt(kept["h"]) + delta)
    if kind == "AdaDelta":
        kept["h"] = mu * kept["h"] + (1 - mu) * g**2
        step = g * np.sqrt((kept["d"] + delta) / (kept["h"] + delta))
        kept["d"] = mu * kept["d"] + (1 - mu) * step**2
        return w - rate * step
    kept["m"] = mu * kept["m"] + (1 - mu) * g
    kept["v"] = p.momentum2 * kept["v"] + (1 - p.momentum2) * g**2
    correction = np.sqrt(1 - p.momentum2**t) / (1 - mu**t)
    return w - rate * correction * kept["m"] / (np.sqrt(kept["v"]) + delta)


def local_rate(p, w, g, lr_mult, rate):
    """The rate of one blob, decay apart."""
    nw, ng = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
    if p.local_lr_auto:
        return rate * (p.local_gw_ratio * nw / (ng + p.weight_decay * nw) if nw * ng else 1)
    if p.larc:
        local = (1 - p.momentum) * p.larc_eta * nw / ng if nw * ng else 1
        return rate * local if p.larc_policy == "scale" else min(rate, local)
    return rate * lr_mult


def compare(dev, kind, text, tolerance):
    p, net, updater = build(dev, f'type: "{kind}" {FIELDS[kind]} {text}')
    rng = np.random.default_rng(4)
    blobs = [dev.download(b).astype(np.float64) for b in net.params.blobs]
    kept = [{name: np.zeros_like(b) for name in RULES[kind].history} for b in blobs]
    for iteration in range(ITERATIONS):
        rate = 0.1 / (iteration + 1)
        for i, diff in enumerate(net.params.diffs):
            raw = rng.standard_normal(diff.shape)
            dev.upload(diff, raw)
            w, g = blobs[i], dev.download(diff).astype(np.float64) * SCALE
            own = local_rate(p, w, g, LR[i], rate)
            pull = p.weight_decay * DECAY[i] * (np.sign(w) if p.regularization_type == "L1" else w)
            if kind == "AdamW":
                w = w - own * pull
            else:
                g = g + pull
            blobs[i] = expected_step(kind, p, w, g, kept[i], own, iteration + 1)
        updater.run(rate, iteration)
    for mine, theirs in zip(net.params.blobs, blobs, strict=True):
        np.testing.assert_allclose(dev.download(mine), theirs, rtol=tolerance, atol=tolerance)
    states = [b[name] for name in RULES[kind].history for b in kept]
    histories = [blob for flat in updater.history for blob in NetParameters(net).blobs(flat)]
    for mine, theirs in zip(histories, states, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(
    "decay", ["", "weight_decay: 0.1", 'weight_decay: 0.1 regularization_type: "L1"'], ids=["plain", "L2", "L1"]
)
def test_rule(double, kind, decay):
    compare(double, kind, decay, 1e-12)


@pytest.mark.parametrize("kind", RULES)
def test_rule_in_float32(device, kind):
    compare(device, kind, "weight_decay: 0.1", 1e-5)


LOCAL = [
    "local_lr_auto: true local_gw_ratio: 0.3",
    "larc: true larc_eta: 0.3",
    'larc: true larc_eta: 0.3 larc_policy: "clip"',
]


@pytest.mark.parametrize("kind", ["SGD", "RMSProp", "AdamW"])
@pytest.mark.parametrize("local", LOCAL, ids=["LARS", "LARC scale", "LARC clip"])
def test_local_rates(double, kind, local):
    compare(double, kind, f"weight_decay: 0.1 {local}", 1e-12)


@pytest.mark.host
@pytest.mark.parametrize("kind, text", [("Nesterov", LOCAL[2]), ("AdaDelta", ""), ("AdamW", LOCAL[1])])
def test_rule_on_the_gpus_kernels(kind, text):
    """The kernels of GPUs, run by the host."""
    compare(GPU(0, "float32", HostBackend()), kind, f"weight_decay: 0.1 {text}", 1e-5)


@pytest.mark.parametrize("local", LOCAL, ids=["LARS", "LARC scale", "LARC clip"])
def test_local_rates_skip_frozen_parameters(double, local):
    net = bind(NET.replace("lr_mult: 0.5", "lr_mult: 0"), dev=double, seed=3)
    document = read(f"{local} weight_decay: 0.1")
    before = [blob.copy() for blob in net.params.blobs]
    net.params.diff.fill(1)
    Updater(document.message, net, document.locate).run(0.1, 0)
    changed = [not np.array_equal(a, b) for a, b in zip(before, net.params.blobs, strict=True)]
    assert changed == [False, True, True, True]


SOLVER = """
net: "everything.prototxt" base_lr: 0.02 lr_policy: "inv" gamma: 0.1 power: 0.5 weight_decay: 0.01 iter_size: 2
max_iter: 8
random_seed: 5 snapshot: 3
"""


@pytest.mark.parametrize(("kind", "more"), [*((kind, "") for kind in RULES), ("SGD", "larc: true")])
def test_resume_is_exact(folder, train, kind, more):
    text = f'{SOLVER} type: "{kind}" {FIELDS[kind]} {more}'
    whole = train(text + ' snapshot_prefix: "a"')
    again = train(text + ' snapshot_prefix: "b"', resume="a_iter_3.solverstate")
    np.testing.assert_equal(again.params(), whole.params())
    one, two = (read_state(folder / f"{prefix}_iter_8.solverstate") for prefix in "ab")
    np.testing.assert_equal(one.history, two.history)
    parameter = [b.shape for b in whole.params()]
    assert [h.shape for h in one.history] == parameter * len(RULES[kind].history)


def test_the_state_of_another_rule_is_refused(folder, train):
    train(SOLVER + 'type: "SGD" snapshot_prefix: "a"')
    with pytest.raises(CaffeliteError, match="the state of another solver type; expected Nesterov, found SGD"):
        train(SOLVER + 'type: "Nesterov" snapshot_prefix: "b"', resume="a_iter_3.solverstate")


@pytest.mark.parametrize(
    "old, name", [("NESTEROV", "Nesterov"), ("RMSPROP", "RMSProp"), ("ADAM", "Adam"), ("ADADELTA", "AdaDelta")]
)
def test_solver_type_selects_the_rule(double, old, name):
    assert build(double, f"solver_type: {old}")[2].name == name


@pytest.mark.parametrize(
    "text, message",
    [
        ('type: "Adem"', 's.prototxt:1:7: unknown solver type "Adem"; .*did you mean "Adam"'),
        (
            'type: "AdaGrad" momentum: 0.9',
            "s.prototxt:1:27: AdaGrad cannot run with this momentum; expected 0: this rule has none, found 0.9",
        ),
        ('type: "RMSProp" momentum: 0.9', "RMSProp cannot run with this momentum"),
        (
            'type: "RMSProp" rms_decay: 1',
            "RMSProp cannot run with this rms_decay; expected a number from 0 to below 1, found 1",
        ),
        ('type: "RMSProp" rms_decay: -0.1', "this rms_decay"),
        ('type: "AdaDelta" momentum: 1', "this momentum"),
        ('type: "Adam" momentum: 1', "this momentum"),
        ('type: "AdamW" momentum2: 1', "this momentum2"),
        ("larc: true local_lr_auto: true", "s.prototxt:1:7: both local_lr_auto and larc are set; keep LARS or LARC"),
        ('larc: true larc_policy: "clipp"', 'unknown larc_policy "clipp"; expected scale or clip; did you mean "clip"'),
        ("larc: true larc_eta: 0", "larc_eta must be above 0; found 0"),
        ("local_lr_auto: true local_gw_ratio: -1", "local_gw_ratio must be above 0; found -1"),
    ],
)
def test_mistakes(double, text, message):
    with pytest.raises(CaffeliteError, match=message):
        build(double, text)
