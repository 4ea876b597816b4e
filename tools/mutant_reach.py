"""Which tests reach which lines: a plugin of pytest that measures, and the map that is read from its files.

pytest loads the plugin by `-p mutant_reach`. $MUTANT_DATA names the file of coverage data that it writes; a JSON file
beside it has what each test took and which failed. Each test is a context of coverage's, its fixtures included;
processes that a test starts write their lines under its name (see `site_folder`)."""

import contextlib
import functools
import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

DATA, TEST = "MUTANT_DATA", "MUTANT_TEST"
OWN = ".json", ".ini", ".log"  # files beside the data
CONFIG = """[run]
source = {source}
data_file = {data}
context = ${{MUTANT_TEST-}}
parallel = true
concurrency = thread, multiprocessing
disable_warnings = no-data-collected, module-not-measured, already-imported, module-not-imported, no-ctracer
"""
# Python imports it as it starts, before anything else.
SITE = """import os
if "COVERAGE_PROCESS_START" in os.environ:
    import coverage
    coverage.process_startup()
"""


def site_folder(folder: Path) -> Path:
    """A folder for $PYTHONPATH with this plugin, by which every process of Python measures where
    $COVERAGE_PROCESS_START is set."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(SITE)
    (folder / Path(__file__).name).write_text(Path(__file__).read_text())
    return folder


def read(data: Path) -> dict:
    """What stands beside a file of coverage data: seconds by test, the tests that failed."""
    file = data.with_suffix(".json")
    return json.loads(file.read_text()) if file.exists() else {"seconds": {}, "failed": []}


def write(data: Path, known: dict) -> None:
    data.with_suffix(".json").write_text(json.dumps(known))


class Recorder:
    """The plugin: a context for each test, and the outcome of each."""

    def __init__(self, coverage, file: Path):
        self.coverage, self.file, self.seconds, self.failed = coverage, file, Counter(), set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.environ[TEST] = nodeid
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        write(self.file, {"seconds": dict(self.seconds), "failed": sorted(self.failed)})


def pytest_configure(config) -> None:
    if DATA in os.environ:
        import coverage

        config.pluginmanager.register(Recorder(coverage.Coverage.current(), Path(os.environ[DATA])))


def measuring(source: Path, data: Path) -> dict[str, str]:
    """Environment variables of a process of pytest that measures, whose PYTHONPATH has `site_folder`."""
    config = data.with_suffix(".ini")
    config.write_text(CONFIG.format(source=source, data=data))
    return {DATA: str(data), TEST: "", "COVERAGE_PROCESS_START": str(config)}


def combine(runs: list[Path], into: Path) -> None:
    """One file of coverage data, and one of JSON beside it, of those that several processes of pytest wrote."""
    import coverage

    into.unlink(missing_ok=True)
    data = [path for run in runs for path in run.parent.glob(f"{run.name}.*") if path.suffix not in OWN]
    whole = coverage.Coverage(data_file=into, config_file=False)
    whole.combine(map(str, data), keep=True)
    whole.save()
    seconds: dict[str, float] = {}
    failed: list[str] = []
    for run in runs:
        known = read(run)
        seconds |= known["seconds"]
        failed += known["failed"]
    write(into, {"seconds": seconds, "failed": failed})


class Reach:
    """The map from lines to tests. file: coverage data that `combine` wrote; source: the folder of the package that
    was measured."""

    def __init__(self, file: Path, source: Path):
        known = read(file)
        self.source, self.file, self.seconds = source, file, known["seconds"]
        self.failed = set(known["failed"])

    def _rows(self, query: str, *values: str) -> Iterator[tuple]:
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as database:
            yield from database.execute(query, values)

    @functools.cached_property
    def lines(self) -> Counter[str]:
        """Test -> how many lines of the package it reaches."""
        counts: Counter[str] = Counter()
        query = "select context, numbits from line_bits join context on context.id = context_id"
        for test, bits in self._rows(query):
            counts[test] += sum(byte.bit_count() for byte in bits)
        return counts

    @functools.cache  # noqa: B019
    def tests_by_line(self, path: str) -> dict[int, set[str]]:
        """Line of a file, relative to the package -> the tests that reach it."""
        reached: dict[int, set[str]] = defaultdict(set)
        query = """select context, numbits from line_bits join context on context.id = context_id
            join file on file.id = file_id where file.path = ?"""
        for test, bits in self._rows(query, str(self.source / path)):
            for line in numbers(bits):
                reached[line].add(test)
        return reached

    def tests(self, path: str, lines: Iterable[int]) -> list[str]:
        """The tests that reach any of the lines and passed, those of fewest lines and seconds first."""
        by_line = self.tests_by_line(path)
        reached = {test for line in lines for test in by_line.get(line, ())} & self.seconds.keys()
        return sorted(reached - self.failed, key=self.cost)

    def cost(self, test: str) -> float:
        return (0.05 + self.seconds[test]) * self.lines[test]


def numbers(bits: bytes) -> list[int]:
    """The numbers that a set of coverage's stands for: bit i of byte j is 8j + i."""
    return [8 * j + i for j, byte in enumerate(bits) for i in range(8) if byte >> i & 1]
