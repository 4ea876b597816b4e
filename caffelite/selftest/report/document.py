"""The content of a report, and its two files."""

import datetime
import json
import time
from pathlib import Path
from typing import Any

from ... import __version__, stored
from ...errors import CaffeliteError
from ...runs.folder import write_atomically
from . import page, sources
from .steps import Step

FORMAT = 1
JSON, HTML = "report.json", "report.html"
ROW = {"name": str, "status": str, "seconds": float, "detail": str, "figures": {str: float}}
STEP = {
    "name": str,
    "title": str,
    "limit": float,
    "status": str,
    "seconds": float,
    "detail": str,
    "rows": [ROW],
    "passed": [str],
    "not_run": [str],
    "output": str,
}
FIELDS = {
    "format": int,
    "caffelite": str,
    "started": str,
    "state": str,
    "device": str,
    "budget": float,
    "seconds": float,
    "steps": [STEP],
}
LATER = {"sources": {str: str}}  # fields that older reports lack
WAITING, RUNNING, FINISHED = "waiting", "running", "finished"
SHARE = 0.1  # of the time at most that goes into writing


class Document:
    """A report as it grows; a change is on disk when the method returns, but names that passed may wait for ``flush``.

    The file names all steps from the beginning, so that one that ends early tells where: a step that is "running".
    """

    def __init__(self, folder: Path, steps: tuple[Step, ...], budget: float):
        self._folder, self._pending = folder, False
        self._written = self._cost = 0.0  # when the files were written, and the seconds that took
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "caffelite": __version__,
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "state": RUNNING,
            "device": "",
            "sources": sources.digests(),
            "budget": float(budget),
            "seconds": 0.0,
            "steps": [
                {"name": step.name, "title": step.title, "limit": float(step.seconds), "status": WAITING}
                | {"seconds": 0.0, "detail": "", "rows": [], "passed": [], "not_run": [], "output": ""}
                for step in steps
            ],
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._write()
        except OSError as mistake:
            what, remedy = f"no report can be written to {folder}", "name a folder that can be written"
            raise CaffeliteError(what, found=mistake.strerror, remedy=remedy) from None

    def step(self, name: str) -> dict[str, Any]:
        return next(step for step in self.content["steps"] if step["name"] == name)

    def begin(self, name: str, limit: float) -> None:
        self._change(name, status=RUNNING, limit=round(limit, 1))

    def add(self, name: str, row: dict[str, Any]) -> None:
        """A result of a step that runs: a row; the device; the names of what it will run ("planned"), or the name of
        one of these that passed."""
        step = self.step(name)
        if "device" in row:
            self.content["device"] = row["device"]
        elif "planned" in row:
            step["not_run"] = list(row["planned"])
        else:
            done = row["passed"] if "passed" in row else row["name"]
            if done in step["not_run"]:
                step["not_run"].remove(done)
            if "passed" in row:
                step["passed"].append(done)
            else:
                step["rows"].append({"figures": {}, **row})
        self._pending = True
        if "passed" not in row or time.monotonic() - self._written > self._cost / SHARE:
            self._write()

    def flush(self) -> None:
        """Writes what is not on disk yet."""
        if self._pending:
            self._write()

    def end(self, name: str, status: str, seconds: float, detail: str = "", output: str = "") -> None:
        self._change(name, status=status, seconds=round(seconds, 2), detail=detail, output=output)

    def finish(self, seconds: float) -> None:
        self.content |= {"state": FINISHED, "seconds": round(seconds, 1)}
        self._write()

    def _change(self, name: str, **values: Any) -> None:
        self.step(name).update(values)
        self._write()

    def _write(self) -> None:
        begin, content = time.monotonic(), stored.finite(self.content)
        write_atomically(self._folder / JSON, json.dumps(content, indent=1) + "\n")
        write_atomically(self._folder / HTML, page.html(content))
        self._pending, self._written = False, time.monotonic()
        self._cost = self._written - begin


def read(path: Path) -> dict[str, Any]:
    """The content of a report. path: its folder, or its JSON file. Errors: CaffeliteError where it is none."""
    file = path / JSON if path.is_dir() else path
    if not file.is_file():
        remedy = "name the folder of a report, or its report.json"
        raise CaffeliteError(f"there is no report {path}", expected=f"a file {JSON}", remedy=remedy)
    return {"sources": {}, **stored.load(file, FIELDS, LATER)}
