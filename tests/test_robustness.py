"""Damaged nets and solvers through the whole road: each trains for an iteration or says, with a place, what is
wrong."""

import collections
import re
from pathlib import Path

import pytest
from fuzz import Fuzz

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt
from caffelite.errors import CaffeliteError
from caffelite.training import build_trainer


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    """The campaign of fuzz.py, which has the same tests run by the ten thousand."""
    monkeypatch.chdir(tmp_path)
    return Fuzz(seed=20260101)


def test_a_sample_of_mutations(fuzz):
    failures = []
    fuzz.campaign(80, lambda kind, net, solver, what: failures.append((kind, what)))
    assert not failures
    assert fuzz.outcomes["runs"] > 8 and fuzz.outcomes["says"] > 30, fuzz.outcomes


def test_undamaged_pairs_run(fuzz):
    fuzz.damage = lambda text: text
    fuzz.campaign(12, lambda *failure: None)
    assert fuzz.outcomes == collections.Counter(runs=12)


CASES = {
    "a window beyond the image": (
        "lenet",
        "kernel_size: 2 stride: 2",
        "kernel_size: 2 stride: 255",
        "outside the image",
    ),
    "a path too long": ("logistic", "logreg_train.txt", "a/" * 2500, "does not exist"),
    "a name that cannot be shown": ("lenet", 'type: "ReLU"', 'type: "Re\\0LU\\n"', r'unknown type "Re\x00LU\n"'),
    "a scale that is no number": ("lenet", "scale: 0.00390625", "scale: inf", "scale is no finite number"),
    "a filler with a negative deviation": ("autoencoder", "std: 1", "std: -1", "std of 0 or more"),
}


@pytest.mark.parametrize("which, old, new, said", CASES.values(), ids=CASES)
def test_what_mutations_found(fuzz, which, old, new, said):
    net, solver = fuzz.texts[which]
    assert old in net
    with pytest.raises(CaffeliteError) as caught:
        raise_mistakes(fuzz, net.replace(old, new), solver)
    assert str(caught.value).startswith("net.prototxt:") and said in str(caught.value)


def test_a_net_that_learns_nothing_runs_and_says_so(fuzz, caplog):
    net, solver = fuzz.texts["logistic"]
    raise_mistakes(
        fuzz,
        net.replace("lr_mult: 1", "lr_mult: 0").replace("lr_mult: 2", "lr_mult: 0"),
        re.sub("display: .*", "display: 1 debug_info: true", solver),
    )
    assert "nothing is learned" in caplog.text


def raise_mistakes(fuzz, net, solver):
    """Builds and solves for an iteration; mistakes pass through."""

    Path("net.prototxt").write_text(net)
    document = prototxt.parse(solver, pb.SolverParameter)
    document.message.net = "net.prototxt"
    trainer = build_trainer(document.message, document.locate, "solver.prototxt", fuzz.device)
    try:
        trainer.solve(iterations=1)
    finally:
        trainer.close()
