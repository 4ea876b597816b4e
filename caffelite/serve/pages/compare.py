"""The page that compares runs: curves in one chart, and the fields in which solvers and nets differ."""

import shlex
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from ...errors import CaffeliteError
from ...runs import history, listing, registry
from .. import assets, page, runs_of
from .model import labels_of

MOST = 20  # runs in one comparison
SHOWN = 3  # fields in the name of a run


def names_by_fields(fields: Sequence[str], values: Sequence[Sequence[str]]) -> list[str]:
    """A name for each run by the fields that differ, as in ``base_lr=0.03``: the first ones that tell all apart, at
    most three; with a number where they do not. values: of the fields, for each run."""
    count = next((n for n in range(1, SHOWN) if len({tuple(row[:n]) for row in values}) == len(values)), SHOWN)
    short = [name if len(name) <= 24 else ".".join(name.split(".")[-2:]) for name in fields[:count]]
    names = [", ".join(f"{name}={value}" for name, value in zip(short, row, strict=False)) for row in values]
    return [name if names.count(name) == 1 else f"{name} #{i}".strip() for i, name in enumerate(names, 1)]


def compare(request: Request) -> Response:
    """The runs that ``folder`` names, several times."""
    names = list(dict.fromkeys(request.query_params.getlist("folder")))
    if not 2 <= len(names) <= MOST:
        raise CaffeliteError("a comparison takes several runs", expected=f"2 to {MOST}", found=len(names))
    config, folders = page.config_of(request), [runs_of.run_folder(request, name) for name in names]
    runs = [listing.summary(registry.read(folder)) for folder in folders]
    comparison = listing.compare(runs)
    rows = [runs_of.row(request, run) for run in runs]
    scores = list(dict.fromkeys(name for run in runs for name in run.scores))
    values = {
        "runs": rows,
        "fields": [{"field": each.field, "values": list(each.values)} for each in comparison.fields],
        "scores": scores,
        "command": shlex.join(["caffelite", "runs", *map(str, folders), "-compare"]),
    }
    different = [each.field for each in comparison.fields]
    columns = [[each.values[i] for each in comparison.fields] for i in range(len(runs))]
    names = names_by_fields(different, columns) if different else [row["name"] for row in rows]
    shown = {name: class_name(name, [labels_of(config, folder) for folder in folders]) for name in scores}
    script = {"runs": [{"folder": row["folder"], "name": name} for row, name in zip(rows, names, strict=True)]}
    html = {"script": script, "names": names, "score_names": shown, "plotly": assets.plotly_url()}
    return page.render(request, "compare.html", values, only_html=html)


def class_name(score: str, labels: Sequence[Sequence[str]]) -> str:
    """The name of a score; of one class with the label of that class, where all runs that know labels have the same."""
    output, index = history.output_of(score)
    known = [each for each in labels if each]
    same = known[0] if known and all(each == known[0] for each in known) else []
    return f"{output}[{same[index]}]" if index is not None and index < len(same) else score


ROUTES = page.routes("/compare", compare)
