"""A run that is broken off and resumed is, bit for bit and line for line, the run that was not."""

import shutil

import engines
import numpy as np
import pytest
from devices.host.backend import HostBackend

from caffelite import caffelite_pb2 as pb
from caffelite.devices import algorithms
from caffelite.devices.cache import ChoiceCache
from caffelite.devices.cpu import choices
from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError
from caffelite.training import whole_net
from caffelite.training.checkpoint.snapshot import names, read_state

SOLVER = """
net: "everything.prototxt"
test_iter: 3 test_iter: 2 test_interval: 4 test_compute_loss: true
test_state { stage: "score" } test_state { }
base_lr: 0.05 lr_policy: "step" gamma: 0.7 stepsize: 6 momentum: 0.9 weight_decay: 0.01
max_iter: 20 display: 1 average_loss: 3 iter_size: 2 clip_gradients: 0.9
snapshot: 7 snapshot_prefix: "run"
"""
AGAIN = SOLVER.replace('"run"', '"again"')
SEED = "random_seed: 5"


def after(log, iteration):
    """The log from an iteration's first line on."""
    return log[next(i for i, line in enumerate(log) if line.startswith(f"Iteration {iteration},")) :]


def same_state(one, other):
    states = [read_state(names(prefix, 20)[1]) for prefix in (one, other)]
    for a, b in zip(*(state.history for state in states), strict=True):
        np.testing.assert_array_equal(a, b)
    for state in states:
        state.resume.config_hash = ""  # the text may differ where the numbers do not
    assert states[0].resume == states[1].resume
    assert states[0].current_step == states[1].current_step
    for name, blobs in models(one).items():
        for a, b in zip(blobs, models(other)[name], strict=True):
            assert a == b


def assert_continues(resumed, whole, iteration: int) -> None:
    """A run under the prefix "again", broken off at an iteration, ends as the one under "run"."""
    expected = [line.replace("run_iter", "again_iter") for line in after(whole.log, iteration)]
    assert after(resumed.log, iteration) == expected
    np.testing.assert_equal(whole.params(), resumed.params())


def models(prefix):
    net = pb.NetParameter.FromString(names(prefix, 20)[0].read_bytes())
    return {layer.name: [list(blob.data) for blob in layer.blobs] for layer in net.layer}


@pytest.mark.parametrize("seed", ["", "random_seed: 5"], ids=["own seed", "given seed"])
def test_resume_from_a_snapshot_is_exact(folder, train, seed):
    whole = train(SOLVER + seed)
    resumed = train(AGAIN + seed, resume="run_iter_7.solverstate")
    assert len(set(whole.losses())) > 15, "a run whose losses differ"
    assert_continues(resumed, whole, 7)
    same_state("run", "again")


def test_recurrent_state_is_resumed(folder, train):
    """An LSTM whose sequences are longer than a batch."""
    filler = 'weight_filler { type: "gaussian" std: 0.5 }'
    (folder / "sequence.prototxt").write_text(f"""
layer {{ name: "in" type: "DummyData" top: "x" top: "go" top: "t" dummy_data_param {{
  shape {{ dim: 3 dim: 2 dim: 4 }} shape {{ dim: 3 dim: 2 }} shape {{ dim: 3 dim: 2 dim: 5 }}
  data_filler {{ type: "gaussian" }} data_filler {{ value: 1 }} data_filler {{ type: "gaussian" }} }} }}
layer {{ name: "lstm" type: "LSTM" bottom: "x" bottom: "go" top: "h" recurrent_param {{ num_output: 5 {filler} }} }}
layer {{ name: "loss" type: "EuclideanLoss" bottom: "h" bottom: "t" top: "loss" }}
""")
    solver = 'net: "sequence.prototxt" base_lr: 0.05 lr_policy: "fixed" max_iter: 12 display: 1 random_seed: 3'
    solver += ' snapshot: 5 snapshot_prefix: "run"'
    whole = train(solver)
    resumed = train(solver.replace('"run"', '"again"'), resume="run_iter_5.solverstate")
    assert_continues(resumed, whole, 5)


@pytest.mark.parametrize("stop_at", [1, 4, 9, 19])
def test_resume_after_a_signal_is_exact(folder, train, stop_at):
    whole = train(SOLVER + SEED)
    first = train(AGAIN + SEED, stop_at=stop_at)
    assert first.log[-1] == "Optimization stopped early." and first.solver.iteration == stop_at
    resumed = train(AGAIN + SEED, resume=f"again_iter_{stop_at}.solverstate")
    assert_continues(resumed, whole, stop_at)
    same_state("run", "again")


def test_a_stop_during_a_test_repeats_the_test(folder, train):
    whole = train(SOLVER + SEED)

    def stop_in_second_test_net(solver):
        forward, net = solver.tests[1][0].forward, solver.tests[1][0]

        def stopping(iteration, *rest):
            if solver.iteration == 8:
                solver.learning.requests.stop = True
            forward(iteration, *rest)

        net.forward = stopping

    broken = train(AGAIN + SEED, before=stop_in_second_test_net)
    assert "Test interrupted." in broken.log and broken.solver.iteration == 8
    resumed = train(AGAIN + SEED, resume="again_iter_8.solverstate")
    assert_continues(resumed, whole, 8)
    same_state("run", "again")


def test_a_longer_run_continues_a_shorter_one(folder, train):
    whole = train(SOLVER)
    seed = whole.solver.seed
    train(SOLVER.replace("max_iter: 20", "max_iter: 8").replace('"run"', '"again"') + f"random_seed: {seed}")
    resumed = train(AGAIN + f"random_seed: {seed}", resume="again_iter_8.solverstate")
    assert_continues(resumed, whole, 8)
    same_state("run", "again")


def test_moved_snapshots_use_the_model_next_to_them(folder, train):
    """A state moved together with its model takes that one, not what is at the old place by now."""
    train(SOLVER + SEED)
    (folder / "kept").mkdir()
    for path in names("run", 7):
        shutil.copy(path, "kept")
    before = train(SOLVER.replace('"run"', '"a"') + SEED, resume="run_iter_7.solverstate")
    train(SOLVER.replace("base_lr: 0.05", "base_lr: 0.5") + "random_seed: 6")
    moved = train(SOLVER.replace('"run"', '"b"') + SEED, resume="kept/run_iter_7.solverstate")
    np.testing.assert_equal(before.params(), moved.params())


def test_equal_seeds_give_equal_runs(folder, train):
    seeds = {"a": 5, "b": 5, "c": 6}
    one, two, other = (train(SOLVER.replace('"run"', f'"{name}"') + f"random_seed: {seeds[name]}") for name in seeds)
    assert one.log == [line.replace("b_iter", "a_iter") for line in two.log]
    np.testing.assert_equal(one.params(), two.params())
    assert other.losses() != one.losses()
    assert train(SOLVER).losses() != train(SOLVER).losses(), "without random_seed every run draws its own"


def test_resume_warns_of_a_changed_configuration(folder, train):
    train(SOLVER + SEED)
    text = SOLVER.replace("display: 1", "display: 5").replace("max_iter: 20", "max_iter: 21") + SEED
    same = train(text, resume="run_iter_7.solverstate")
    assert not any("no exact continuation" in line for line in same.log)
    changed = train(SOLVER.replace("0.9 w", "0.8 w") + SEED, resume="run_iter_7.solverstate")
    assert any("no exact continuation" in line for line in changed.log)


@pytest.mark.host
def test_resume_warns_of_another_precision(folder, train):
    train(SOLVER + SEED, device=GPU(0, "float32", HostBackend()))
    resumed = train(SOLVER + SEED, resume="run_iter_7.solverstate")
    (reported,) = [line for line in resumed.log if "precision" in line]
    message = "run_iter_7.solverstate was trained with -precision tf32, this run takes fp32"
    assert reported == f"{message}: this run is no exact continuation"


def test_a_state_written_by_caffe_resumes(folder, train):
    """Without our fields: data starts anew and that is said; iteration, history and weights are taken."""
    train(SOLVER + SEED)
    model, state = names("run", 14)
    whole = pb.SolverState.FromString(state.read_bytes())
    names_of_caffe = ("iter", "learned_net", "current_step", "history")
    bare = pb.SolverState(**{name: getattr(whole, name) for name in names_of_caffe})
    state.write_bytes(bare.SerializeToString())
    resumed = train(AGAIN, resume=str(state))
    assert any("was not written by caffelite" in line for line in resumed.log)
    assert resumed.solver.iteration == 20 and any(line.startswith("Iteration 14, lr = ") for line in resumed.log)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda s: s.resume.__setattr__("solver_type", "Adam"),
            "state of another solver type; expected SGD, found Adam",
        ),
        (lambda s: s.history.pop(), "history of another net or solver type; expected 8 blobs for type SGD, found 7"),
        (lambda s: s.history[0].shape.dim.__setitem__(0, 2), "no solverstate, or a damaged one"),
        (lambda s: s.ClearField("iter"), "no solverstate: it has no iteration"),
        (
            lambda s: s.__setattr__("learned_net", "gone.caffemodel"),
            "belongs to gone.caffemodel, which does not exist; the newest good snapshot is",
        ),
    ],
)
def test_states_of_another_shape_are_refused(folder, train, change, message):
    from caffelite import weights

    train(SOLVER + SEED)
    path = names("run", 14)[1]
    state = pb.SolverState.FromString(path.read_bytes())
    change(state)
    state.ClearField("checksum")
    path.write_bytes(weights.sealed(state.SerializeToString()))
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume=str(path))


def test_the_state_of_another_net(folder, train):
    train(SOLVER + SEED)
    text = (folder / "everything.prototxt").read_text()
    (folder / "everything.prototxt").write_text(text.replace('"hidden" type', '"renamed" type'))
    message = "run_iter_7.caffemodel is the model of another net; expected weights of layers renamed"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume="run_iter_7.solverstate")
    (folder / "everything.prototxt").write_text(text.replace("num_output: 6", "num_output: 7"))
    message = r"history of parameter hidden\[0\] does not fit; expected \[7, 5\], found \[6, 5\]"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume="run_iter_7.solverstate")


def test_a_resumed_run_takes_the_recorded_algorithms(folder, train, monkeypatch):
    """Even if another algorithm is measured as the fastest then."""
    monkeypatch.setattr(algorithms, "MEASURED_WORK", 0)
    fastest = ["winograd4", "winograd2"]  # of those that a pass has
    monkeypatch.setattr(choices, "_fastest", lambda runs: next(a for a in fastest if a in runs))
    monkeypatch.setattr(ChoiceCache, "get", lambda self, key: None)
    monkeypatch.setattr(ChoiceCache, "put", lambda self, key, value, suits: value)
    (folder / "images.prototxt").write_text("""
layer { name: "in" type: "DummyData" top: "x" top: "t" dummy_data_param {
  shape { dim: 2 dim: 16 dim: 6 dim: 6 } shape { dim: 2 dim: 16 dim: 6 dim: 6 }
  data_filler { type: "gaussian" } data_filler { type: "gaussian" } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }
""")
    solver = 'net: "images.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 6 random_seed: 3'
    solver += ' snapshot: 3 snapshot_prefix: "run"'
    whole = train(solver, device=engines.with_onednn())
    fastest[:] = ["direct"]
    other = train(solver.replace('"run"', '"other"'), device=engines.with_onednn())
    assert not np.array_equal(whole.params()[0], other.params()[0]), "the algorithms differ in their rounding"
    again = solver.replace('"run"', '"again"')
    resumed = train(again, device=engines.with_onednn(), resume="run_iter_3.solverstate")
    np.testing.assert_array_equal(whole.params()[0], resumed.params()[0])


def test_a_state_has_the_algorithms_of_all_processes(folder, train, monkeypatch):
    """Those of a divided net meet different problems."""
    lines = [["a: direct"], ["b: product", "a: direct"]], [["c: winograd4"]]
    monkeypatch.setattr(whole_net.WholeNet, "gather_shards", lambda self, value: lines)
    train(SOLVER + SEED)
    state = pb.SolverState.FromString((folder / "run_iter_7.solverstate").read_bytes())
    assert list(state.resume.algorithm) == ["a: direct", "b: product", "c: winograd4"]
