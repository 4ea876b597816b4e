"""`caffelite device_query -test`: its table, its JSON, its exit status."""

import json

import pytest

from caffelite import selftest
from caffelite.devices import gpu
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
    monkeypatch.setattr(gpu, "count", lambda: 2)
    monkeypatch.setattr(gpu, "describe", lambda number: {"Device id": number, "Name": "Fake"})
    each = selftest.run
    monkeypatch.setattr(selftest, "run", lambda bench: each(bench, checks))
    answer = call("device_query", "-test", *(["-json"] if as_json else []))
    assert answer.status == status
    if as_json:
        found = json.loads(answer.out)
        assert [one["device"] for one in found] == ["GPU 0: Fake", "GPU 1: Fake"]
        assert [c["status"] for c in found[0]["checks"]] == ["pass", "fail"][: len(checks)]
        assert found[1]["properties"] == {"Device id": 1, "Name": "Fake"} and found[0]["checks"][0]["detail"] == "as it should"
    else:
        lines = answer.out.splitlines()
        assert lines[0] == "GPU 0: Fake" and lines[1].split()[0] == "pass" and lines[1].endswith("as it should")
        assert f"1 passed, {len(checks) - 1} failed, 0 skipped" in answer.out


def test_without_a_gpu_the_cpu_is_tested(call, monkeypatch):
    monkeypatch.setattr(gpu, "count", lambda: 0)
    monkeypatch.setattr(gpu, "why_none", lambda: "no usable GPU")
    each, numbers = selftest.run, []
    monkeypatch.setattr(selftest, "run", lambda bench: numbers.append(bench.number) or each(bench, (check_passes,)))
    answer = call("device_query", "-test")
    assert answer.status == 0 and answer.out.splitlines()[:2] == ["no usable GPU", "CPU"] and numbers == [None]
