"""`caffelite train`: its options and its lines."""

import json
import os
import re
import shlex

import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.cli.options import Duration
from caffelite.devices import cuda as gpus
from caffelite.devices.cuda import presence
from caffelite.runs import open_net, registry

NUMBER = r"-?(\d+(\.\d*)?(e[+-]\d+)?|nan|inf)"
LINES = [
    rf"Iteration \d+ \({NUMBER} iter/s, {NUMBER}s/5 iters\), loss = {NUMBER}",
    rf"    Train net output #0: loss = {NUMBER} \(\* 1 = {NUMBER} loss\)",
    rf"Iteration \d+, lr = {NUMBER}",
    r"Iteration \d+, Testing net \(#0\)",
    rf"    Test net output #0: loss = {NUMBER} \(\* 1 = {NUMBER} loss\)",
    r"Snapshotting to binary proto file run_iter_\d+\.caffemodel",
    r"Snapshotting solver state to binary proto file run_iter_\d+\.solverstate",
    r"Optimization Done\.",
    r"Run [0-9a-f]{16} \(of 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\) begins; snapshots: run_iter_\*",
    *(r"Use CPU\.", r"Solving small", r"Learning Rate Policy: inv", rf"Iteration 20, loss = {NUMBER}"),
]


def test_lines_as_caffe_writes_them(folder, call):
    """Every kind of line, no other, and no command to continue. parse_log's regular expressions get from them the
    columns that they get from Caffe's own log."""
    result = call("train", "-solver", "solver.prototxt")
    assert result.status == 0 and result.out == "" and "To continue" not in result.err
    for line in result.err.splitlines():
        assert re.fullmatch(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.py:\d+\] .+", line), line
    assert {next((p for p in LINES if re.fullmatch(p, line)), line) for line in result.lines} == set(LINES)
    train, test, at, rate = [], [], None, float("nan")
    for line in result.err.splitlines():
        if m := re.search(r"Iteration (\d+)", line):
            at = float(m[1])
        if m := re.search(r"lr = ([-+]?[0-9]*\.?[0-9]+([eE]?[-+]?[0-9]+)?)", line):
            rate = float(m[1])
        for kind, rows in (("Train", train), ("Test", test)):
            if m := re.search(rf"{kind} net output #(\d+): (\S+) = ([\.\deE+-]+)", line):
                rows.append((at, m[2]))
    assert train == [(i, "loss") for i in (0, 5, 10, 15)] and test == [(i, "loss") for i in (0, 10, 20)]
    assert rate == pytest.approx(0.05 * 2.5**-0.75, rel=1e-5)


def test_options_with_an_equals_sign_and_two_dashes(folder, call):
    assert call("train", "--solver=solver.prototxt", "-iterations=3", "--sigint-effect", "none").status == 0
    assert (folder / "run_iter_3.solverstate").exists()


def test_until_is_an_iteration_wherever_the_run_starts(folder, call):
    for _ in range(2):
        assert call("train", "-solver", "solver.prototxt", "-until", 3, "-resume", "auto").status == 0
        assert [path.name for path in folder.glob("run_iter_*.solverstate")] == ["run_iter_3.solverstate"]
    assert call("train", "-solver", "solver.prototxt", "-until", 5, "-resume", "auto").status == 0
    assert (folder / "run_iter_5.solverstate").exists()
    assert call("train", "-solver", "solver.prototxt", "-until", 5, "-iterations", 5).status == 2


def test_resume_goes_on(folder, call):
    whole = call("train", "-solver", "solver.prototxt").lines
    resumed = call("train", "-solver", "solver.prototxt", "-snapshot", "run_iter_10.solverstate").lines
    assert "Resuming from run_iter_10.solverstate" in resumed

    def losses(lines):
        return [re.sub(r" \(.*\)", "", line) for line in lines if re.search(r"(Iteration|Test).*loss = ", line)]

    assert losses(resumed) == losses(whole)[-len(losses(resumed)) :] and len(losses(resumed)) == 5


def test_resume_from_a_file_names_the_other_option(folder, call):
    result = call("train", "-solver", "solver.prototxt", "-resume", "run_iter_10.solverstate")
    assert result.status == 2 and "to resume from a snapshot: -snapshot run_iter_10.solverstate" in result.err


def test_resume_auto_takes_the_newest_good_snapshot(folder, call):
    first = call("train", "-solver", "solver.prototxt", "-resume", "auto").lines
    assert "There is no snapshot yet to resume from" in first
    (folder / "run_iter_30.solverstate").write_bytes(b"cut off")
    (folder / "run_iter_20.caffemodel").unlink()
    resumed = call("train", "-solver", "solver.prototxt", "-resume", "auto").lines
    assert "run_iter_30.solverstate is damaged, or its model is: passed over" in resumed
    assert "Resuming from run_iter_10.solverstate" in resumed and "Optimization Done." in resumed
    assert call("train -solver solver.prototxt -resume auto -snapshot run_iter_10.solverstate").status == 2


def test_weights_say_what_was_matched(folder, call):
    call("train", "-solver", "solver.prototxt")
    net = (folder / "net.prototxt").read_text()
    command = ("train", "-solver", "solver.prototxt", "-weights")
    assert "Weights from run_iter_20.caffemodel: matched value" in call(*command, "run_iter_20.caffemodel").lines
    extra = 'layer { name: "new" type: "InnerProduct" bottom: "x" top: "new" inner_product_param { num_output: 2 } }'
    (folder / "net.prototxt").write_text(net + extra)
    assert "  missing, kept as the fillers made them: new" in call(*command, "run_iter_10.caffemodel").lines
    call("train", "-solver", "solver.prototxt")
    (folder / "net.prototxt").write_text(net)
    assert "  skipped, not in the net: new" in call(*command, "run_iter_20.caffemodel").lines
    (folder / "net.prototxt").write_text(net.replace('"value"', '"valeu"'))
    result = call(*command, "run_iter_10.caffemodel").refused
    message = "run_iter_10.caffemodel: no layer of the file is in the net; expected layers valeu, found value"
    assert f"caffelite: {message}" in result.err
    (folder / "net.prototxt").write_text(net.replace("num_output: 2", "num_output: 2 bias_term: false"))
    result = call(*command, "run_iter_10.caffemodel")
    assert result.status == 2 and "net.prototxt:4:" in result.err
    assert "does not fit; expected 1 blobs, found 2" in result.err
    assert "cannot read absent.caffemodel: no such file" in call(*command, "absent.caffemodel").err


def test_level_and_stage_reach_the_train_net(folder, call):
    def outputs(*options):
        lines = call("train", "-solver", "solver.prototxt", "-iterations", 1, *options).lines
        return {m[1] for line in lines if (m := re.search(r"Train net output #\d+: (\w+)", line))}

    assert outputs() == {"loss"}
    assert outputs("-stage", "other,more") == {"loss", "sigmoid"}
    assert outputs("-level", 2) == {"loss", "tanh"}


NO_GPU = pytest.mark.skipif(gpus.count() > 0, reason="a GPU is at hand")


@NO_GPU
@pytest.mark.parametrize("there, said", [(False, "this machine has no NVIDIA GPU"), (True, "(cupy|CuPy|CUDA|GPU)")])
def test_gpu_0_without_one_says_what_is_missing(folder, call, monkeypatch, there, said):
    monkeypatch.setattr(presence, "present", lambda: there)
    assert re.search(f"caffelite: .*{said}", call("train", "-solver", "solver.prototxt", "-gpu", "0").refused.err)


@NO_GPU
def test_gpu_all_without_one_runs_on_the_cpu_and_says_so(folder, call, monkeypatch):
    monkeypatch.setattr(gpus, "present", lambda: False)
    result = call("train", "-solver", "solver.prototxt", "-gpu", "all")
    message = ["-gpu all: this machine has no NVIDIA GPU; running on the CPU.", "Use CPU."]
    assert result.status == 0 and result.lines[:2] == message and result.err.count(message[0]) == 1


@NO_GPU
def test_gpu_all_with_one_that_cannot_be_used_is_as_gpu_0(folder, call, monkeypatch):
    monkeypatch.setattr(gpus, "present", lambda: True)
    answers = [call("train", "-solver", "solver.prototxt", "-gpu", text) for text in ("all", "0")]
    assert answers[0].status == 2 and answers[0].err == answers[1].err


@NO_GPU
def test_solver_mode_gpu_without_one(folder, call, monkeypatch):
    (folder / "solver.prototxt").write_text((folder / "solver.prototxt").read_text() + "solver_mode: GPU")
    result = call("train", "-solver", "solver.prototxt")
    assert result.status == 2 and "caffelite: solver_mode: GPU" in result.err and "-gpu" not in result.err
    assert result.err.rstrip().endswith("run on the CPU: -set solver_mode=CPU")
    assert call("train", "-solver", "solver.prototxt", "-set", "solver_mode=CPU").status == 0
    monkeypatch.setattr(presence, "present", lambda: False)
    result = call("train", "-solver", "solver.prototxt", "-gpu", "0").refused
    assert result.err.rstrip().endswith("leave -gpu out to run on the CPU, with -set solver_mode=CPU")
    monkeypatch.setattr(gpus, "present", lambda: False)
    assert call("train", "-solver", "solver.prototxt", "-gpu", "all").status == 0
    (folder / "solver.prototxt").write_text((folder / "solver.prototxt").read_text().replace("GPU", "CPU"))
    assert call("train", "-solver", "solver.prototxt").status == 0


@pytest.mark.parametrize("text", ["x", "0,x", "", "-1"])
def test_gpu_numbers(folder, call, text):
    assert "-gpu" in call("train", "-solver", "solver.prototxt", "-gpu", text).refused.err


def test_fields_set_on_the_command_line(folder, call):
    command = "train -solver solver.prototxt -set max_iter=10 -set=value.inner_product_param.num_output=2".split()
    assert call(*command, "-set", "lr_policy=fixed").status == 0
    assert (folder / "run_iter_10.solverstate").exists() and not (folder / "run_iter_20.solverstate").exists()
    result = call(*command, "-set", "value.inner_product_param.num_output=3")
    assert result.status == 2 and '(EuclideanLoss): bottom "y" does not fit' in result.err
    result = call(*command, "-set", "valeu.inner_product_param.num_output=3", "-set", "display=-1")
    assert result.status == 2 and "-set display=-1: display must be at least 0; found -1" in result.err
    result = call(*command, "-set", "valeu.inner_product_param.num_output=3")
    assert result.status == 2 and 'no layer is called "valeu"' in result.err and 'did you mean "value"?' in result.err


def test_time_is_up(folder, call):
    result = call("train -solver solver.prototxt -set max_iter=1000000 -set display=0 -max_time 0.3s")
    assert result.status == 0 and result.lines[-2] == "Optimization stopped early."
    assert result.lines[-1].startswith(
        "To continue: caffelite train -solver solver.prototxt -set max_iter=1000000 -set display=0 -max_time 0.3 -s"
    )
    assert "The time that -max_time gives is up." in result.lines
    assert (folder / result.lines[-1].rpartition(" ")[2]).exists()
    run = registry.read("run_run")
    assert run.state == "out of time" and run.reason == "0.3 seconds are over" and run.iteration > 0


@pytest.mark.parametrize(
    "text, seconds", [("90", 90), ("1.5h", 5400), ("2d", 172800), ("1:30:00", 5400), ("1-00:00:01", 86401)]
)
def test_times(text, seconds):
    assert Duration().convert(text, None, None) == seconds


def test_what_is_no_time(folder, call):
    assert "found" in call("train", "-solver", "solver.prototxt", "-max_time", "soon").err


# The run that continues


def test_the_command_that_goes_on_is_shown(folder, call):
    """Complete, as a shell takes it, and it works."""
    os.rename("solver.prototxt", "my solver.prototxt")
    result = call(
        "train '-solver=my solver.prototxt' -set base_lr=0.02 -set value.type=InnerProduct -iterations 3 "
        '-record "it\'s here" -eager'
    )
    expected = "To continue: caffelite train -solver 'my solver.prototxt' "
    assert result.lines[-1].startswith(expected), result.lines
    words = shlex.split(result.lines[-1].removeprefix("To continue: "))
    assert words[:2] == ["caffelite", "train"] and words[-2:] == ["-snapshot", "run_iter_3.solverstate"]
    assert {"-eager", "it's here", "base_lr=0.02"} < set(words) and "-forgive" not in words
    again = call(*words[1:])
    assert again.status == 0 and "Resuming from run_iter_3.solverstate" in again.lines
    assert again.lines[-1].endswith("-snapshot run_iter_6.solverstate") and again.lines[-1].count("-snapshot") == 1


def test_the_command_of_an_automatic_resume_is_the_same(folder, call):
    result = call("train", "-solver", "solver.prototxt", "-resume", "auto", "-iterations", "3")
    assert result.lines[-1] in [
        f"To continue: caffelite train {words}"
        for words in (
            "-solver solver.prototxt -resume auto -iterations 3",
            "-solver solver.prototxt -iterations 3 -resume auto",
        )
    ]


def test_weights_are_no_part_of_going_on(folder, call):
    call("train", "-solver", "solver.prototxt")
    result = call("train", "-solver", "solver.prototxt", "-weights", "run_iter_20.caffemodel", "-iterations", "3")
    words = "caffelite train -solver solver.prototxt -iterations 3 -snapshot run_iter_3.solverstate"
    assert result.lines[-1] == f"To continue: {words}"


def test_the_log_says_which_run_goes_on(folder, call):
    first = call("train", "-solver", "solver.prototxt", "-iterations", "10").lines
    again = call("train", "-solver", "solver.prototxt", "-resume", "auto").lines
    begun = next(line for line in first if " begins; snapshots: run_iter_*" in line).split()[1]
    goes_on = next(line for line in again if " resumes from run_iter_10.solverstate; snapshots: run_iter_*" in line)
    assert goes_on.startswith(f"Run {begun} (of 2")


def test_an_earlier_runs_snapshots_join_its_records(folder, call):
    call("train", "-solver", "solver.prototxt")
    second = call("train", "-solver", "solver.prototxt").lines
    assert sum(line.endswith(": moved to run_run_1") for line in second) == 4
    assert {"run.json", "metrics.csv", "run_iter_20.solverstate", "run_iter_10.caffemodel"} < {
        p.name for p in folder.glob("run_run_1/*")
    }
    call("train", "-solver", "solver.prototxt")
    assert (folder / "run_run_2/run_iter_20.solverstate").exists() and not (folder / "run_run_3").exists()


def test_a_prefix_that_is_a_folder_is_reported(folder, call):
    (folder / "pictures").mkdir()
    reported = "snapshot_prefix pictures is a folder: snapshots and records are written into it, next to its files"
    for prefix, says in (("pictures", True), ("pictures/", False), ("pictures/run", False)):
        result = call("train", "-solver", "solver.prototxt", "-set", f"snapshot_prefix={prefix}", "-iterations", "1")
        assert result.status == 0 and (reported in result.err) == says


def test_records_of_another_run_are_not_gone_on_in(folder, call):
    """A run that is resumed after a new one began has the folder of the new one renamed, and continues in one of its
    own."""
    call("train", "-solver", "solver.prototxt")
    call("train", "-solver", "solver.prototxt", "-iterations", "3")
    assert call("train -solver solver.prototxt -snapshot run_iter_20.solverstate -set max_iter=22").status == 0
    sessions = {
        p.parent.name: [s["iteration"] for s in json.loads(p.read_text())["sessions"]]
        for p in folder.glob("run_run*/run.json")
    }
    assert sessions == {"run_run": [20], "run_run_1": [0], "run_run_2": [0]}


def test_a_solver_without_a_rate_is_an_error_where_it_learns(folder, call):
    text = re.sub(r"base_lr: \S+", "", (folder / "solver.prototxt").read_text())
    (folder / "solver.prototxt").write_text(text)
    assert "no base_lr: nothing would be learned" in call("train -solver solver.prototxt").refused.err
    checked = call("check solver.prototxt")
    assert checked.status == 0 and "lint: no base_lr: the rate is 0" in checked.out


@pytest.mark.parametrize("name", ["mine", "file"])
def test_only_folders_of_runs_make_way_for_records(folder, call, name):
    (folder / "mine").mkdir()
    (folder / "mine/notes.txt").write_text("precious")
    (folder / "file").write_text("precious")
    error = call(f"train -solver solver.prototxt -record {name}").refused.err
    assert f"the records of the run cannot take the place of {name}, which is no folder of a run" in error
    assert (folder / "mine/notes.txt").exists() and (folder / "file").exists() and not (folder / f"{name}_1").exists()
    assert call("train -solver solver.prototxt -record run").status == 0
    assert call("train -solver solver.prototxt -record run").status == 0
    assert (folder / "run/run.json").exists() and (folder / "run_1/run.json").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"sessions": 3}', '{"sessions": [1]}'])
def test_records_that_cannot_be_read_are_renamed(folder, call, text):
    call("train", "-solver", "solver.prototxt", "-iterations", "3")
    (folder / "run_run/run.json").write_text(text)
    result = call("train", "-solver", "solver.prototxt", "-resume", "auto")
    assert result.status == 0 and (folder / "run_run_1/run.json").read_text() == text


def test_an_overfit_run_writes_nothing_when_it_is_stopped(folder, call):
    result = call("train -solver solver.prototxt -overfit 1 -set max_iter=100000000 -max_time 0.3s")
    assert result.status == 0 and "Optimization stopped early." in result.lines
    assert not list(folder.glob("*run*")) + list(folder.glob(".run*"))


def test_a_gpu_that_the_solver_names_twice(folder, call, monkeypatch):
    monkeypatch.delenv("NCCL_MULTI_RANK_GPU_ENABLE", raising=False)
    text = (folder / "solver.prototxt").read_text() + "solver_mode: GPU device_id: [0, 0]"
    (folder / "solver.prototxt").write_text(text)
    said = call("train -solver solver.prototxt").refused.err
    assert "solver_mode: GPU names GPU 0 more than once; expected each GPU once, found 0,0" in said
    assert said.rstrip().endswith("run on the CPU: -set solver_mode=CPU") and "-gpu" not in said


@pytest.mark.parametrize("text, option, ids", [("[1, 3]", None, [1, 3]), ("2", None, [2]), ("[1, 3]", "0", [0])])
def test_gpus_of_the_solver(text, option, ids):
    solver = prototxt.parse(f"solver_mode: GPU device_id: {text}", pb.SolverParameter).message
    assert open_net.gpus(option, solver) == ids


@pytest.mark.parametrize("split", ["1", "stages=1", "shards=1", "stages=1,micro_batches=2"])
def test_a_split_over_one_device_trains_the_complete_net(folder, call, split):
    """Divided by nothing, the losses are those without -split."""
    losses = []
    for more in ([], ["-split", split]):
        result = call("train", "-solver", "solver.prototxt", "-record", "none", *more)
        assert result.status == 0 and ("-split divides nothing" in result.err) == bool(more)
        losses.append([float(x) for x in re.findall(r"Test net output #0: loss = (\S+)", result.err)])
    assert len(losses[0]) == 3 and losses[1] == pytest.approx(losses[0], rel=1e-5)
