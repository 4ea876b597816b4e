"""`caffelite device_query -test`: its table, its JSON, its exit status; -report and -compare."""

import json
import re
import sys

import pytest

from caffelite import selftest
from caffelite.cli.device_query import LEFT, _line
from caffelite.devices import cuda
from caffelite.selftest import Wrong, report
from caffelite.selftest.report import runner


def check_passes(bench):
    """passes"""
    return "as it should"


def check_fails(bench):
    """fails"""
    raise Wrong("not so")


@pytest.mark.parametrize("checks, status", [((check_passes,), 0), ((check_passes, check_fails), 1)])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_table_and_the_status(call, monkeypatch, checks, status, as_json):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(cuda, "count", lambda: 2)
    monkeypatch.setattr(cuda, "describe", lambda number: {"Device id": number, "Name": "Fake"})
    each = selftest.run
    monkeypatch.setattr(selftest, "run", lambda bench: each(bench, checks))
    result = call("device_query", "-test", *(["-json"] if as_json else []))
    assert result.status == status
    if as_json:
        actual = json.loads(result.out)
        assert [one["device"] for one in actual] == ["GPU 0: Fake", "GPU 1: Fake"]
        assert [c["status"] for c in actual[0]["checks"]] == ["pass", "fail"][: len(checks)]
        assert actual[1]["properties"] == {"Device id": 1, "Name": "Fake"}
        assert actual[0]["checks"][0]["detail"] == "as it should"
    else:
        lines = result.out.splitlines()
        assert lines[0] == "GPU 0: Fake" and lines[1].split()[0] == "pass" and lines[1].endswith("as it should")
        assert f"1 passed, {len(checks) - 1} failed, 0 skipped" in result.out


@pytest.mark.parametrize(
    "broken, status, said", [(False, 0, "this machine has no NVIDIA GPU"), (True, 1, "no usable GPU")]
)
def test_without_a_usable_gpu_the_cpu_is_tested(call, monkeypatch, broken, status, said):
    """A GPU that cannot be used is a failure all the same."""
    monkeypatch.setattr(cuda, "count", lambda: 0)
    monkeypatch.setattr(cuda, "present", lambda: broken)
    monkeypatch.setattr(cuda, "why_none", lambda: "no usable GPU")
    each, numbers = selftest.run, []
    monkeypatch.setattr(selftest, "run", lambda bench: numbers.append(bench.number) or each(bench, (check_passes,)))
    result = call("device_query", "-test")
    assert result.status == status and said in result.err and result.out.startswith("CPU\n") and numbers == [None]


@pytest.mark.parametrize("columns, lines", [("100", 2), ("80", 1), ("400", 1)])
def test_a_long_detail_is_wrapped_on_a_terminal(monkeypatch, columns, lines):
    """Under the last column, where there is room for one."""
    monkeypatch.setenv("COLUMNS", columns)
    actual = _line(selftest.Row("name", "pass", 1.0, "one of many words " * 3)).splitlines()
    assert len(actual) == lines and all(line[:LEFT].strip() == "" for line in actual[1:])


def written(folder, ms: float) -> None:
    """A report with one figure."""
    content = report.Document(folder, (report.Step("cases", "cases", 5),), 10)
    content.add("cases", {"name": "x", "status": "pass", "seconds": 1.0, "detail": "", "figures": {"ms": ms}})
    content.add("cases", {"passed": "test_a"})
    content.end("cases", "pass", 1)


def test_reports_are_compared(call, in_tmp_path):
    for name, ms in (("a", 2.0), ("b", 2.04), ("c", 4.0)):
        written(in_tmp_path / name, ms)
    assert call("device_query -compare a -compare b/report.json").ok.out == "nothing changed\n"
    assert call("device_query -compare a -compare c").ok.out == "cases: x: ms 2 -> 4 (+100%)\n"
    assert json.loads(call("device_query -compare a -compare c -json").ok.out)["changes"] == [
        "cases: x: ms 2 -> 4 (+100%)"
    ]


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_a_report_is_written_and_compared(call, in_tmp_path, monkeypatch, status):
    """It learns what passed in the older one; its status is 1 where a step failed."""
    written(in_tmp_path / "old", 2.0)
    asked = []

    def run(folder, request, seconds, tell):
        asked.append((request, seconds))
        content = report.Document(folder, (report.Step("cases", "cases", 5),), seconds)
        tell(content.step("cases"), {"name": "x", "status": status, "seconds": 1.0, "detail": "so"})
        content.add("cases", {"name": "x", "status": status, "seconds": 1.0, "detail": "so"})
        content.end("cases", status, 1)
        tell(content.step("cases"), None)
        content.finish(1)
        return content.content

    monkeypatch.setattr(cuda, "count", lambda: 1)
    monkeypatch.setattr(report, "run", run)
    result = call("device_query -report new -compare old -seconds 99")
    assert asked == [(report.Request(0, "", ("test_a",)), 99.0)] and result.status == (status == "fail")
    assert re.search(rf"{status} .* x +so\ncases: {status}, 1\.0 s", result.out)
    assert ("cases: x: pass -> fail: so" in result.out) == (status == "fail") and "new/report.html" in result.out
    assert status in ("pass", *runner.BAD)


@pytest.mark.parametrize(
    "words, said",
    [
        ("-compare a", "-compare takes one report beside -report, or two without it"),
        ("-compare a -compare nowhere", "there is no report nowhere"),
        ("-compare a -compare damaged", "report.json cannot be read"),
        ("-report r -gpu 0,1", "-report takes one GPU; found -gpu 0,1; use one: -gpu 0"),
        ("-report r", "-report needs a GPU; found this machine has no NVIDIA GPU; test the CPU: device_query -test"),
        ("-report r -test", "-test and -report exclude each other"),
        ("-cases a", "-cases goes with -report"),
    ],
)
def test_mistakes_of_reports(call, in_tmp_path, monkeypatch, words, said):
    written(in_tmp_path / "a", 1.0)
    (in_tmp_path / "damaged").mkdir()
    (in_tmp_path / "damaged/report.json").write_text("{")
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(cuda, "present", lambda: False)
    assert re.search(said, call(f"device_query {words}").refused.err)
    assert not (in_tmp_path / "r").exists()
