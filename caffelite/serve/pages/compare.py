"""The page that compares runs: curves in one chart, and the fields in which solvers and nets differ."""

import shlex

from starlette.requests import Request
from starlette.responses import Response

from ...errors import CaffeliteError
from ...runs import listing, registry
from .. import assets, page, runs_of

MOST = 20  # runs in one comparison


def compare(request: Request) -> Response:
    """The runs that ``folder`` names, several times."""
    names = list(dict.fromkeys(request.query_params.getlist("folder")))
    if not 2 <= len(names) <= MOST:
        raise CaffeliteError("a comparison takes several runs", expected=f"2 to {MOST}", found=len(names))
    folders = [runs_of.run_folder(request, name) for name in names]
    runs = [listing.summary(registry.read(folder)) for folder in folders]
    comparison = listing.compare(runs)
    rows = [runs_of.row(request, run) for run in runs]
    values = {
        "runs": rows,
        "fields": [{"field": each.field, "values": list(each.values)} for each in comparison.fields],
        "scores": list(dict.fromkeys(name for run in runs for name in run.scores)),
        "command": shlex.join(["caffelite", "runs", *map(str, folders), "-compare"]),
    }
    script = {"runs": [{"folder": row["folder"], "name": row["name"]} for row in rows]}
    return page.render(request, "compare.html", values, only_html={"script": script, "plotly": assets.plotly_url()})


ROUTES = page.routes("/compare", compare)
