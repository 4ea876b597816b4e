"""The project's own tests of GPUs, by worth, as far as the time reaches: what never passed on a GPU comes first."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...system import HOME
from .environment import row
from .steps import ROOT, Request

# Worth: answers of whole nets; how ranks end and resume (other steps show that they train as one); layer types that are
# new, which stand last in the changelog; whole trainings; the rest.
NEW = "AbsLoss BNConv CustomData DataAugmentation DenseBlock FlowAugmentation GenerateAugmentationParameters GroupNorm "
NEW += "HashingLoss MatWrite Mul PixelShuffle Pooling3D ResizeNearestNeighbor SpatialWta Warp"
RANKS = "captured_rank layer_that_fails signal_stops snapshot_continues test_nets_of_ranks".split()
FIRST = (
    "test_gpu_answers",
    *RANKS,
    *(f"gpu-{name}]" for name in NEW.split()),
    "training/",
    "test_golden_host",
    "devices/",
)
ENDED = 0, 1, 2  # pytest's status: all passed, some failed, the time was over
UNTIL = "CAFFELITE_REPORT_UNTIL"
PIPE, ORDER = "CAFFELITE_REPORT_PIPE", "CAFFELITE_REPORT_ORDER"


def rows(mark: str, request: Request, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each test that fails or skips, one for all that pass, and the names of those that did not run. No test
    starts after so many seconds."""
    if request.gpu is None or not (ROOT / "tests").is_dir() or not importlib.util.find_spec("pytest"):
        why = "a CPU has none" if request.gpu is None else "the tests or pytest are not installed here"
        yield row(f"tests, {mark}", why, "skipped")
        return
    places = ["tests/parallel/test_gpus.py"] if mark == "multi_gpu" else ["tests"]
    words = [sys.executable, "-m", "pytest", "-p", "caffelite.selftest.report.tests", "-m", mark, "-q", *places]
    words += ["-o", "addopts=--strict-markers", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words += ["--continue-on-collection-errors"]
    reader, writer = os.pipe()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as order:
        json.dump([request.old, request.changed], order)
        order.flush()
        paths = os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, PIPE: str(writer), ORDER: order.name, "PYTHONPATH": paths}
        environment[UNTIL] = str(time.monotonic() + seconds)
        process = subprocess.Popen(words, env=environment, cwd=ROOT, pass_fds=[writer])
        os.close(writer)
        yield from _counted(reader, mark)
        if (status := process.wait()) not in ENDED:
            yield row(f"pytest -m {mark}", f"ended with status {status}", "fail")


def _counted(reader: int, mark: str) -> Iterator[dict[str, Any]]:
    left: set[str] = set()
    passed, seconds = 0, 0.0
    with os.fdopen(reader) as lines:
        for line in lines:
            message = json.loads(line)
            if "planned" in message:
                left = set(message["planned"])
                yield message
                continue
            left.discard(message["name"])
            seconds += message["seconds"]
            if message["status"] == "pass":
                passed += 1
                yield {"passed": message["name"]}
            else:
                yield {**message, "figures": {}}
    detail = f"{passed} passed, {len(left)} did not run"
    yield row(f"tests, {mark}", detail, "pass" if passed else "fail", seconds, passed=passed)


# The plugin within pytest

_session: list[Any] = []


def pytest_collection_finish(session) -> None:
    """Sorts the tests: those that passed in an older report last, and of these those of parts that changed since then
    first; the first of FIRST first."""
    before, changed = (set(names) for names in json.loads(Path(os.environ[ORDER]).read_text()))

    def worth(item) -> tuple[int, int]:
        place = next((i for i, word in enumerate(FIRST) if word in item.nodeid), len(FIRST))
        is_changed = any(f"tests/{part}/" in item.nodeid for part in changed)
        return (2 - is_changed if item.nodeid in before else 0), place

    session.items.sort(key=worth)
    _session.append(session)
    _tell({"planned": [item.nodeid for item in session.items]})


def pytest_runtest_logreport(report) -> None:
    if time.monotonic() > float(os.environ[UNTIL]):
        _session[0].shouldstop = "the time is over"
    ended = report.when == "call" or report.outcome != "passed"
    if not ended or (report.when == "teardown" and report.outcome == "passed"):
        return
    status = {"passed": "pass", "failed": "fail", "skipped": "skipped"}[report.outcome]
    detail = ""
    if status != "pass":
        detail = " ".join(str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).split())[
            -300:
        ]
    _tell({"name": report.nodeid, "status": status, "seconds": report.duration, "detail": detail})


def _tell(message: dict[str, Any]) -> None:
    os.write(int(os.environ[PIPE]), (json.dumps(message) + "\n").encode())
