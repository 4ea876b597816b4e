"""`caffelite sweep`: the table of its trials, also after it or a trial was killed; what it refuses."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from caffelite import stored
from caffelite.runs import folder as files, registry
from caffelite.runs.lock import FolderLock
from caffelite.runs.queue import local
from caffelite.sweep import sweep as sweeps
from caffelite.sweep.results import END, SettingResult, SweepResults, TrialResult, picture

COMMAND = [sys.executable, "-c", "from caffelite.cli import main; main()", "sweep"]
FIXED = ("max_iter=1500", "test_interval=500", "snapshot=100", "snapshot_keep=2", "display=500")
SETTINGS = ("-solver", "solver.prototxt", "-set", "base_lr=0.01,0.03,0.05")


@pytest.fixture
def sweep(call):
    """Runs `caffelite sweep` in this process; trials are processes of their own."""
    return lambda *options: call("sweep", *options)


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def killed_sweep(*options):
    """Starts a sweep, kills its first trial in training, and the sweep itself in its second."""
    with open("broken.log", "w") as log:
        process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL, stderr=log)

    def trains(name):
        saved = list(Path("broken").glob(f"{name}_iter_*.solverstate"))
        return saved and registry.read(f"broken/{name}_run").state == registry.RUNNING

    try:
        wait_for(lambda: trains("trial_1"))
        os.kill(registry.read("broken/trial_1_run").process, signal.SIGKILL)
        wait_for(lambda: trains("trial_2"))
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_killed_sweep_gives_the_same_table(folder, sweep):
    """A trial that is killed runs on from its snapshot; the one that runs when the sweep is killed goes on, and the
    next session waits for it."""
    options = (*SETTINGS, *(word for text in FIXED for word in ("-set", text)))
    whole = sweep(*options, "-folder", "whole")
    assert whole.status == 0, whole.err
    killed_sweep(*options, "-folder", "broken")
    done = len(list((folder / "broken").glob("trial_*.json")))
    assert 1 <= done < 3
    continued = sweep("-resume", "broken")
    assert continued.status == 0, continued.err
    assert continued.out == whole.out
    for name in ("results.csv", "results.json"):
        assert (folder / "broken" / name).read_bytes() == (folder / "whole" / name).read_bytes()
    runs = [registry.read(f"broken/trial_{number}_run") for number in (1, 2, 3)]
    assert [run.state for run in runs] == ["finished"] * 3
    assert [run.sessions for run in runs] == [2, 1, 1], "the trial of the killed sweep went on"
    again = sweep(*options, "-folder", "broken")
    assert again.out == whole.out and "trial_" not in again.err, "nothing is left to train"


def stopped_sweep(folder, *signals):
    """The exit status and the trials of a sweep of two trials at a time that receives signals."""
    options = (*SETTINGS, "-set", "max_iter=100000000", "-set", "display=0", "-jobs", "2", "-folder", folder)
    process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def at_work():
        beats = [stored.read(f"{folder}/trial_{number}_run/heartbeat.json", {"iteration": int}) for number in (1, 2)]
        return all(beat.get("iteration") for beat in beats)

    try:
        wait_for(at_work)
        for number in signals:
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert b"Stopping the trials, each with a snapshot" in err
    return process.returncode, [registry.read(f"{folder}/trial_{number}_run") for number in (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_all_trials_with_snapshots(folder, state_folder, number, status):
    before = set(state_folder.rglob("*"))
    returned, runs = stopped_sweep("mine", number)
    assert returned == status and [run.label for run in runs] == ["paused", "paused"]
    assert all(list(Path("mine").glob(f"trial_{number}_iter_*.solverstate")) for number in (1, 2))
    assert not Path("mine/trial_3_run").exists()
    assert set(state_folder.rglob("*")) - before <= {state_folder / "jobs"}, "no record of a job is left"


@pytest.mark.slow
def test_a_second_signal_kills_the_trials(folder):
    returned, runs = stopped_sweep("mine", signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT)
    assert returned and [run.label for run in runs] == ["killed", "killed"]
    assert not any(os.path.exists(f"/proc/{run.process}") for run in runs)


@pytest.mark.slow
def test_a_trial_is_a_plain_training_run(folder, call, sweep):
    """Its run folder holds the command; the same command gives the same score."""
    done = sweep("-solver", "solver.prototxt", "-set", "base_lr=0.01,0.05", "-seeds", "2", "-seed", "7")
    assert done.status == 0, done.err
    rows = list(csv.DictReader((folder / "run_sweep/results.csv").read_text().splitlines()))
    assert sorted(row["base_lr"] for row in rows) == ["0.01", "0.05"]
    best = next(row for row in rows if row["rank"] == "1")
    assert float(best["low"]) <= float(best["loss"]) <= float(best["high"]), "loss: less is better"
    assert float(best["loss"]) <= float(rows[1]["loss"])
    number = int(best["setting"])
    run = registry.read(f"run_sweep/trial_{number}_seed_8_run")
    assert "--set=random_seed=8" in run.command and f"--set=base_lr={best['base_lr']}" in run.command
    call("train", "-solver", "solver.prototxt", "-set", f"base_lr={best['base_lr']}", "-set", "random_seed=8")
    losses = (folder / "run_run/losses.f32").read_bytes()
    assert (run.folder / "losses.f32").read_bytes() == losses


@pytest.mark.slow
def test_successive_halving(folder, sweep):
    options = ("-set", "base_lr=0.001,0.01,0.05,0.1", "-set", "max_iter=40", "-halving", "-factor", "2", "-json")
    done = sweep("-solver", "solver.prototxt", *options)
    assert done.status == 0, done.err
    actual = json.loads(done.out)
    assert actual["score"] == "loss" and actual["lowest"] and actual["complete"]
    assert [row["iterations"] for row in actual["settings"]] == [40, 20, 10, 10]
    iterations = {run.folder.name: run.iteration for run in registry.find("run_sweep")}
    assert sorted(iterations.values()) == [10, 10, 20, 40], "a run continues from rung to rung"
    sessions = [run.sessions for run in registry.find("run_sweep")]
    assert sorted(sessions) == [1, 1, 2, 3]


def test_a_failed_trial_is_a_row_without_a_score(folder, sweep):
    done = sweep("-solver", "solver.prototxt", "-set", "base_lr=0.01,1e30", "-set", "momentum=0.9")
    assert done.status == 0, done.err
    good, bad = csv.DictReader((folder / "run_sweep/results.csv").read_text().splitlines())
    assert good["base_lr"] == "0.01" and good["loss"] and not good["note"]
    assert bad["base_lr"] == "1e30" and not bad["loss"] and bad["note"].startswith("failed: ")


@pytest.mark.slow
def test_a_sweep_without_any_score_fails(folder, sweep):
    done = sweep("-solver", "solver.prototxt", "-set", "base_lr=1e29,1e30", "-folder", "failing")
    assert done.status == 1 and "No trial has a score" in done.err, done.err


def test_a_trial_that_dies_again_and_again_ends_the_sweep(folder, monkeypatch):
    script = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    monkeypatch.setattr(local, "command", lambda words, folder: script)
    definition = sweeps.SweepConfig(sweeps.config.RunConfig("solver.prototxt"), ("base_lr=0.01,0.05",))
    with pytest.raises(sweeps.CaffeliteError, match="trial_1 ended 3 times with status -9"):
        sweeps.Sweep(definition, folder / "mine").run()


@pytest.mark.parametrize("tests, known", [(("0,1.5",), False), (("0,1.5", "10,0.5"), True)])
def test_a_trial_that_stops_before_the_test_at_its_rung(folder, call, tests, known):
    """It has reached the rung's iteration, but has no score of it yet."""
    assert call("train", "-solver", "solver.prototxt", "-iterations", 10, "-record", "t_run").status == 0
    run = stored.read("t_run/run.json", stored.ANY)
    run["sessions"][-1]["outcome"] |= {"kind": registry.PAUSED, "reason": "", "iteration": 10}
    files.write_json(folder / "t_run/run.json", run)
    rows = [f"{iteration},1,test,,,{loss}" for iteration, loss in (text.split(",") for text in tests)]
    (folder / "t_run/metrics.csv").write_text("\n".join(["iteration,seconds,phase,rate,smoothed_loss,loss", *rows, ""]))
    trial = sweeps.Trial(1, (), 1, "t", folder, sweeps.config.RunConfig("solver.prototxt"))
    result = trial.result(sweeps.Score("loss", 0, True, "last"), 10)
    assert (result and result.score) == (0.5 if known else None)


def test_trials_run_on_the_devices_named(folder, monkeypatch):
    """A number that comes twice takes two at a time; a trial ends when the three have started."""
    commands, all_three = [], folder / "all_three"
    wait = f"import os, sys, time\nwhile not os.path.exists({str(all_three)!r}): time.sleep(0.01)\nsys.exit(2)"

    def command(words, folder):
        commands.append(words)
        if len(commands) == 3:
            all_three.touch()
        return [sys.executable, "-c", wait]

    monkeypatch.setattr(local, "command", command)
    definition = sweeps.SweepConfig(sweeps.config.RunConfig("solver.prototxt"), ("base_lr=0.01,0.03,0.05",))
    sweeps.Sweep(definition, folder / "mine", [0, 1, 0]).run()
    assert [words[-1] for words in commands] == ["--gpu=0", "--gpu=1", "--gpu=0"]
    sweeps.Sweep(definition, folder / "other", [None]).run()
    assert not any(word.startswith("--gpu") for words in commands[3:] for word in words)


def test_a_trial_that_ends_between_two_looks_keeps_its_status(folder, monkeypatch, caplog):
    """Its process has ended, and nobody has collected its status yet."""
    collect, late = local.Local.collect, []

    def collect_later(self):
        if not late and any(child.poll() is not None for child, _ in self._children.values()):
            late.append(True)
        else:
            collect(self)

    monkeypatch.setattr(local.Local, "collect", collect_later)
    monkeypatch.setattr(local, "command", lambda words, folder: [sys.executable, "-c", "import sys; sys.exit(2)"])
    definition = sweeps.SweepConfig(sweeps.config.RunConfig("solver.prototxt"), ("base_lr=0.01,0.05",))
    sweeps.Sweep(definition, folder / "mine", [None]).run()
    assert late and not [message for message in caplog.messages if "ended with status" in message]


def test_a_trial_of_an_earlier_session_runs_again(folder):
    """One that was started by a session of the sweep that was killed, and is killed itself while this one waits."""
    definition = sweeps.SweepConfig(sweeps.config.RunConfig("solver.prototxt"), ("base_lr=0.01,0.05",))
    resumed = sweeps.Sweep(definition, folder / "mine")
    resumed._settings = resumed._sampler.propose([])
    [trial] = resumed._trials(1)
    assert resumed._ended((trial, END), -9, "")


# What is refused


@pytest.mark.parametrize(
    "options, message",
    [
        (("-set", "bse_lr=1,2"), 'did you mean "base_lr"'),
        (("-set", "base_lr=1,x"), "-set base_lr=x"),
        (("-set", "valu.inner_product_param.num_output=2,3"), 'no layer is called "valu"'),
        (("-set", "base_lr=0.1"), "several values"),
        (("-set", "base_lr=0.1,0.2", "-score", "los"), 'did you mean "loss"'),
        (("-set", "base_lr=log(0.1,0.2)"), "-random N"),
        (("-set", "base_lr=0.1,0.2", "-set", "test_iter="), "has none"),
        ((), "several values"),
        (("-set", "base_lr=1,2", "-set", "max_iter=60", "-set", "test_interval=100"), "no test follows training"),
    ],
)
def test_mistakes_are_reported_before_the_first_trial(folder, call, options, message):
    assert message in call("sweep", "-solver", "solver.prototxt", *options).refused.err
    assert not list(folder.glob("*sweep*"))


def test_another_definition_needs_another_folder(folder, call, monkeypatch):
    monkeypatch.setattr(sweeps.Sweep, "_run", lambda self, jobs: self._summary({}, complete=True))
    first = call("sweep", "-solver", "solver.prototxt", "-set", "base_lr=0.1,0.2")
    other = call("sweep", "-solver", "solver.prototxt", "-set", "base_lr=0.1,0.3", "-set", "gamma=2")
    assert first.status == 0 and other.status == 2
    assert "run_sweep holds a sweep with another definition; found other overrides, values" in other.err
    assert "-resume run_sweep" in other.err and "-folder DIR" in other.err
    assert call("sweep", "-resume", "run_sweep").status == 0


def test_two_sweeps_in_one_folder_are_refused(folder, call):
    (folder / "run_sweep").mkdir()
    lock = FolderLock(folder / "run_sweep")
    result = call("sweep", "-solver", "solver.prototxt", "-set", "base_lr=0.1,0.2")
    lock.release()
    assert result.status == 2 and "another sweep runs in run_sweep" in result.err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}'])
def test_a_folder_that_is_no_sweep(folder, call, text):
    (folder / "sweep.json").write_text(text)
    result = call("sweep", "-resume", ".")
    assert result.status == 2 and ("not the folder of a sweep" in result.err or "definition" in result.err)


def test_a_sweep_starts_or_continues(folder, call):
    assert "-resume" in call("sweep").err
    assert "-resume" in call("sweep", "-solver", "solver.prototxt", "-resume", "x").err


def test_jobs_divide_the_cores(folder, call, monkeypatch):
    seen = []
    monkeypatch.setattr(sweeps.Sweep, "_run", lambda self, jobs: seen.append(self) or self._summary({}, complete=True))
    monkeypatch.setattr("caffelite.cli.sweep.usable_cores", lambda: [*range(8)])
    call("sweep", "-solver", "solver.prototxt", "-set", "base_lr=0.1,0.2", "-jobs", 3)
    assert seen[0].config.threads == 2 and seen[0]._devices == [None] * 3
    call("sweep", "-resume", "run_sweep", "-jobs", 1)
    assert seen[1].config.threads == 2, "a continued sweep keeps the threads of its trials"


def test_a_missing_tracker_is_reported_before_the_first_trial(folder, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.entities", None)
    result = call("sweep", "-solver", "solver.prototxt", "-set", "base_lr=0.01,0.05", "-track", "mlflow")
    assert result.status == 2 and 'pip install "caffelite[mlflow]"' in result.err
    assert not (folder / "run_sweep").exists()


@pytest.mark.slow
def test_a_sweep_stops_after_a_time(folder, sweep):
    """The trial that runs stops with a snapshot, and no other one starts."""
    options = ("-solver", "solver.prototxt", "-set", "base_lr=0.01,0.05", "-set", "max_iter=1000000")
    stopped = sweep(*options, "-max_time", "4", "-json")
    assert stopped.status == 0, stopped.err
    assert not json.loads(stopped.out)["complete"]
    assert "To continue: caffelite sweep -resume run_sweep" in stopped.err
    assert registry.read("run_sweep/trial_1_run").state == registry.STOPPED
    assert not (folder / "run_sweep/trial_2_run").exists()


# Optuna


def test_optuna_proposes_the_same_settings_again(folder):
    pytest.importorskip("optuna")
    from caffelite.sweep import space, sweep
    from caffelite.sweep.results import SettingResult, TrialResult

    def proposed():
        _, axes = space.parse(["a=log(0.001,1)", "b=int(1,9)", "c=x,y"])
        sampler = sweep.OptunaSampler(axes, 7, together=3, seed=1, lowest=True)
        actual, results = [], []
        while settings := sampler.propose(results):
            actual.append(settings)
            results = [
                SettingResult(0, s, 1, (TrialResult(None if dict(s)["b"] == "1" else float(dict(s)["a"]), 1, ""),))
                for s in settings
            ]
        return actual

    rounds = proposed()
    assert rounds == proposed() and list(map(len, rounds)) == [3, 3, 1]
    assert all(0.001 <= float(dict(s)["a"]) <= 1 and dict(s)["c"] in "xy" for each in rounds for s in each)


def test_a_sweep_without_optuna_names_the_extra(folder, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    options = ("-set", "base_lr=log(0.01,0.1)", "-random", 2, "-sampler", "optuna")
    assert 'pip install "caffelite[optuna]"' in call("sweep", "-solver", "solver.prototxt", *options).refused.err


def test_the_chart_of_a_sweep():
    rows = [
        SettingResult(1, (("conv1.param[0].lr_mult", "1"),), 20, (TrialResult(0.9, 20, ""), TrialResult(0.8, 20, ""))),
        SettingResult(2, (("conv1.param[0].lr_mult", "2"),), 10, (TrialResult(0.7, 10, ""), TrialResult(0.6, 10, ""))),
        SettingResult(3, (("conv1.param[0].lr_mult", "3"),), 10, (TrialResult(None, 0, "failed"),) * 2),
    ]
    drawn = picture(SweepResults("accuracy", False, [1, 2], rows), "svg", "mine").decode()
    for text in ("mine: 3 settings", "lr_mult=1", "lr_mult=2  (10 iterations)", "0.85", "accuracy (more is better)"):
        assert f"<!-- {text} -->" in drawn, text
    assert "lr_mult=3" not in drawn
    assert picture(SweepResults("accuracy", False, [1], []), "png").startswith(b"\x89PNG")


@pytest.mark.slow
def test_lengths_in_epochs(folder, sweep):
    """Settings of other batch sizes have other numbers of iterations, and are compared at their ends. Each trial is
    tracked."""
    solver = (folder / "solver.prototxt").read_text()
    solver = solver.replace("max_iter: 20", "max_epoch: 6").replace("test_interval: 10", "test_epoch: 2")
    (folder / "solver.prototxt").write_text(solver.replace("snapshot: 10", ""))
    done = sweep("-solver", "solver.prototxt", "-set", "rows.hdf5_data_param.batch_size=4,13", "-json", "-tensorboard")
    assert done.status == 0, done.err
    assert all(list((folder / f"run_sweep/trial_{number}_run/events").iterdir()) for number in (1, 2))
    actual = json.loads(done.out)["settings"]
    assert {row["fields"]["rows.hdf5_data_param.batch_size"]: row["iterations"] for row in actual} == {"4": 24, "13": 6}
    assert actual[0]["mean"] <= actual[1]["mean"]
