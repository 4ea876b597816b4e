"""The page of a sweep: its trials with the fields that differ and their scores, as a table and as parallel lines."""

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ... import roots, stored
from ...errors import CaffeliteError
from ...runs import fields, history, listing, registry
from ...sweep.config import FILE
from .. import page, runs_of
from .compare import names_by_fields

MOST = 500  # trials of a page
SEED = "random_seed"
RUN = "_run"  # end of the name of a trial's run folder
DEFINITION = {"score": str | None}
TRIAL = {"setting": {str: str}, "rungs": {str: {"state": str, "reason": str}}}


def sweep(request: Request) -> Response:
    """The runs of a sweep's folder, the best first, then those without a score. Query: folder."""
    config = page.config_of(request)
    text = request.query_params.get("folder", "")
    folder = config.resolve(text)
    runs = trials(request, folder)
    if not runs:
        raise page.missing("there are no trials of a sweep in this folder yet")
    known = [run for run in runs if run.fields]
    different = fields.differences([run.fields for run in known if run.fields]) if len(known) > 1 else []
    different = [each for each in different if each.field != SEED] or different
    values_of = {run.status.folder: [each.values[i] for each in different] for i, run in enumerate(known)}
    score = _score(folder, runs)
    lowest = history.is_loss(score)
    rows = [
        {
            **runs_of.row(request, run),
            "values": values_of.get(run.status.folder, ["" for _ in different]),
            "score": None if run.status.state == registry.FAILED else run.best.get(score),
            "title": run.status.folder.name.removesuffix(RUN),
        }
        for run in runs
    ]
    rows += _without_run(folder, {row["title"] for row in rows}, [each.field for each in different])
    rows.sort(key=lambda row: (row["score"] is None, (row["score"] or 0) * (1 if lowest else -1), row["title"]))
    values: dict[str, Any] = {
        "sweep": text,
        "score": score,
        "lowest": lowest,
        "fields": [each.field for each in different],
        "trials": stored.finite(rows),
        "labels": names_by_fields([each.field for each in different], [row["values"] for row in rows]),
    }
    return page.render(request, "sweep.html", values, only_html={"most": min(len(rows), 20)})


def trials(request: Request, folder: Path) -> list[listing.RunSummary]:
    """The runs directly in the folder of a sweep; none where it is no such folder."""
    if not (folder / FILE).is_file():
        return []
    every = runs_of.of(request).index.runs()
    return [run for run in every if run.status.folder.parent == folder][:MOST]


def _without_run(folder: Path, known: set[str], names: list[str]) -> list[dict[str, Any]]:
    """Rows of the trials that failed before they had a run: their files record the setting and the reason. known: the
    names of the other trials; names: of the fields that the page shows."""
    rows: list[dict[str, Any]] = []
    with roots.folder(folder) as opened:
        titles = sorted(path.stem for path in opened.glob("*.json"))
    for title in (title for title in titles if title not in known):
        content = stored.read(folder / f"{title}.json", TRIAL)
        results = list(content.get("rungs", {}).values())
        if "setting" in content and results and results[-1]["state"] == registry.FAILED:
            setting = content["setting"]
            values = [setting.get(name, "") for name in names]
            row = {"folder": "", "title": title, "values": values, "score": None, "iteration": 0}
            rows.append(row | {"state": registry.FAILED, "reason": results[-1]["reason"]})
    return rows[: MOST - len(known)]


def sweep_of(request: Request, run: Path) -> str:
    """The address of the sweep to which a run belongs; empty where there is none."""
    try:
        return page.config_of(request).address(run.parent) if (run.parent / FILE).is_file() else ""
    except CaffeliteError:
        return ""


def _score(folder: Path, runs: list[listing.RunSummary]) -> str:
    """The name of the score that the sweep compares: of its definition, else the first one that is no loss."""
    names = list(dict.fromkeys(name for run in runs for name in run.best))
    named = stored.read(folder / FILE, DEFINITION).get("score")
    if named in names:
        return str(named)
    return next((name for name in names if not history.is_loss(name)), names[0] if names else "score")


ROUTES = page.routes("/sweep", sweep)
