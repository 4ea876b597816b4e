"""Best snapshot, early stop, kept snapshots and averaged weights: what they promise, and that a resumed run keeps them
bit for bit."""

import re
from pathlib import Path

import numpy as np
import pytest

from caffelite import weights
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint.snapshot import names, read_state
from caffelite.training.hooks.best import BestWeights
from caffelite.training.scores import Scores
from caffelite.training.state import BestState

PLAIN = """
net: "plain.prototxt" test_iter: 2 test_interval: 2 base_lr: 0.05 lr_policy: "fixed" max_iter: 12 display: 1
random_seed: 3
momentum: 0.5 snapshot_prefix: "run"
"""
STAGES = '"multifixed" stagelr: 0.05 stagelr: 1.5 stageiter: 5 stageiter: 12'  # it learns, then unlearns
WORSE = PLAIN.replace('"fixed"', STAGES)
WHOLE = """
net: "everything.prototxt" test_iter: 3 test_state { stage: "score" } test_interval: 2
base_lr: 0.2 lr_policy: "fixed" momentum: 0.9 max_iter: 14 display: 1 random_seed: 5
snapshot: 5 snapshot_prefix: "run" best_score: "accuracy" early_stop: 20 ema_decay: 0.8
"""


def after(log, iteration):
    """The log from an iteration's first line on, less hints, which count what a session displayed."""
    log = [line for line in log if not line.startswith("Hint: ")]
    return log[next(i for i, line in enumerate(log) if line.startswith(f"Iteration {iteration},")) :]


def blobs(path):
    return [blob for layer in weights.read_model(Path(path)).values() for blob in layer]


def scores(log, name="loss"):
    """(iteration, score) of every test."""
    actual, at = [], None
    for line in log:
        at = int(m[1]) if (m := re.match(r"Iteration (\d+), Testing", line)) else at
        if m := re.match(rf"    Test net output #\d+: {name} = (\S+)", line):
            actual.append((at, float(m[1])))
    return actual


def test_the_best_weights_are_kept(folder, train):
    text = WORSE + 'best_score: "loss" snapshot: 2'
    run = train(text)
    tests = scores(run.log)
    best, value = min(tests, key=lambda test: test[1])
    assert 0 < best < 12 and tests[-1][1] > value, "a run that gets worse again"
    np.testing.assert_equal(blobs("run_best.caffemodel"), blobs(f"run_iter_{best}.caffemodel"))
    assert run.solver.state.best.iteration == best and f"Best loss so far: {value:.6g}" in run.log


@pytest.mark.parametrize("way, chosen", [("best_lowest: false", max), ("best_lowest: true", min), ("", min)])
def test_best_lowest_sets_the_direction(folder, train, way, chosen):
    run = train(WORSE + f'best_score: "loss" {way}')
    assert run.solver.state.best.iteration == chosen(scores(run.log), key=lambda test: test[1])[0]


def test_higher_accuracy_is_better(folder, train):
    run = train(WHOLE)
    tests = scores(run.log, "accuracy")
    assert len({score for _, score in tests}) > 1
    most = max(score for _, score in tests)
    assert run.solver.state.best.iteration in [iteration for iteration, score in tests if score == most]


@pytest.mark.parametrize("lowest", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_never_the_best(folder, train, bad, lowest):
    trainer = train(WORSE + f'best_score: "loss" early_stop: 3 best_lowest: {"true" if lowest else "false"}').solver
    state, written = trainer.state, []
    state.best = BestState()
    graphs = [net.graph for net, _ in trainer.tests]
    hook = BestWeights(trainer.p, trainer.locate, graphs, lambda state: written.append(state.iteration))
    for state.iteration, value in enumerate([bad, 0.5, bad, bad, bad], 1):
        assert not hook.over(state)
        hook.all_tested(state, [Scores([("loss", 1.0, np.array([value]))], value)])
    assert written == [2] and (state.best.value, state.best.iteration) == (0.5, 2) and hook.over(state)


def test_of_equal_scores_the_lower_loss_is_best(folder, train):
    """Its weights are written; a wait of early_stop goes on. After a state without a loss only a better score is."""
    trainer = train(WHOLE.replace("early_stop: 20", "early_stop: 4")).solver
    state, written = trainer.state, []
    state.best = BestState()
    graphs = [net.graph for net, _ in trainer.tests]
    hook = BestWeights(trainer.p, trainer.locate, graphs, lambda state: written.append(state.iteration))
    tests = [(0.9, 0.5), (1.0, 0.4), (1.0, 0.3), (1.0, np.nan), (1.0, 0.35), (1.0, 0.2)]
    for state.iteration, (value, loss) in enumerate(tests, 1):
        assert not hook.over(state)
        hook.all_tested(state, [Scores([("accuracy", 0.0, np.array([value]))], loss)])
    assert written == [1, 2, 3, 6] and hook.over(state)
    assert state.best == BestState(1.0, 0.2, 6, tests_since=4, judged_iteration=6)
    state.best = BestState(1.0, iteration=6, judged_iteration=6)
    for state.iteration, value in ((7, 1.0), (8, 1.1)):
        hook.all_tested(state, [Scores([("accuracy", 0.0, np.array([value]))], 0.1)])
    assert written[4:] == [8] and state.best.loss == 0.1


def test_a_state_without_the_best_loss_is_read(folder, train):
    train(WHOLE)
    path = names("run", 10)[1]
    saved = read_state(path).resume
    assert saved.HasField("best_loss")
    trainer = train(WHOLE.replace('"run"', '"again"'), iterations=1).solver
    saved.ClearField("best_loss")
    trainer.files.checkpoints.content._load_resume(trainer.state, saved, path)
    assert np.isnan(trainer.state.best.loss) and trainer.state.best.value == saved.best_value


def test_early_stop(folder, train):
    text = WORSE + 'best_score: "loss" early_stop: 2'
    run = train(text)
    best = run.solver.state.best
    assert run.solver.iteration == best.iteration + 4 < 12 and run.log[-1] == "Optimization stopped early."
    assert any(line.startswith("loss has not been better than") for line in run.log)
    state = f"run_iter_{run.solver.iteration}.solverstate"
    again = train(text, resume=state)
    assert again.solver.iteration == run.solver.iteration, "it stays stopped, and counts no test twice"
    longer = train(text.replace("early_stop: 2", "early_stop: 3"), resume=state)
    assert longer.solver.iteration == best.iteration + 6


@pytest.mark.parametrize("form, end", [("", ""), ("snapshot_format: HDF5", ".h5")])
def test_the_latest_snapshots_are_kept(folder, train, form, end):
    (folder / "run_iter_50.caffemodel").write_text("of another, longer run")
    train(PLAIN + f"snapshot: 2 snapshot_keep: 2 ema_decay: 0.5 {form}")
    kinds = (".caffemodel", "_average.caffemodel", ".solverstate")
    expected = {f"run_iter_{i}{kind}{end}" for i in (10, 12) for kind in kinds} | {"run_iter_50.caffemodel"}
    assert {p.name for p in folder.glob("run_iter*")} == expected


def test_the_average(folder, train):
    """Against the formula, from the snapshots of every iteration."""
    train(PLAIN + "snapshot: 1 ema_decay: 0.7")
    start = train(PLAIN.replace("0.05", "0"), iterations=1).params()
    average = [a.astype(float) for a in start]
    for i in range(12):
        share = 1 - min(0.7, (1 + i) / (10 + i))
        raw = blobs(f"run_iter_{i + 1}.caffemodel")
        average = [a + share * (w - a) for a, w in zip(average, raw, strict=True)]
    for a, b in zip(average, blobs("run_iter_12_average.caffemodel"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_mean_of_the_last_weights(folder, train):
    """swa_start: until then the weights themselves, and a resumed run continues the mean."""
    train(PLAIN + "snapshot: 1 swa_start: 8")
    raw = [blobs(f"run_iter_{i}.caffemodel") for i in range(1, 13)]
    for i in (5, 9, 12):
        expected = [np.mean(each, 0) for each in zip(*raw[min(8, i - 1) : i], strict=True)]
        for a, b in zip(expected, blobs(f"run_iter_{i}_average.caffemodel"), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    resumed = PLAIN.replace('"run"', '"again"') + "snapshot: 1 swa_start: 8"
    train(resumed, resume="run_iter_10.solverstate")
    np.testing.assert_equal(blobs("run_iter_12_average.caffemodel"), blobs("again_iter_12_average.caffemodel"))


def test_tests_use_the_average_and_training_does_not(folder, train):
    plain = train(PLAIN)
    averaged = train(PLAIN + "ema_decay: 0.9")
    assert averaged.losses() == plain.losses() and scores(averaged.log)[1:] != scores(plain.log)[1:]
    np.testing.assert_equal(averaged.params(), plain.params())
    assert scores(averaged.log)[0] == scores(plain.log)[0]


def test_best_average_and_early_stop_are_resumed(folder, train):
    whole = train(WHOLE)
    resumed = train(WHOLE.replace('"run"', '"again"'), resume="run_iter_5.solverstate")
    assert after(resumed.log, 5) == [line.replace("run_", "again_") for line in after(whole.log, 5)]
    states = [read_state(names(prefix, 14)[1]).resume for prefix in ("run", "again")]
    assert states[0] == states[1] and states[0].average and states[0].HasField("best_value")
    np.testing.assert_equal(blobs("run_iter_14_average.caffemodel"), blobs("again_iter_14_average.caffemodel"))


@pytest.mark.parametrize("stop_at", [3, 4])
def test_a_repeated_test_counts_once(folder, train, stop_at):
    train(WHOLE)
    train(WHOLE.replace('"run"', '"again"'), stop_at=stop_at)
    train(WHOLE.replace('"run"', '"again"'), resume=f"again_iter_{stop_at}.solverstate")
    states = [read_state(names(prefix, 14)[1]).resume for prefix in ("run", "again")]
    assert states[0] == states[1]


@pytest.mark.parametrize(
    "text, message",
    [
        ('best_score: "los"', r'no test net has an output "los"; expected one of loss; did you mean "loss"\?'),
        ("early_stop: 3", r"solver.prototxt:\d+:\d+: early_stop without best_score"),
        ("snapshot_keep: -1", "snapshot_keep must be at least 0; found -1"),
        ("swa_start: -1", "swa_start must be at least 0; found -1"),
        ("ema_decay: 0.9 swa_start: 5", "both ema_decay and swa_start are set; keep one average"),
        ("ema_decay: 1", "ema_decay must be from 0 to below 1; found 1"),
    ],
)
def test_mistakes(folder, train, text, message):
    with pytest.raises(CaffeliteError, match=message):
        train(PLAIN + text)
