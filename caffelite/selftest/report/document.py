"""The content of a report, and its two files."""

import datetime
import json
from pathlib import Path
from typing import Any

from ... import __version__, stored
from ...errors import CaffeliteError
from ...runs.folder import write_atomically
from . import page
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
WAITING, RUNNING, FINISHED = "waiting", "running", "finished"


class Document:
    """A report as it grows; each change is on disk when the method returns.

    The file names all steps from the beginning, so that one that ends early tells where: a step that is "running".
    """

    def __init__(self, folder: Path, steps: tuple[Step, ...], budget: float):
        self._folder = folder
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "caffelite": __version__,
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "state": RUNNING,
            "device": "",
            "budget": float(budget),
            "seconds": 0.0,
            "steps": [
                {"name": step.name, "title": step.title, "limit": float(step.seconds), "status": WAITING}
                | {"seconds": 0.0, "detail": "", "rows": [], "not_run": [], "output": ""}
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
        """A result of a step that runs: a row, the device, or the names of what did not run."""
        step = self.step(name)
        if "device" in row:
            self.content["device"] = row["device"]
        elif "not_run" in row:
            step["not_run"] = row["not_run"]
        else:
            step["rows"].append({"figures": {}, **row})
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
        content = stored.finite(self.content)
        write_atomically(self._folder / JSON, json.dumps(content, indent=1) + "\n")
        write_atomically(self._folder / HTML, page.html(content))


def read(path: Path) -> dict[str, Any]:
    """The content of a report. path: its folder, or its JSON file. Errors: CaffeliteError where it is none."""
    file = path / JSON if path.is_dir() else path
    if not file.is_file():
        remedy = "name the folder of a report, or its report.json"
        raise CaffeliteError(f"there is no report {path}", expected=f"a file {JSON}", remedy=remedy)
    return stored.load(file, FIELDS)
