"""Trackers of a run: the numbers that they receive, a resumed run, packages that are absent or fail."""

import math
import subprocess
import sys
import types

import pytest

from caffelite.errors import CaffeliteError
from caffelite.runs import tracking
from caffelite.runs.config import RunConfig

TRAIN = ("train", "-solver", "solver.prototxt")


class Recorded:
    """A tracker that keeps what it receives."""

    name = "Recorded"

    def __init__(self, fails_at=None):
        self.calls, self.fails_at = [], fails_at

    def open(self, run, iteration):
        self.calls.append(("open", run, iteration))

    def add(self, iteration, values):
        if iteration == self.fails_at:
            raise OSError("the server is gone")
        self.calls.append(("add", iteration, values))

    def close(self, state, files):
        self.calls.append(("close", state, [path.name for path in files]))

    def numbers(self, name):
        return {call[1]: call[2][name] for call in self.calls if call[0] == "add" and name in call[2]}


@pytest.fixture
def recorded(monkeypatch):
    """The tracker that `-track mlflow` uses."""
    tracker = Recorded()
    monkeypatch.setattr(tracking, "MLflow", lambda: tracker)
    return tracker


def test_a_tracker_receives_the_numbers_of_a_run(folder, call, recorded):
    assert call(*TRAIN, "-track", "mlflow").status == 0
    kind, run, iteration = recorded.calls[0]
    assert (kind, run.name, run.net, run.folder.name, iteration) == ("open", "run_run", "small", "run_run", 0)
    assert run.config["base_lr"] == "0.05" and run.config["value.inner_product_param.num_output"] == "2"
    assert sorted(recorded.numbers("train/total_loss")) == list(range(20))
    assert sorted(recorded.numbers("train/loss")) == sorted(recorded.numbers("rate")) == [0, 5, 10, 15]
    assert sorted(recorded.numbers("test/loss")) == [0, 10, 20]
    assert all(map(math.isfinite, recorded.numbers("test/loss").values()))
    names = ["solver.prototxt", "net.prototxt", "metrics.csv", "log.txt", "run_iter_20.caffemodel"]
    assert recorded.calls[-1] == ("close", "finished", names)


def test_a_resumed_run_has_the_same_id(folder, call, recorded):
    call(*TRAIN, "-track", "mlflow", "-iterations", 10)
    call(*TRAIN, "-track", "mlflow", "-resume", "auto")
    opened = [call for call in recorded.calls if call[0] == "open"]
    assert [call[2] for call in opened] == [0, 10] and opened[0][1].id == opened[1][1].id
    assert [call[1] for call in recorded.calls if call[0] == "close"] == ["finished"] * 2


def test_a_failed_run_is_reported(folder, call, recorded):
    assert call(*TRAIN, "-track", "mlflow", "-set", "base_lr=1e30").status == 2
    assert recorded.calls[-1][:2] == ("close", "failed")


def test_a_tracker_that_fails_costs_no_run(folder, call, recorded):
    recorded.fails_at = 5
    assert "Recorded: the server is gone; training continues without it" in call(*TRAIN, "-track", "mlflow").ok.err
    assert recorded.calls[-1][1] < 5 and (folder / "run_iter_20.caffemodel").exists()


def test_a_tracker_that_cannot_start_is_an_error(folder, call, recorded, monkeypatch):
    def refused(*_):
        raise ValueError("no such store\nmore")

    monkeypatch.setattr(recorded, "open", refused)
    assert "Recorded cannot record the run: ValueError: no such store" in call(*TRAIN, "-track", "mlflow").refused.err


def test_tracking_does_not_change_the_numbers(folder, call, recorded):
    call(*TRAIN, "-record", "plain")
    call(*TRAIN, "-record", "tracked", "-track", "mlflow")
    assert (folder / "plain/losses.f32").read_bytes() == (folder / "tracked/losses.f32").read_bytes()


@pytest.mark.parametrize("module, extra", [("mlflow", "mlflow"), ("wandb", "wandb")])
def test_an_absent_package_names_its_extra(folder, call, monkeypatch, module, extra):
    for name in (module, f"{module}.entities", f"{module}.tracking"):
        monkeypatch.setitem(sys.modules, name, None)
    assert f'pip install "caffelite[{extra}]"' in call(*TRAIN, "-track", module).refused.err
    assert not (folder / "run_iter_20.caffemodel").exists()


def test_trackers_need_records(folder, call):
    assert "it needs them" in call(*TRAIN, "-track", "wandb", "-record", "none").err
    with pytest.raises(CaffeliteError, match="trackers of a run is unknown; expected one of mlflow, wandb"):
        RunConfig("s", trackers=("x",))


# Stand-ins of the packages


def test_weights_and_biases_is_offline_by_default(tmp_path, monkeypatch):
    calls = []

    class Run:
        summary: dict = {}

        def __getattr__(self, name):
            return lambda *given, **named: calls.append((name, given, named))

    fake = types.ModuleType("wandb")
    fake.init = lambda **named: calls.append(("init", (), named)) or Run()
    fake.Settings = dict
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    (tmp_path / "solver.prototxt").touch()
    tracker = tracking.WandB()
    tracker.open(tracking.TrackedRun("ab12", "run", "a/net", tmp_path, {"base_lr": "0.1"}), 0)
    tracker.add(3, {"test/loss": 0.5})
    tracker.close("failed", [tmp_path / "solver.prototxt"])
    start = calls[0][2]
    expected = {"mode": "offline", "project": "a_net", "id": "ab12", "config": {"base_lr": "0.1"}}
    assert {name: start[name] for name in expected} == expected
    assert ("log", ({"iteration": 3, "test/loss": 0.5},), {}) in calls
    assert calls[-2][0] == "save" and calls[-1] == ("finish", (), {"exit_code": 1})
    assert Run.summary == {"state": "failed"}


class FakeClient:
    """MLflow's client as far as it is used; one store for all clients."""

    runs: dict = {}

    def __init__(self, tracking_uri):
        self.uri = tracking_uri

    def get_experiment_by_name(self, name):
        return types.SimpleNamespace(experiment_id="1")

    def search_runs(self, experiments, text, max_results):
        key = text.split("'")[1]
        return [types.SimpleNamespace(info=types.SimpleNamespace(run_id=key))] if key in self.runs else []

    def create_run(self, experiment, tags, run_name):
        key = tags["caffelite.run"]
        self.runs[key] = {"params": [], "metrics": [], "artifacts": [], "status": "RUNNING"}
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=key))

    def log_batch(self, run, metrics=(), params=()):
        self.runs[run]["metrics"] += metrics
        self.runs[run]["params"] += params

    def log_artifact(self, run, path):
        self.runs[run]["artifacts"].append(path)

    def set_terminated(self, run, status):
        self.runs[run]["status"] = status


def test_mlflow_continues_the_run_of_the_same_id(tmp_path, monkeypatch):
    entities, client = types.ModuleType("mlflow.entities"), types.ModuleType("mlflow.tracking")
    entities.Metric, entities.Param = (lambda *given: given), (lambda *given: given)
    client.MlflowClient = FakeClient
    monkeypatch.setattr(FakeClient, "runs", {})
    for name, module in (
        ("mlflow", types.ModuleType("mlflow")),
        ("mlflow.entities", entities),
        ("mlflow.tracking", client),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    run = tracking.TrackedRun("ab12", "run", "net", tmp_path, {"conv1.param[0].lr_mult": "2"})
    for first, state in ((0, "stopped"), (600, "finished")):
        tracker = tracking.MLflow()
        tracker.open(run, first)
        for i in range(first, first + 600):
            tracker.add(i, {"train/total_loss": 0.5})
        tracker.close(state, [tmp_path / "log.txt"])
    (actual,) = FakeClient.runs.values()
    assert actual["params"] == [("conv1.param_0_.lr_mult", "2")] and actual["status"] == "FINISHED"
    assert [(name, step) for name, _, _, step in actual["metrics"]] == [("train/total_loss", i) for i in range(1200)]
    assert len(actual["artifacts"]) == 2


# The packages themselves


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_the_real_package_records_a_run(folder, name):
    pytest.importorskip(name)
    command = [sys.executable, "-c", "from caffelite.cli import main; main()", *TRAIN, "-track", name]
    for more in (("-iterations", "10"), ("-resume", "auto")):
        done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and "without it" not in done.stderr, done.stderr
    if name == "wandb":
        assert list((folder / "run_run/wandb").glob("offline-run-*/run-*.wandb"))
        return
    code = """
from mlflow.tracking import MlflowClient
client = MlflowClient("sqlite:///mlflow.db")
(run,) = client.search_runs([client.get_experiment_by_name("small").experiment_id])
steps = [m.step for m in client.get_metric_history(run.info.run_id, "train/total_loss")]
assert steps == list(range(20)), steps
assert run.info.status == "FINISHED" and run.data.params["base_lr"] == "0.05"
assert "run_iter_20.caffemodel" in [entry.path for entry in client.list_artifacts(run.info.run_id)]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
