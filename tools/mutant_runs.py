"""Runs the tests that reach a fault, in a copy of a checkout where it is planted."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path

import mutant_faults
from mutant_copies import NONE, PASSED, SECOND, Copy
from mutant_faults import KERNELS, Fault
from mutant_reach import Reach

FIRST_TESTS, FIRST_SECONDS = 25, 10.0  # of the nearest tests, which run before whole files do
TOO_LONG = "no end after"
START, COMPILING, SLOWER = 30, 120, 4  # the time limit: seconds, seconds more in devices/cpu, times what tests took
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.*)$", re.MULTILINE)
_UNKNOWN = re.compile(r"^ERROR: (?:not found: \S*?|file or directory not found: )(tests/.*)$", re.MULTILINE)


@dataclass
class Outcome:
    """What became of a fault. caught: by which test, or how; "" if by none. tests: how many ran, in files where the
    second tier or another checkout does; reaching: the tests of the fast tier that reach the line."""

    caught: str
    tests: int
    reaching: int
    note: str = ""


class Runner:
    """Plants faults in one copy. pristine: the copy that stays as it is, whose compiled kernels are taken over."""

    def __init__(self, copy: Copy, pristine: Copy, reach: Reach, budget: float):
        self.copy, self.pristine, self.reach, self.budget = copy, pristine, reach, budget
        self._sound: set[str] = set()
        self._unsound: set[str] = set()
        self._planted = 0
        copy.take_kernels(pristine)

    def run(self, fault: Fault, tier: str) -> Outcome:
        """Runs a tier's tests that reach the fault until one fails."""
        path = self.pristine.folder / "caffelite" / fault.path
        near = tests(fault, path.read_bytes(), self.reach)
        if tier == "fast":
            return self._outcome(fault, path.read_bytes(), fault, list(self._batches(near)), len(near))
        names = files(near) + [file for file in self._unmeasured(fault.path) if file not in files(near)]
        caught = self._caught(fault, path.read_bytes(), [*names, "-m", SECOND], self.budget) if names else ""
        return _undecided(Outcome(caught, len(names), len(near)))

    def _unmeasured(self, path: str) -> list[str]:
        """The files of the second tier alone, of the folder of tests that has the name of the module's."""
        folder = self.copy.folder / "tests" / path.partition("/")[0]
        measured = set(map(file_of, self.reach.seconds))
        names = [file.relative_to(self.copy.folder).as_posix() for file in sorted(folder.glob("**/test_*.py"))]
        return [name for name in names if name not in measured]

    def _outcome(self, fault: Fault, source: bytes, moved: Fault, batches: list, reaching: int) -> Outcome:
        ran = 0
        for words, seconds in batches:
            limit = START + SLOWER * seconds + COMPILING * fault.path.startswith("devices/")
            ran += sum(word.startswith("tests/") for word in words)
            if caught := self._caught(moved, source, words, limit):
                return Outcome(caught, ran, reaching)
        return Outcome("", ran, reaching)

    def _batches(self, near: list[str]) -> Iterable[tuple[list[str], float]]:
        """Tests for one process of pytest each, and the seconds they take: the nearest, the others that reach the line,
        the others of their files, which share what fixtures and caches hold. They end with the budget."""
        seconds, left, done = self.reach.seconds, self.budget, 0.0
        first = []
        for test in near[:FIRST_TESTS]:
            if (done := done + seconds[test]) < FIRST_SECONDS or not first:
                first.append(test)
        if first:
            yield first, sum(seconds[test] for test in first)
        order = {file: i for i, file in enumerate(files(near))}
        taken, direct = set(first), set(near)
        fellows = [test for test in seconds if file_of(test) in order and test not in self.reach.failed]
        fellows.sort(key=lambda test: order[file_of(test)])
        for chosen in (lambda test: test in direct, lambda test: test not in direct):
            words, cost = [], 0.0
            for _, of_file in groupby((test for test in fellows if chosen(test) and test not in taken), key=file_of):
                some = list(of_file)
                if (more := sum(seconds[test] for test in some)) <= left:
                    words, cost, left = words + some, cost + more, left - more
            if words:
                yield words, cost

    def _caught(self, fault: Fault, source: bytes, words: list[str], limit: float) -> str:
        words = [word for word in words if word not in self._unsound]
        while any(word.startswith("tests/") for word in words):
            status, log = self._pytest(fault, source, words, limit)
            if status is None:
                return f"{TOO_LONG} {limit:.0f} s"
            if status in (PASSED, NONE):
                return ""
            if unknown := _UNKNOWN.findall(log):
                words = [word for word in words if word not in unknown]
                continue
            failed = self._failed(log)
            if "::" not in failed:
                return failed or f"exit status {status}"
            if failed in self._sound or self._passes(failed):
                return failed
            words = _without(words, failed)
        return ""

    def _failed(self, log: str) -> str:
        """The first test that failed, or the file that could not be imported; "" if none is named."""
        line = next(iter(_FAILED.findall(log)), "")
        known = [test for test in self.reach.seconds if line == test or line.startswith(f"{test} - ")]
        return max(known, key=len, default=line.partition(" - ")[0])

    def _pytest(self, fault: Fault, source: bytes, words: list[str], limit: float) -> tuple[int | None, str]:
        """Exit status and output of pytest where a fault is planted. Each file that is planted has a time of its own:
        by size and time Python and Numba tell whether what they compiled is current."""
        path, log = self.copy.folder / "caffelite" / fault.path, self.copy.folder.with_suffix(".log")
        stamp = path.stat()
        self._planted += 1
        try:
            _write(path, fault.plant(source), stamp.st_mtime_ns + self._planted * 2_000_000_000)
            status = self.copy.pytest(self._argument(words), limit, log)
        finally:
            _write(path, source, stamp.st_mtime_ns)
            if fault.path.startswith("devices/"):
                self.copy.take_kernels(self.pristine)
        return status, log.read_text(errors="replace")

    def _argument(self, words: list[str]) -> list[str]:
        """Names of tests in a file: there can be more than a command line takes."""
        names = [word for word in words if word.startswith("tests/")]
        file = self.copy.folder.with_suffix(".tests")
        file.write_text("\n".join(names))
        return ["-x", f"@{file}", *(word for word in words if not word.startswith("tests/"))]

    def _passes(self, test: str) -> bool:
        """Whether a test passes without any fault."""
        words = [*self._argument([test]), "-m", "not gpu"]
        passes = self.copy.pytest(words, 1800, self.copy.folder.with_suffix(".check.log")) == PASSED
        (self._sound if passes else self._unsound).add(test)
        return passes


class BaseRunner(Runner):
    """Plants faults in a copy of another checkout, where the same text stands, and runs its whole files of tests."""

    def __init__(self, copy: Copy, package: Path, reach: Reach, budget: float):
        self.package = package
        super().__init__(copy, copy, reach, budget)

    def run(self, fault: Fault, tier: str) -> Outcome:
        own, base = self.package / fault.path, self.copy.folder / "caffelite" / fault.path
        moved = base.exists() and relocated(fault, own.read_bytes(), base.read_bytes())
        if not moved:
            return Outcome("", 0, 0, "the text is another there")
        near = files(tests(fault, own.read_bytes(), self.reach))
        batches, left = [], self.budget
        for file in near:
            seconds = sum(s for test, s in self.reach.seconds.items() if file_of(test) == file)
            if (self.copy.folder / file).exists() and seconds <= left:
                left -= seconds
                batches.append(([file], seconds + 600))
        return _undecided(self._outcome(fault, base.read_bytes(), moved, batches, len(near)))


def _undecided(outcome: Outcome) -> Outcome:
    """An outcome where nobody knows how long the tests take without the fault: a time limit has caught nothing."""
    long = outcome.caught.startswith(TOO_LONG)
    return replace(outcome, caught="", note=outcome.caught) if long else outcome


def relocated(fault: Fault, source: bytes, other: bytes) -> Fault | None:
    """The fault in another version of its file, where its lines stand once, or once with the lines around them."""
    lines = source.splitlines(keepends=True)
    last = source.count(b"\n", 0, fault.end) + 1
    for around in (0, 1, 2, 3):
        begin = max(fault.line - 1 - around, 0)
        text = b"".join(lines[begin : last + around])
        if other.count(text) == 1:
            shift = other.index(text) - len(b"".join(lines[:begin]))
            line = other.count(b"\n", 0, fault.start + shift) + 1
            return replace(fault, line=line, start=fault.start + shift, end=fault.end + shift)
        if text not in other:
            return None
    return None


def tests(fault: Fault, source: bytes, reach: Reach) -> list[str]:
    """The tests that reach a fault, the nearest first. Where coverage sees no line - in a function that Numba compiles,
    in a script that runs isolated from the environment - they are those that run any function of its module or of one
    that imports it; where a line runs as its module is imported, any function of the module."""
    how, lines = mutant_faults.reach(fault.path, source, fault.line)
    near = _own_first(fault.path, reach.tests(fault.path, lines))
    hidden = how == "compiled" or b'__name__ == "__main__"' in source
    if near or (how == "lines" and not hidden):
        return near
    modules = _importers(reach.source, fault.path) if hidden else [fault.path]
    near = sorted({test for path in modules for test in _tests_of_functions(reach, path)}, key=reach.cost)
    return _own_first(fault.path, near)


def _own_first(path: str, near: list[str]) -> list[str]:
    """Tests in the order of their costs, but at first those of the folder of tests that has the name of the module's:
    other tests run a line that all nets run without a look at what it does."""
    folder = f"tests/{path.partition('/')[0]}/"
    return sorted(near, key=lambda test: not test.startswith(folder))


@cache
def _tests_of_functions(reach: Reach, path: str) -> list[str]:
    return reach.tests(path, mutant_faults.lines_of_functions((reach.source / path).read_bytes()))


@cache
def _importers(package: Path, path: str) -> list[str]:
    """A module, and those beside it and in the folder above that import it; directly, or by way of other kernels."""
    folder = (package / path).parent
    modules = [*folder.glob("*.py"), *(folder.parent.glob("*.py") if path.startswith(KERNELS) else ())]
    texts = {file.relative_to(package).as_posix(): file.read_text() for file in sorted(modules)}
    known, pending = {path}, [path]
    while pending:
        stem = Path(pending.pop()).stem
        new = {
            name for name, text in texts.items() if re.search(rf"import (\([^)]*|.*)\b{stem}\b|\b{stem} import", text)
        } - known
        known |= new
        pending += [name for name in new if name.startswith(KERNELS)]
    return sorted(known)


def file_of(test: str) -> str:
    return test.partition("::")[0]


def files(near: list[str]) -> list[str]:
    """The files of tests, in the order of their nearest."""
    return list(dict.fromkeys(map(file_of, near)))


def _without(words: list[str], failed: str) -> list[str]:
    if failed in words:
        return [word for word in words if word != failed]
    return [*words, f"--deselect={failed}"]


def _write(path: Path, source: bytes, time: int) -> None:
    path.write_bytes(source)
    os.utime(path, ns=(time, time))
