"""`caffelite device_query -report`: steps in processes of their own; whatever happens, the files stay whole and name
the step."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import chdir, closing, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from devices.host import installed

from caffelite import prototxt, weights
from caffelite.data.writers import write_hdf5
from caffelite.devices import cuda, open_device
from caffelite.errors import CaffeliteError
from caffelite.selftest.report import (
    STEPS,
    Request,
    Step,
    cases,
    changes,
    document,
    environment as report_environment,
    figures,
    page,
    runner,
    sources,
    tests,
    worker,
)
from caffelite.training import build_trainer

# The process of a step in these tests: it writes two rows and then does what the step's argument says.
WORKER = """
import json, os, signal, subprocess, sys, time
step, pipe = json.loads(sys.argv[1]), os.fdopen(int(sys.argv[3]), "w")
def tell(name, status="pass", **more):
    pipe.write(json.dumps({"name": name, "status": status, "seconds": 0.5, "detail": "<b>", **more}) + "\\n")
    pipe.flush()
what = step["argument"]
if what == "silent":
    open("child", "w").write(str(os.getpid()))
    time.sleep(100)
tell("first"); tell("second", figures={"ms": 2.0})
print("the output")
if what == "sleep":
    sleeps = "import time; open('ready', 'w').close(); time.sleep(100)"
    child = subprocess.Popen([sys.executable, "-c", sleeps], start_new_session=True)
    open("child", "w").write(str(child.pid))
    time.sleep(100)
if what == "close and sleep":
    pipe.close()
    open("ready", "w").close()
    time.sleep(100)
if what == "stop":
    open("ready", "w").close()
    os.kill(os.getpid(), signal.SIGSTOP)
if what == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if what == "exit":
    sys.exit(3)
if what == "wrong":
    tell("third", "fail")
if what == "part":
    pipe.write('{"name": "half')
    pipe.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def step(what: str, seconds: float = 20) -> Step:
    return Step(f"figures.{what.replace(' ', '_')}", f"the step that does: {what}", seconds, what)


@pytest.fixture
def faulty(monkeypatch, in_tmp_path):
    """Steps run by WORKER; the runner's clock jumps over their limits when one of them has come to where it stays."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 100 * Path("ready").exists())
    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(runner, "python", lambda code, *words: [sys.executable, "-c", WORKER, *words])
    return in_tmp_path


def written(folder: Path) -> dict:
    """The content of a report, from its file; the page names each of its steps."""
    content = document.read(folder)
    text = (folder / "report.html").read_text()
    assert text.endswith("</html>\n") and "<b>" not in text and "src=" not in text and "http" not in text
    assert all(page.escape(each["title"]) in text for each in content["steps"])
    assert not list(folder.glob("*.draft*"))
    return content


@pytest.mark.parametrize(
    "what, status, detail",
    [
        ("pass", "pass", "2 pass"),
        ("wrong", "fail", "2 pass, 1 fail"),
        ("sleep", "over its limit", "ended after 20 s; the last result: second"),
        ("close and sleep", "over its limit", "ended after 20 s"),
        ("stop", "over its limit", "ended after 20 s"),
        ("crash", "crashed", "by signal 11; the last result: second"),
        ("exit", "crashed", "with status 3"),
        ("part", "crashed", "by signal 9; the last result: second"),
    ],
)
def test_a_step_that_fails_costs_its_limit_alone(faulty, what, status, detail):
    limit = 20 if status == "over its limit" else 200
    content = runner.run(faulty / "r", Request(None), 500, steps=(step(what, limit), step("after", 200)))
    assert content == written(faulty / "r") and content["state"] == "finished"
    failed, after = content["steps"]
    assert failed["status"] == status and detail in failed["detail"], failed
    assert [row["name"] for row in failed["rows"]][:2] == ["first", "second"]
    assert failed["rows"][1]["figures"] == {"ms": 2.0}
    assert failed["output"].startswith("the output\n") == (status in runner.BAD)
    assert ("it stood in " in failed["detail"]) == (what in ("sleep", "close and sleep"))
    assert after["status"] == "pass"


def test_a_step_that_is_ended_leaves_no_process(faulty):
    runner.run(faulty / "r", Request(None), 60, steps=(step("sleep"),))
    child = int((faulty / "child").read_text())
    until = time.monotonic() + 60
    while Path(f"/proc/{child}/stat").exists() and Path(f"/proc/{child}/stat").read_text().split(") ")[1][0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_budget_ends_a_step_and_names_those_without_time(faulty):
    content = runner.run(faulty / "r", Request(None), 60, steps=(step("sleep", 100), step("pass"), step("after")))
    assert [each["status"] for each in content["steps"]] == ["over its limit", "no time left", "no time left"]
    assert written(faulty / "r")["steps"][0]["limit"] == pytest.approx(60, abs=0.5)


@pytest.mark.parametrize("what, rows", [("sleep", 2), ("silent", 0)])
def test_a_report_that_is_killed_names_the_step(faulty, what, rows):
    code = (
        "import sys; from pathlib import Path; from caffelite.selftest.report import runner, Request, Step;"
        "runner.python = lambda code, *words: [sys.executable, '-c', sys.argv[1], *words];"
        "steps = tuple(Step(f'figures.{w}', w, 100, w) for w in ('pass', sys.argv[2], 'after'));"
        "runner.run(Path('r'), Request(None), 300, steps=steps)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, WORKER, what], start_new_session=True)
    until = time.monotonic() + 60
    while not (faulty / "child").exists():
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    content = written(faulty / "r")
    assert [each["status"] for each in content["steps"]] == ["pass", "running", "waiting"]
    assert len(content["steps"][1]["rows"]) == rows and content["state"] == "running"
    assert "ended before its last step" in (faulty / "r/report.html").read_text()
    with suppress(ProcessLookupError):  # of a step, which ends with the report
        os.kill(int((faulty / "child").read_text()), signal.SIGKILL)


def test_many_results_are_written_together(tmp_path, monkeypatch):
    """A tenth of the time at most goes into writing; what waits is on disk soon after."""
    content, writes = document.Document(tmp_path, (Step("tests.gpu", "tests", 5),), 10), []
    write = document.write_atomically
    monkeypatch.setattr(document, "write_atomically", lambda path, text: writes.append(path) or write(path, text))
    content.add("tests.gpu", {"planned": [str(number) for number in range(500)]})
    content._cost = 60.0
    for number in range(499):
        content.add("tests.gpu", {"passed": str(number)})
    assert len(writes) == 2, "the plan"
    content.flush()
    content.flush()
    assert len(writes) == 4
    (step,) = written(tmp_path)["steps"]
    assert len(step["passed"]) == 499 and step["not_run"] == ["499"]


def test_a_folder_that_cannot_be_written(in_tmp_path):
    (in_tmp_path / "file").write_text("")
    with pytest.raises(CaffeliteError, match="no report can be written to file"):
        runner.run(Path("file"), Request(None), 10, steps=())


def test_steps_have_names_of_their_own_and_a_function_each():
    assert len({each.name for each in STEPS}) == len(STEPS) > 20
    assert all(each.group in worker.GROUPS for each in STEPS)
    assert [each.group for each in STEPS[:3]] == ["environment", "kernels", "selftest"]


def test_an_error_is_a_row():
    def breaks():
        yield {"name": "one", "status": "pass", "seconds": 0, "detail": ""}
        raise ValueError("two\nlines")

    rows = list(worker.guarded("all", breaks))
    assert [row["status"] for row in rows] == ["pass", "fail"] and rows[1]["detail"] == "two lines"


CONTROL = """#!/bin/sh
echo "$CUDA_MPS_PIPE_DIRECTORY $*" >> calls
[ "$1" = -d ] || cat >> calls
"""


@pytest.mark.parametrize("first, second", [("wrong", "pass"), ("pass", "pass"), ("wrong", "wrong")])
def test_the_multi_process_service_serves_ranks_that_fail(faulty, monkeypatch, first, second):
    """It is started for the second try, serves the later ranks if that passes, and ends with the report."""
    (faulty / "nvidia-cuda-mps-control").write_text(CONTROL)
    (faulty / "nvidia-cuda-mps-control").chmod(0o755)
    monkeypatch.setenv("PATH", f"{faulty}:{os.environ['PATH']}")
    served = WORKER + 'tell("service", detail=os.environ.get("CUDA_MPS_PIPE_DIRECTORY", ""))'
    monkeypatch.setattr(runner, "python", lambda code, *words: [sys.executable, "-c", served, *words])
    names = (runner.EXCHANGE, first), (runner.EXCHANGE_MPS, second), ("ranks.later", "pass")
    content = runner.run(faulty / "r", Request(0), 60, steps=tuple(Step(n, n, 20, what) for n, what in names))
    folders = [step["rows"][-1]["detail"] if step["rows"] else None for step in content["steps"]]
    if first == "pass":
        assert content["steps"][1]["status"] == "skipped" and folders[2] == "" and not Path("calls").exists()
        return
    assert folders[0] == "" and folders[1] and folders[2] == (folders[1] if second == "pass" else "")
    assert Path("calls").read_text() == f"{folders[1]} -d\n{folders[1]} \nquit\n"
    assert not Path(folders[1]).exists()


def test_steps_get_absolute_paths(faulty, monkeypatch):
    names = "CAFFELITE_NCCL", "CAFFELITE_KERNELS"
    told = "".join(f'tell("{name}", detail=os.environ.get("{name}", ""))\n' for name in names)
    monkeypatch.setattr(runner, "python", lambda code, *words: [sys.executable, "-c", WORKER + told, *words])
    monkeypatch.setenv("CAFFELITE_NCCL", "lib/libnccl.so.2")
    monkeypatch.delenv("CAFFELITE_KERNELS", raising=False)
    (content,) = runner.run(Path("r"), Request(0), 60, steps=(step("pass"),))["steps"]
    details = [row["detail"] for row in content["rows"][2:]]
    assert details == [str(faulty / "lib/libnccl.so.2"), str(faulty / "r/kernels")]


@pytest.mark.parametrize("status, result", [(0, "pass"), (1, "fail"), (2, "skipped")])
def test_the_row_of_all_kernels(monkeypatch, tmp_path, status, result):
    """By the tool's status and last line; without a compiler there is nothing to fail."""
    (tmp_path / "tools").mkdir()
    text = f"import sys; print(*sys.argv[1:]); print('why', file=sys.stderr); sys.exit({status})"
    (tmp_path / "tools/compile_kernels.py").write_text(text)
    facts = {"Major revision number": 9, "Minor revision number": 0}
    monkeypatch.setattr(report_environment, "ROOT", tmp_path)
    monkeypatch.setattr(cuda, "describe", lambda number: facts)
    monkeypatch.setenv("CAFFELITE_KERNELS", "folder")
    (row,) = report_environment.kernels(Request(0))
    assert (row["status"], row["detail"]) == (result, "why" if status else "folder -arch 90")
    assert row["figures"]["compilation_s"] > 0


def test_figures_of_a_net_that_fails(tmp_path, monkeypatch):
    """What it measured before stays, and its last line is a row."""
    (tmp_path / "tools").mkdir()
    rows = 'print(\'{"name": "lenet", "detail": "2 ms", "ms": 2.0}\', flush=True)'
    (tmp_path / "tools/gpu_figures.py").write_text(f"import sys; {rows}; sys.exit('no memory')")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    measured, failed = figures.of_net(Request(0), "lenet", "fp16")
    assert (measured["status"], measured["figures"]) == ("pass", {"ms": 2.0})
    assert (failed["name"], failed["status"], failed["detail"]) == ("lenet, fp16", "fail", "no memory")
    (skipped,) = figures.of_net(Request(None), "lenet", "fp16")
    assert skipped["status"] == "skipped"


# Comparison


def report(folder: Path, *rows: dict, status: str = "pass") -> dict:
    content = document.Document(folder, (Step("cases", "cases", 5),), 10)
    for row in rows:
        plain = "planned" in row or "passed" in row
        content.add("cases", row if plain else {"seconds": 1.0, "detail": "", "status": "pass", **row})
    content.end("cases", status, 1)
    return document.read(folder)


def test_changes_between_two_reports(tmp_path):
    tests = {"planned": ["t", "u"]}, {"passed": "t"}
    old = report(tmp_path / "a", {"name": "x", "figures": {"ms": 2.0}}, {"name": "y"}, {"name": "gone"}, *tests)
    assert old["steps"][0]["not_run"] == ["u"] and old["steps"][0]["passed"] == ["t"]
    new = report(
        tmp_path / "b",
        {"name": "t", "status": "skipped"},
        {"name": "x", "figures": {"ms": 3.0}},
        {"name": "y", "status": "fail", "detail": "off by 2"},
        {"name": "more", "figures": {"ms": 1.0}},
        status="fail",
    )
    assert changes(old, new) == [
        "cases: pass -> fail",
        "cases: x: ms 2 -> 3 (+50%)",
        "cases: y: pass -> fail: off by 2",
        "cases: gone: gone (pass)",
        "cases: t: pass -> skipped",
        "cases: more: new (pass)",
    ]
    assert changes(old, old) == []


# The functions of steps


NET = """layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }"""


def trained(solver: str) -> None:
    Path("solver.prototxt").write_text(solver)
    read = prototxt.read_solver("solver.prototxt")
    with closing(build_trainer(read.message, read.locate, "solver.prototxt", open_device())) as trainer:
        if Path("init.caffemodel").exists():
            trainer.net.load(weights.read_model("init.caffemodel"), "init.caffemodel")
        trainer.solve()


def test_reference_cases(in_tmp_path):
    """One of three has the weights of another rate; the time does not reach the others."""
    rng = np.random.default_rng(1)
    solver = 'net: "net.prototxt" base_lr: %g lr_policy: "fixed" max_iter: %d snapshot_prefix: "out" '
    for name, rate in (("a_right", 0.1), ("b_wrong", 0.3), ("c_right", 0.1)):
        folder = in_tmp_path / "cases" / name
        folder.mkdir(parents=True)
        with chdir(folder):
            write_hdf5(folder / "rows.h5", {"x": rng.standard_normal((8, 3)), "y": rng.standard_normal((8, 2))})
            Path("rows.txt").write_text("rows.h5")
            Path("net.prototxt").write_text(NET)
            trained(solver % (0.1, 1))
            Path("out_iter_1.caffemodel").rename("init.caffemodel")
            trained(solver % (rate, 3))
            Path("out_iter_3.caffemodel").rename("expected.caffemodel")
            Path("solver.prototxt").write_text(solver % (0.1, 3))
            Path("case.json").write_text(json.dumps({"iterations": 3, "tolerance": 1e-5}))
    rows = list(cases.rows(Request(None, str(in_tmp_path / "cases")), 60))
    assert rows[:2] == [{"planned": ["a_right", "b_wrong", "c_right"]}, {"passed": "a_right"}]
    failed, total = (row for row in rows if "status" in row)
    assert failed["name"] == "b_wrong" and re.search('layer "value", blob 0: off by 0.*at most 1e-05', failed["detail"])
    assert total["detail"] == "2 of 3 cases end with Caffe's weights"
    late = list(cases.rows(Request(None, str(in_tmp_path / "cases")), 0))
    assert len(late[0]["planned"]) == 3 and late[-1]["figures"] == {"agreed": 0} and len(late) == 2


TESTS = """
import pytest
@pytest.mark.gpu
def test_before(): pass
@pytest.mark.gpu
def test_wrong(): assert 1 == 2
@pytest.mark.gpu
def test_skipped(): pytest.skip("no such thing")
@pytest.mark.gpu
def test_new(): pass
def test_of_the_cpu(): assert False
"""


def test_tests_of_gpus_run_by_worth(tmp_path, monkeypatch):
    """Those that passed before run last; each result comes at once, with the names of those that are left."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_some.py").write_text(TESTS)
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\nmarkers =\n    gpu: x\n")
    monkeypatch.setattr(tests, "ROOT", tmp_path)
    rows = list(tests.rows("gpu", Request(0, old=("tests/test_some.py::test_before",)), 60))
    names = [row.get("name", row.get("passed", "")).partition("::")[2] for row in rows]
    assert names == ["", "test_wrong", "test_skipped", "test_new", "test_before", ""]
    assert len(rows[0]["planned"]) == 4
    wrong, skipped, total = (row for row in rows if "status" in row)
    assert wrong["status"] == "fail" and "assert 1 == 2" in wrong["detail"]
    assert (skipped["status"], skipped["detail"]) == ("skipped", "Skipped: no such thing")
    assert total["detail"] == "2 passed, 0 did not run"
    first, total = (row for row in tests.rows("gpu", Request(0), 0) if "planned" not in row)
    assert first == {"passed": "tests/test_some.py::test_before"} and total["detail"] == "1 passed, 3 did not run"


def test_tests_of_what_changed_run_before_the_others_that_passed(tmp_path, monkeypatch):
    for folder in ("families/ssd", "net"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        name = f"tests/{folder}/test_{folder.replace('/', '_')}.py"
        (tmp_path / name).write_text("import pytest\n@pytest.mark.gpu\ndef test_it():\n    pass\n")
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\nmarkers =\n    gpu: x\n")
    monkeypatch.setattr(tests, "ROOT", tmp_path)
    both = "tests/families/ssd/test_families_ssd.py::test_it", "tests/net/test_net.py::test_it"
    for changed, first in (("families/ssd", both[0]), ("net", both[1])):
        planned, *_ = tests.rows("gpu", Request(0, old=both, changed=(changed,)), 60)
        assert planned["planned"][0] == first


def test_a_report_knows_the_parts_of_the_package_that_changed(tmp_path):
    for name in ("net/a.py", "families/ssd/b.py", "devices/cuda/c.py", "errors.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    before = sources.digests(tmp_path)
    assert set(before) == {"net", "families/ssd", "devices/cuda", "errors"}
    (tmp_path / "families/ssd/b.py").write_text("x = 2\n")
    (tmp_path / "net/new.py").write_text("")
    (tmp_path / "roots.py").write_text("")
    after = sources.digests(tmp_path)
    assert sources.changed(before, after) == ["families/ssd", "net", "roots"]
    assert sources.changed({}, after) == []


# The command on the stand-in


RANKS = "ranks.exchange_2", "ranks.a_captured_sum_over_gpus_and_a_clean_exit"


def rehearse(folder: Path, names: tuple[str, ...], seconds: float = 60, **variables: str) -> dict:
    """Runs some steps in a process whose GPU the host stands in for."""
    code = (
        "import sys; from pathlib import Path; from dataclasses import replace;"
        "from caffelite.selftest.report import STEPS, Request, runner; names = sys.argv[2].split();"
        "steps = tuple(replace(s, seconds=float(sys.argv[3])) for s in STEPS if s.name in names);"
        "runner.run(Path(sys.argv[1]), Request(0), 400, steps=steps)"
    )
    environment = installed.environment(STAND_IN_SMALL="1", **variables)
    words = [sys.executable, "-c", code, str(folder), " ".join(names), str(seconds)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return written(folder)


@pytest.mark.host
@pytest.mark.slow
def test_the_first_steps_pass_on_the_stand_in(tmp_path):
    names = "environment", *RANKS, "ranks.a_net_over_gpus_stages_2", "ranks.exchange_4", "ranks.exchange_2_mps"
    content = rehearse(tmp_path / "r", names, 200)  # seconds, for a machine that others use too
    assert content["device"] == "GPU 0: Stand-in"
    status = {each["name"]: each["status"] for each in content["steps"]}
    assert status.pop("ranks.exchange_2_mps") == "skipped"
    assert [
        (each["detail"], each["rows"]) for each in content["steps"] if each["status"] not in ("pass", "skipped")
    ] == []
    rows = {row["name"]: row["detail"] for each in content["steps"] for row in each["rows"]}
    assert rows["NCCL as loaded"] == "2.32.3" and "NCCL_MULTI_RANK_GPU_ENABLE=1" in rows["variables"]


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, status, report",
    [
        ("plan", "fail", r"rank \d calls allReduce \d+ while rank \d calls allReduce \d+"),
        ("order", "fail", "rank 0 calls allReduce 1000 while rank 1 calls send 1"),
        (
            "resident",
            "fail",
            r"they do not end; rank 0: .*queue.py:\d+ get .*; rank 1: communicator.py:\d+ _break ",
        ),
    ],
)
def test_faults_of_ranks_are_named(tmp_path, fault, status, report):
    content = rehearse(tmp_path / "r", ("environment", *RANKS), 15, STAND_IN_FAULT=fault)
    passed, exchange, trained = content["steps"]
    assert passed["status"] == "pass"
    assert exchange["status"] == status, exchange
    assert re.search(report, exchange["detail"] + " ".join(row["detail"] for row in exchange["rows"])), exchange
    assert trained["status"] in ("fail", "over its limit")


@pytest.mark.host
@pytest.mark.slow
def test_without_permission_ranks_are_skipped(tmp_path):
    content = rehearse(tmp_path / "r", RANKS, NCCL_MULTI_RANK_GPU_ENABLE="0")
    assert [each["status"] for each in content["steps"]] == ["skipped", "skipped"]
    assert "NCCL_MULTI_RANK_GPU_ENABLE=1" in content["steps"][0]["rows"][0]["detail"]
