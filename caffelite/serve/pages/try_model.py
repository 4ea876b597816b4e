"""The page on which a model answers for images: samples, files, a camera or a drawing."""

import base64
import hashlib
import itertools
import math
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from ... import inputs, roots
from ...errors import CaffeliteError, printable, reporting
from ...file_names import DEPLOY_NET as DEPLOY
from ...runs import folder as files, registry, snapshots
from ...zoo import trained
from .. import catalog, nets, page, projects, work
from ..config import ServeConfig
from ..inference.client import Models, Worker
from ..remote import Fetcher
from ..uploads import MOST_IMAGE, folder_name, safe_name, suffix

MOST_TOP = 1000
MOST_FETCHES = 4  # pictures that are read from other servers at a time
CORRECTED = "labelled"


def try_model(request: Request) -> Response:
    """The page. Query: net, a second net for comparison (other), or run, whose deploy net is used or offered."""
    config = page.config_of(request)
    query = request.query_params
    models = catalog.deploy_nets(config)
    of_package = {one.address for one in models if trained.is_copy(one.path.parent)}
    net, run = query.get("net", ""), query.get("run", "")
    if run and not net:
        net = deployed(config, config.resolve(run))
    if not net and not run and models:
        own_first = sorted(models, key=lambda one: one.address in of_package)
        net = next((one.address for one in own_first if _has_weights(config, one.path)), own_first[0].address)
    values: dict[str, Any] = {
        "net": net,
        "other": query.get("other", ""),
        "run": run,
        "job": query.get("job", ""),
        "models": [one.address for one in models],
        "of_package": [one.address for one in models if one.address in of_package],
        "data_sets": [one.address for one in catalog.data_sets(config)],
        "hierarchy": _hierarchy_beside(config, net),
        "downloads": config.allow_download,
        "shipped": [
            {"name": one.name, "measured": one.measured, "data": one.data, "bytes": one.size}
            for one in trained.trained()
            if one.pictures
        ],
    }
    if run and not net:
        values["command"] = " ".join(["caffelite", *deploy_command(config, run)])
    return page.render(request, "try.html", values, only_html={"embedded": page.embedded(values)})


def _has_weights(config: ServeConfig, path: Path) -> bool:
    """Whether a deploy net can answer: the weights that it names exist, or there are some beside it."""
    try:
        return nets.weights(config, nets.read(config, path)[0]).is_file()
    except (CaffeliteError, OSError):
        return False


def deployed(config: ServeConfig, run: Path) -> str:
    """The deploy net of a run: in its folder, else beside its best weights, where these are the weights that it has;
    empty where there is none."""
    if (run / DEPLOY).is_file():
        return config.address(run / DEPLOY)
    with suppress(CaffeliteError):
        weights = projects.best_model(config, registry.read(run))
        deploy = weights.with_name(DEPLOY) if weights else None
        if deploy and deploy.is_file() and nets.weights(config, nets.read(config, deploy)[0]) == weights:
            return config.address(deploy)
    return ""


def _hierarchy_beside(config: ServeConfig, net: str) -> str:
    """The file hierarchy.txt next to a net, where there is one."""
    path = config.resolve(net).with_name("hierarchy.txt") if net else None
    return config.address(path) if path and path.is_file() else ""


def deploy_command(config: ServeConfig, run: str) -> list[str]:
    """The command that makes the deploy net of a run with its best weights. Errors: it has no snapshot."""
    folder = config.resolve(run)
    config.resolve(str(snapshots.prefix(folder).parent))
    model = snapshots.best_model(folder)
    if model is None:
        raise CaffeliteError("the run has no snapshot yet", remedy="wait for one, or take one on its page")
    weights = config.resolve(str(model))
    nets.read(config, folder / files.NET)
    words = ["deploy", "--model", str(folder / files.NET), "--weights", str(weights)]
    return [*words, "--out", str(folder / DEPLOY), "--force"]


def deploy(request: Request, fields: page.Fields) -> Response:
    """Queues the job that makes a run's deploy net."""
    config = page.config_of(request)
    run = page.text_field(fields, "run")
    job = work.submit(config, config.resolve(run), deploy_command(config, run), quick=True)
    return page.done(request, page.address("/try", run=run, job=job.id), work.summary(config, job))


def shipped(request: Request, fields: page.Fields) -> Response:
    """Copies a net that ships with weights, and its pictures, below the first root, unless it is there; a project by
    its name stays."""
    config = page.config_of(request)
    one = trained.find(page.text_field(fields, "name"))
    names = itertools.chain([one.name], (f"{one.name}_{number}" for number in itertools.count(2)))
    folders = (config.roots[0] / name for name in names)
    folder = next(each for each in folders if trained.is_copy(each) or not (each / DEPLOY).is_file())
    if not trained.is_copy(folder):
        with roots.folder(folder, make=True):
            trained.copy(one, folder)
    net = config.address(folder / DEPLOY)
    return page.done(request, page.address("/try", net=net), {"net": net})


def worker_of(request: Request, net: str) -> Worker:
    """The inference process of a net. Errors: the net is outside the roots, names a file there, has Python layers."""
    config = page.config_of(request)
    path = config.resolve(net)
    _, named = nets.read(config, path)
    models: Models = request.app.state.models
    return models.worker(path, named)


def describe(request: Request) -> Response:
    """Opens a net in its process: name, labels, shape of the input, kind of the answer."""
    return page.as_json(worker_of(request, request.query_params.get("net", "")).open())


def classify(request: Request, fields: page.Fields) -> Response:
    """The answers for an image, and what the net sees; of a net that detects objects, its boxes and the image; of one
    that classifies pixels, the shares of classes and the colored image; of one that reads, its text."""
    content: dict[str, Any] = {
        "op": "classify",
        "top": page.number(page.text_field(fields, "top", ""), "top", 1, MOST_TOP, 0),
        "oversample": page.text_field(fields, "oversample", "") == "on",
    }
    if threshold := page.text_field(fields, "threshold", ""):
        content["threshold"] = _share(threshold, "threshold")
    if hierarchy := page.text_field(fields, "hierarchy", ""):
        content["hierarchy"] = str(page.config_of(request).resolve(hierarchy))
    started = time.perf_counter()
    response, payloads = worker_of(request, page.text_field(fields, "net")).request(content, image_of(fields))
    total = time.perf_counter() - started
    return page.as_json({**response, "seen": data_url(payloads[0]), "total_seconds": total})


def _share(text: str, name: str) -> float:
    """A number of a form. Errors: it is none from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise CaffeliteError(f"{name} is out of range", expected="a number from 0 to 1", found=printable(text)[:40])
    return value


def layers(request: Request, fields: page.Fields) -> Response:
    """The activations of every layer, or of one, each with a picture."""
    content = {"op": "layers"}
    if chosen := page.text_field(fields, "layer", ""):
        content["layer"] = chosen
    response, payloads = worker_of(request, page.text_field(fields, "net")).request(content, image_of(fields))
    rows = [{**row, "picture": data_url(payload)} for row, payload in zip(response["layers"], payloads, strict=True)]
    return page.as_json({"layers": rows})


def saliency(request: Request, fields: page.Fields) -> Response:
    """The pixels and regions on which the score of a class depends."""
    content: dict[str, Any] = {"op": "saliency"}
    if chosen := page.text_field(fields, "class", ""):
        content["class"] = page.number(chosen, "class", 0, 1 << 30, 0)
    response, payloads = worker_of(request, page.text_field(fields, "net")).request(content, image_of(fields))
    names = ("input", "saliency", "gradcam")
    pictures = {name: data_url(payload) for name, payload in zip(names, payloads, strict=False)}
    return page.as_json({**response, "pictures": pictures})


def image_of(fields: page.Fields, name: str = "image") -> bytes:
    """The content of an uploaded image. Errors: none, or a too large one."""
    upload = fields.get(name)
    if not isinstance(upload, UploadFile):
        raise CaffeliteError("the form needs an image", expected=f"a file named {name}")
    content = upload.file.read(MOST_IMAGE + 1)
    if len(content) > MOST_IMAGE:
        raise CaffeliteError("the image is too large", expected=f"at most {MOST_IMAGE >> 20} MiB")
    return content


_fetches = threading.BoundedSemaphore(MOST_FETCHES)


def fetch(request: Request, fields: page.Fields) -> Response:
    """The picture at an address of a public server. Errors: the server of these pages was started without
    -allow_download; the address leads elsewhere; no picture, or a too large one."""
    if not page.config_of(request).allow_download:
        remedy = "start the server with -allow_download, or download the picture yourself"
        raise CaffeliteError("this server opens no addresses", remedy=remedy)
    address = page.text_field(fields, "address").strip()
    if not _fetches.acquire(blocking=False):
        raise CaffeliteError("too many pictures are being read", expected=f"at most {MOST_FETCHES}", remedy="try again")
    try:
        content = Fetcher().read(address)
    finally:
        _fetches.release()
    kind = {".jpg": "jpeg"}.get(suffix(content), suffix(content)[1:])
    return Response(content, media_type=f"image/{kind}")


def data_url(png: bytes) -> str:
    """A PNG as an address that contains it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


# corrected answers


def correct(request: Request, fields: page.Fields) -> Response:
    """Adds an image with its right class to a labeled set: `labelled/SET/CLASS/DIGEST.png` and a line of list.txt."""
    config = page.config_of(request)
    net = page.text_field(fields, "net")
    info = worker_of(request, net).open()
    if info["detects"] or info["segments"] or info["reads"]:
        what = "a net that detects objects, classifies pixels or reads text has no class for an image"
        raise CaffeliteError(what)
    labels = info["labels"]
    number = page.number(page.text_field(fields, "class"), "class", 0, len(labels) - 1, 0)
    chosen = folder_name(page.text_field(fields, "set", "corrected"), "set")
    image = image_of(fields)
    ending = suffix(image)
    if not ending:
        raise CaffeliteError("this image cannot be kept", expected="PNG, JPEG, BMP or WebP")
    model = config.resolve(net)
    root = config.root_of(model)
    folder = root / CORRECTED / chosen
    name = f"{number:04d}_{safe_name(labels[number])}/{hashlib.sha256(image).hexdigest()[:20]}{ending}"
    path, listing = folder / name, folder / "list.txt"
    with _correcting, reporting(f"write into {chosen}"), roots.folder(path.parent, make=True):
        new = not path.exists()
        files.write_atomically(path, image)
        files.write_atomically(folder / "labels.txt", "".join(f"{label}\n" for label in labels))
        listed = inputs.read(listing, inputs.LIST) if os.path.lexists(listing) else b""
        if new:
            listed += f"{path} {number}\n".encode()
            files.write_atomically(listing, listed)
    values = {"file": config.address(path), "list": config.address(listing), "new": new}
    return page.done(request, page.address("/try", net=net), {**values, "count": listed.count(b"\n")})


_correcting = threading.Lock()  # the list is read, and written with one more line


ROUTES = [
    *page.routes("/try", try_model),
    *page.routes("/try/model", describe),
    page.action("/try/classify", classify),
    page.action("/try/fetch", fetch),
    page.action("/try/layers", layers),
    page.action("/try/saliency", saliency),
    page.action("/try/correct", correct),
    page.action("/try/deploy", deploy),
    page.action("/try/shipped", shipped),
]
