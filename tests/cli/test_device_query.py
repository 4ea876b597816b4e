"""`caffelite device_query -test`: its table, its JSON, its exit status."""

import json

import pytest

from caffelite import selftest
from caffelite.cli.device_query import LEFT, _line
from caffelite.devices import cuda
from caffelite.selftest import Wrong


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
