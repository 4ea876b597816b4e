"""Copies of a checkout in which tests run without its noticing: the files that git knows or does not ignore, and the
kernels that Numba compiled for the copy it is made from."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import mutant_reach

SECOND = "slow or browser or mpi or host"  # the marks of the second tier
PASSED, NONE = 0, 5  # exit statuses of pytest: all tests passed, there were none


@dataclass
class Copy:
    """A copy of a checkout. python: the interpreter that runs its tests; before: words before each command."""

    folder: Path
    python: str = sys.executable
    before: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: Path, folder: Path, python: str, before: tuple[str, ...] = ()) -> Copy:
        """A new copy of a checkout, or the one that an earlier run made: its package's files are the checkout's."""
        known = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
        )
        for name in filter(None, known.stdout.split("\0")):
            if (root / name).is_symlink() and not (folder / name).is_symlink():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).symlink_to((root / name).readlink())
            elif (root / name).is_file():
                _renew(root / name, folder / name)
        copy = cls(folder, python, before)
        copy.check()
        return copy

    def take_kernels(self, other: Copy) -> None:
        """Makes what another copy's Numba compiled this one's."""
        if other.folder != self.folder:
            for path in other.folder.rglob("*.nbc"):
                _renew(path, self.folder / path.relative_to(other.folder))

    def environment(self, **variables: str) -> dict[str, str]:
        """The environment in which Python imports the copy's package; its caches are the copy's own."""
        site = mutant_reach.site_folder(self.folder.parent / "site")
        own = {"PYTHONPATH": f"{site}{os.pathsep}{self.folder}", "CAFFELITE_CACHE": str(self.folder.parent / "cache")}
        return {**os.environ, **own, **variables}

    def check(self) -> None:
        """Fails if Python would import another package than the copy's."""
        code = "import caffelite; print(caffelite.__file__)"
        done = subprocess.run(
            [self.python, "-c", code], cwd="/", env=self.environment(), capture_output=True, text=True, check=True
        )
        if not Path(done.stdout.strip()).is_relative_to(self.folder):
            sys.exit(f"tests in {self.folder} would import {done.stdout.strip()}: the copy must be found first")

    def pytest(self, words: Iterable[str], seconds: float, log: Path, **variables: str) -> int | None:
        """Exit status of pytest, whose output goes to a file; None if it had not ended after so many seconds, which
        ends it and all processes of its session. The words before the command may wait as long as they like."""
        limit = ["timeout", "--foreground", "--signal=KILL", f"{seconds:.0f}"]
        command = [*self.before, *limit, self.python, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", *words]
        with open(log, "w") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status = process.wait()
        finally:
            _end(process)
        return None if status in (-signal.SIGKILL, 128 + signal.SIGKILL) else status


def _end(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _renew(source: Path, target: Path) -> None:
    """Copies a file, with its time, unless the target is equal: Python and Numba tell by size and time whether what
    they compiled is current."""
    stamp = source.stat()
    if target.is_file():
        now = target.stat()
        if (now.st_size, now.st_mtime_ns) == (stamp.st_size, stamp.st_mtime_ns):
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def measure(copy: Copy, jobs: int, chunk: int = 6) -> mutant_reach.Reach:
    """Runs the fast tier's files of tests, so many at a time, and maps lines to tests. Files that an earlier call ran
    run again only if they have changed; of changes in the package it knows nothing."""
    folder = copy.folder.parent / "reach"
    folder.mkdir(exist_ok=True)
    into, source = folder.with_suffix(".coverage"), copy.folder / "caffelite"
    known = {item for run in _runs(folder) for item in mutant_reach.read(run)["files"].items()}
    files = {p.relative_to(copy.folder).as_posix(): _digest(p) for p in copy.folder.glob("tests/**/test_*.py")}
    stale = sorted(set(files.items()) - known)

    def run(number: int) -> None:
        some, name = dict(stale[number : number + chunk]), folder / f"{len(known) + number:04d}"
        variables = mutant_reach.measuring(source, name)
        copy.pytest(["-p", "mutant_reach", *some], 7200, name.with_suffix(".log"), **variables)
        mutant_reach.write(name, {**mutant_reach.read(name), "files": some})

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, range(0, len(stale), chunk)))
    if stale or not into.exists():
        mutant_reach.combine(_runs(folder), into)
    return mutant_reach.Reach(into, source)


def _runs(folder: Path) -> list[Path]:
    """The runs that ended."""
    every = [path.with_suffix("") for path in sorted(folder.glob("*.json"))]
    return [run for run in every if "files" in mutant_reach.read(run)]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
