"""The net of a run: its picture, and a layer with its shape, parameters, filters and histogram."""

import functools
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ... import caffelite_pb2 as pb, prototxt, weights
from ...data import stored
from ...errors import CaffeliteError, Locator, did_you_mean
from ...file_names import DEPLOY_NET
from ...inspection import nets, picture, scene, summary
from ...net.graph import Graph
from ...runs import folder as files, limits, snapshots
from ...runs.limits import NETS, Bounds
from ...visualize import pictures, snapshots as parameters
from .. import page, projects, runs_of
from ..config import ServeConfig
from ..nets import without_outside
from ..samples import OpenSet, OpenSets, layer_source, png_of, sample_label
from .try_model import deploy_command, deployed

MOST_SNAPSHOTS = 12  # of a histogram
MOST_SAMPLES = 100  # of one answer
SAMPLE = "/run/sample.png"
_drawing = threading.Lock()  # matplotlib draws one picture at a time


def net(request: Request) -> Response:
    """The train net or the test net as SVG, whose boxes name their layers."""
    graph, _ = _graph(request)
    return Response(scene.svg(picture.picture(graph), layers=True), media_type="image/svg+xml")


def layers(request: Request) -> Response:
    """The layers of the net: the table of `caffelite summary`, as JSON."""
    graph, guessed = _graph(request)
    return page.as_json(_table(graph, guessed))


def layer(request: Request) -> Response:
    """A layer: type, shapes, parameters with statistics in the newest snapshot."""
    config, folder = page.config_of(request), runs_of.run_folder(request)
    graph, guessed = _graph(request)
    name, known = request.query_params.get("layer", ""), [node.name for node in graph.nodes]
    if name not in known:
        raise CaffeliteError("the net has no such layer", found=name[:100], remedy=did_you_mean(name, known))
    node = next(node for node in graph.nodes if node.name == name)
    row = next(row for row in _table(graph, guessed)["rows"] if row["name"] == name)
    models = _models(config, folder)
    arrays = weights.read_model(models[-1]).get(name, []) if models else []
    values = {
        "layer": row,
        "bottoms": [{"name": value.name, "shape": value.shape} for value in node.bottoms],
        "tops": [{"name": value.name, "shape": value.shape} for value in node.tops],
        "parameters": [_statistics(array) for array in arrays],
        "snapshot": models[-1].name if models else None,
        "pictures": {"filters": bool(len(arrays) and arrays[0].ndim >= 2), "histogram": bool(len(arrays))},
    }
    return page.as_json(values)


def filters(request: Request) -> Response:
    """The filters of a layer in the newest snapshot, as PNG."""
    models = _required_models(request)
    name, values = parameters.filters(str(models[-1]), request.query_params.get("layer"))
    with _drawing:
        return Response(pictures.filters(name, values, "png"), media_type="image/png")


def histogram(request: Request) -> Response:
    """The distribution of a layer's weights in the run's snapshots, as PNG."""
    models = _required_models(request)
    chosen = [models[i] for i in sorted({*np.linspace(0, len(models) - 1, MOST_SNAPSHOTS).astype(int).tolist()})]
    name = request.query_params.get("layer", "")
    history = parameters.parameter_history(parameters.load_snapshots(chosen), [name], 0)
    with _drawing:
        return Response(pictures.histograms(history, "png", f"{name}: weights by iteration"), media_type="image/png")


def samples(request: Request) -> Response:
    """Samples of the data of the run's test net, else of its train net, and the deploy net that computes activations.

    Query: folder; start and count, or spread=1 and count: evenly over all. net: the address of the deploy net of the
    newest snapshot; empty where it is missing or older. command: what makes it; empty where there is no snapshot. best:
    the address of a deploy net with the best weights; empty where there is none.
    """
    config, folder, query = page.config_of(request), runs_of.run_folder(request), request.query_params
    start = page.number(query.get("start"), "start", 0, 1 << 60, 0)
    count = page.number(query.get("count"), "count", 0, MOST_SAMPLES, MOST_SAMPLES)
    opened = _data(request)
    total = opened.samples.length
    indices = list(range(start, min(start + count, total)))
    if query.get("spread") == "1":
        indices = sorted({*np.linspace(0, total - 1, min(count, total)).astype(int).tolist()})
    name = query["folder"]
    rows = [
        {
            "number": index,
            "label": sample_label(opened, label),
            "image": page.address(SAMPLE, folder=name, number=str(index)),
        }
        for index, (_, label) in zip(indices, opened.read(indices), strict=True)
    ]
    net, command = _deployed(config, folder)
    values = {"samples": rows, "total": total, "net": net, "command": command}
    return page.JSONResponse(values | {"best": deployed(config, folder)})


def _deployed(config: ServeConfig, folder: Path) -> tuple[str, str]:
    """(net, command) of ``samples``."""
    models, deploy = _models(config, folder), folder / DEPLOY_NET
    if not models:
        return "", ""
    command = projects.shell(deploy_command(config, config.address(folder)))
    current = deploy.is_file() and deploy.stat().st_mtime >= models[-1].stat().st_mtime
    return config.address(deploy) if current else "", command


def sample(request: Request) -> Response:
    """A sample of ``samples`` as PNG. Query: folder, number."""
    number = page.number(request.query_params.get("number"), "number", 0, 1 << 60, 0)
    [(pixels, _)] = _data(request).read([number])
    return Response(png_of(pixels), media_type="image/png", headers={"Cache-Control": "private, max-age=300"})


def _data(request: Request) -> OpenSet:
    """The data set of the run's test net, else of its train net. Errors: the nets read no images."""
    config, solver = page.config_of(request), runs_of.run_folder(request) / files.SOLVER
    spec = _data_layer(config, solver, solver.stat().st_mtime_ns if solver.exists() else 0)
    sets: OpenSets = request.app.state.data_sets
    return sets.of_layer(config, spec, Path(layer_source(spec)))


@functools.lru_cache(64)
def _data_layer(config: ServeConfig, solver: Path, changed: int) -> pb.LayerParameter:
    """The layer that reads the images of a run. changed: when its solver was written."""
    for phase in ("TEST", "TRAIN"):
        graph, _ = _graph_of(config, solver.parent, phase)
        for node in graph.nodes:
            if stored.stores_images(node.layer.spec):
                return stored.independent(node.layer.spec, Locator(str(solver)))
    raise CaffeliteError("the run reads no images that are stored", expected="a layer of type Data or ImageData")


def _graph(request: Request) -> tuple[Graph, list[str]]:
    """The graph of the phase that a request names, with notes about guessed shapes."""
    phase = request.query_params.get("phase", "TRAIN")
    if phase not in ("TRAIN", "TEST"):
        raise CaffeliteError("unknown phase", expected="TRAIN or TEST", found=phase[:40])
    return _graph_of(page.config_of(request), runs_of.run_folder(request), phase)


def _graph_of(config: ServeConfig, folder: Path, phase: str) -> tuple[Graph, list[str]]:
    solver = folder / files.SOLVER
    document = prototxt.read_solver(solver)
    if any(getattr(document.message, name) for name in NETS):
        raise CaffeliteError(f"{files.SOLVER} of this run names a net", expected="a solver with its nets in it")
    limits.refuse(Bounds(None, config.allow_python), document.message, document.locate)
    subject = nets.inspected_net(None, str(solver), {}, lenient=True)
    if subject.solver is not None and phase == "TEST" and subject.solver.test_net_param:
        subject.message = subject.solver.test_net_param[0]
    subject.message = without_outside(config, subject.message, folder)
    graph, guessed, _ = subject.buildable(pb.Phase.Value(phase))
    return graph, guessed


def _table(graph: Graph, guessed: list[str]) -> dict[str, Any]:
    table = summary.table(graph, guessed)
    rows = [asdict(row) for row in table.rows]
    return {"phase": table.phase, "batch": table.batch, "rows": rows, "guessed": guessed}


def _models(config: ServeConfig, folder: Path) -> list[Path]:
    """The models of the run's snapshots that are below the roots, the earliest first."""
    try:
        config.resolve(str(snapshots.prefix(folder).parent))
        models = [path for _, path in snapshots.models(folder)]
    except CaffeliteError:
        return []
    return [config.resolve(str(path)) for path in reversed(models)]


def _required_models(request: Request) -> list[Path]:
    models = _models(page.config_of(request), runs_of.run_folder(request))
    if not models:
        raise page.missing("the run has no snapshot")
    return models


def _statistics(array: np.ndarray) -> dict[str, Any]:
    finite = array[np.isfinite(array)]
    names = ("mean", "std", "min", "max")
    values = {name: float(getattr(finite, name)()) if finite.size else None for name in names}
    counts = {"zeros": int((array == 0).sum()), "not_finite": int(array.size - finite.size)}
    return {"shape": array.shape, **values, **counts}


ROUTES = [
    Route("/run/net.svg", net, methods=["GET"]),
    Route("/run/layers.json", layers, methods=["GET"]),
    Route("/run/layer.json", layer, methods=["GET"]),
    Route("/run/samples.json", samples, methods=["GET"]),
    Route(SAMPLE, sample, methods=["GET"]),
    Route("/run/filters.png", filters, methods=["GET"]),
    Route("/run/histogram.png", histogram, methods=["GET"]),
]
