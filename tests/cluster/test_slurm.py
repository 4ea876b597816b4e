"""Jobs and sweeps on a SLURM cluster of this machine: over two nodes, preempted, requeued, on a node that dies."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from slurm_cluster import NODES, PROGRAMS, Cluster, until

from caffelite import caffelite_pb2 as pb, stored
from caffelite.runs import folder as files
from caffelite.runs.queue import edit, job

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "caffelite"]
LENGTH = 400
THREADS = {name: "1" for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        pytest.skip(f"SLURM is not installed: no {missing[0]}")
    three = Cluster(tmp_path_factory.mktemp("cluster"))
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        for name, value in {"SLURM_CONF": str(three.configuration), "PYTHONPATH": path, **THREADS}.items():
            environment.setenv(name, value)
        stack.callback(three.stop)
        three.start()
        yield three


@pytest.fixture(scope="module")
def root(cluster, tmp_path_factory) -> Path:
    """A folder with LeNet and the digits."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("models", "solvers"):
        (folder / name).symlink_to(ROOT / name)
    run(folder, "dataset", "digits")
    return folder


@pytest.fixture(scope="module")
def reference(root) -> bytes:
    """The model of a training that nothing interrupts."""
    run(root, *training("reference"))
    return trained(root, "reference")


def training(prefix: str) -> list[str]:
    solver = {"max_iter": LENGTH, "snapshot": 50, "test_interval": LENGTH, "random_seed": 3, "snapshot_prefix": prefix}
    words = [word for name, value in solver.items() for word in ("-set", f"{name}={value}")]
    return ["train", "-solver", "solvers/digits_solver.prototxt", *words]


def trained(root: Path, prefix: str) -> bytes:
    """The parameters and the history of the updates, and the losses of all iterations."""
    model = pb.NetParameter.FromString((root / f"{prefix}_iter_{LENGTH}.caffemodel").read_bytes())
    state = pb.SolverState.FromString((root / f"{prefix}_iter_{LENGTH}.solverstate").read_bytes())
    blobs = [blob for layer in model.layer for blob in layer.blobs]
    assert len(blobs) == len(state.history) == 8
    texts = [blob.SerializeToString(deterministic=True) for blob in (*blobs, *state.history)]
    return b"".join([*texts, (root / f"{prefix}_run" / files.LOSSES).read_bytes()])


def run(root: Path, *words: str) -> str:
    done = subprocess.run([*COMMAND, *words], cwd=root, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout


def add(root: Path, *words: str) -> str:
    return run(root, "queue", "add", "--", *words).strip()


@contextmanager
def head(root: Path, *options: str) -> Iterator[subprocess.Popen]:
    """The process that submits the jobs; it is killed at the end."""
    words = [*COMMAND, "queue", "run", "-engine", "slurm", *options]
    with open(root / "head.txt", "ab") as output:
        process = subprocess.Popen(words, cwd=root, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def goes_on(root: Path, id: str, fact: Callable[[], object], what: str) -> None:
    """Waits for a fact while a job is not at its end."""

    def happened() -> object:
        if done := fact():
            return done
        ended = edit.find(root, id)
        assert ended.state in job.PENDING, (ended, ended.log.read_text())
        return False

    until(happened, what)


def state(root: Path, id: str) -> str:
    return edit.find(root, id).state


def ends(root: Path, id: str) -> job.Job:
    """The job when it has ended well."""
    until(lambda: state(root, id) not in job.PENDING, f"job {id} ends")
    ended = edit.find(root, id)
    assert ended.state == job.FINISHED, (ended, ended.log.read_text() if ended.log.exists() else "")
    return ended


def sessions(folder: Path) -> int:
    return len(stored.read(folder / files.RUN, {"sessions": list}).get("sessions", []))


def has_snapshot(root: Path, prefix: str) -> bool:
    return any(root.glob(f"{prefix}_iter_*.solverstate"))


def test_a_preempted_training_has_the_bytes_of_a_calm_one(cluster, root, reference):
    id = add(root, *training("preempted"))
    with head(root):
        goes_on(root, id, lambda: has_snapshot(root, "preempted"), "a snapshot is written")
        number, folder = edit.find(root, id).slurm, edit.find(root, id).folder
    cluster.ask("scancel", "--signal=USR2", number)  # what SLURM does before the time is over
    goes_on(root, id, lambda: sessions(folder) == 2, "a second session begins")
    assert edit.find(root, id).slurm == number
    cluster.ask("scontrol", "requeue", number)  # what it does where a more important job comes
    goes_on(root, id, lambda: sessions(folder) == 3, "a third session begins")
    with head(root, "-until_idle") as again:
        ends(root, id)
        assert again.wait() == 0
    assert trained(root, "preempted") == reference


def test_a_training_on_a_node_that_dies_continues_elsewhere(cluster, root, reference):
    id = add(root, *training("moved"))
    with head(root):
        goes_on(root, id, lambda: has_snapshot(root, "moved"), "a snapshot is written")
        goes_on(root, id, lambda: edit.find(root, id).slot, "SLURM's table has the node")
        running = edit.find(root, id)
        first = running.slot.removeprefix("node ")
        cluster.kill_node(first)
        goes_on(root, id, lambda: sessions(running.folder) == 2, "a second session begins")
        ended = ends(root, id)
    assert ended.slot.removeprefix("node ") in set(NODES) - {first}
    assert trained(root, "moved") == reference
    cluster.start_node(first)
    until(lambda: "down" not in " ".join(cluster.states()), "the node is back")


@pytest.fixture(scope="module")
def reference_of_two(root) -> bytes:
    """The model of two processes that nothing interrupts."""
    pytest.importorskip("mpi4py")
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not mpirun:
        pytest.skip("mpirun is not installed")
    subprocess.run([mpirun, "-n", "2", *COMMAND, *training("here")], cwd=root, check=True, capture_output=True)
    return trained(root, "here")


def test_two_nodes_have_the_bytes_of_two_processes_here(cluster, root, reference_of_two):
    id = add(root, *training("two"))
    with head(root, "-nodes", "2"):
        ended = ends(root, id)
    assert ended.slot.startswith("node n[")
    assert trained(root, "two") == reference_of_two


def test_the_script_of_the_page_is_requeued_on_its_signal(cluster, root, reference_of_two, monkeypatch):
    text = (ROOT / "docs/cluster.md").read_text().split("`job.sbatch`:")[1].split("```")[1].partition("\n")[2]
    text = text.replace("-solver solvers/digits_solver.prototxt", " ".join(training("script")[1:]))
    (root / "job.sbatch").write_text(text.replace("--cpus-per-task=2", "--cpus-per-task=1"))
    (root / "bin").mkdir()
    (root / "bin/caffelite").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (root / "bin/caffelite").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(root)
    number = cluster.ask("sbatch", "--parsable", "job.sbatch").strip()

    def show(word: str) -> bool:
        return word in cluster.ask("scontrol", "show", "job", number)

    until(lambda: has_snapshot(root, "script"), "a snapshot is written")
    cluster.ask("scancel", "--signal=USR1", number)
    until(lambda: show("JobState=COMPLETED") or show("JobState=FAILED"), "the job ends")
    assert show("Restarts=1"), (root / f"slurm-{number}.out").read_text()
    assert sessions(root / "script_run") == 2
    assert trained(root, "script") == reference_of_two


def sweep_words(*words: str) -> list[str]:
    tests = "-set", "test_iter=1", "-set", "test_interval=10"
    return ["sweep", "-solver", "solvers/digits_solver.prototxt", *tests, *words]


def test_a_sweep_over_three_nodes_has_the_results_of_one_here(cluster, root):
    settings = "max_iter=20", "base_lr=0.01,0.02,0.03", "momentum=0.8,0.85,0.9,0.95"
    words = sweep_words(*(word for each in settings for word in ("-set", each)))
    run(root, *words, "-folder", "local", "-jobs", "2")
    run(root, *words, "-folder", "cluster", "-engine", "slurm", "-slurm", "exclusive")  # one trial a node at a time
    nodes = {each.slot for each in job.jobs(root / "cluster")}
    assert nodes == {f"node {node}" for node in NODES}
    assert (root / "cluster/results.csv").read_bytes() == (root / "local/results.csv").read_bytes()


@pytest.mark.parametrize(
    "kind, options", [("halving", ("-halving", "-factor", "2")), ("optuna", ("-sampler", "optuna"))]
)
def test_sweeps_that_learn_from_results_have_those_of_one_here(cluster, root, kind, options):
    if kind == "optuna":
        pytest.importorskip("optuna")
    words = sweep_words(
        "-set", "max_iter=20", "-set", "base_lr=log(0.0001,0.05)", "-random", "4", *options, "-jobs", "2"
    )
    run(root, *words, "-folder", f"{kind}_local")
    run(root, *words, "-folder", f"{kind}_cluster", "-engine", "slurm")
    slots = [each.slot for each in job.jobs(root / f"{kind}_cluster")]
    assert len(slots) == 4 and all(slot.removeprefix("node ") in NODES for slot in slots)
    results = [(root / f"{kind}_{where}/results.csv").read_bytes() for where in ("local", "cluster")]
    assert results[0] == results[1]


def test_priority_and_cancel_reach_slurm(cluster, root):
    id = add(root, *training("held"))
    with head(root, "-slurm", "begin=now+1day"):
        until(lambda: "BeginTime" in edit.find(root, id).reason, "the job waits")
    waiting = edit.find(root, id)
    assert waiting.state == job.QUEUED
    run(root, "queue", "priority", id, "-7")
    assert "Nice=7 " in cluster.ask("scontrol", "show", "job", waiting.slurm)
    run(root, "queue", "cancel", id)
    assert state(root, id) == job.STOPPED
    assert "JobState=CANCELLED" in cluster.ask("scontrol", "show", "job", waiting.slurm)
