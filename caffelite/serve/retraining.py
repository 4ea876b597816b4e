"""Trains a run again from its best weights, with the labels that were corrected meanwhile."""

import shutil
from pathlib import Path

from .. import prototxt, roots
from ..data import class_names, corrections, listing
from ..errors import CaffeliteError
from ..file_names import DEPLOY_NET, SOLVER
from ..runs import control, folder as files, limits, registry
from ..training.checkpoint import snapshot
from .config import ServeConfig
from .projects import best_model

SLOWER = 0.1  # factor of the learning rate, as of fine-tuning: the weights are good already
LABELS = "labels.txt"


def retraining(config: ServeConfig, folder: Path, deploy: Path | None = None) -> Path:
    """Writes a copy of a run that starts from its best weights, with corrected lists of images; the path of its solver.
    deploy: the run's deploy net, of which the copy gets one that names its own weights.

    Errors: the run has no weights; a label that is no class; what the bounds refuse.
    """
    weights = best_model(config, registry.read(folder))
    if weights is None:
        raise CaffeliteError("the run has no weights yet", remedy="wait for its first test or snapshot")
    to = config.resolve(str(control.free_folder(folder)))
    root = config.root_of(to)
    solver = control.clone(folder, to, root)
    try:
        _start_from(config, to, weights, root)
        if deploy:
            _write_deploy(deploy, to)
    except BaseException:
        with roots.folder(to.parent) as above:
            shutil.rmtree(above / to.name, ignore_errors=True)
        raise
    return solver


def _start_from(config: ServeConfig, to: Path, weights: Path, root: Path) -> None:
    """Changes the copy of a run: it starts from weights, learns slowly, and reads corrected lists."""
    document = prototxt.read_solver(to / SOLVER)
    message = document.message
    message.weights[:] = [str(weights)]
    message.base_lr *= SLOWER
    message.ClearField("warmup_iter")
    files.write_atomically(to / SOLVER, prototxt.write(message))
    for name in ("net.prototxt", "train_net.prototxt", "test_net_0.prototxt"):
        if (to / name).is_file():
            _correct(config, to / name, root)


def _write_deploy(deploy: Path, to: Path) -> None:
    """Writes a deploy net into the copy of a run, with the weights that the copy will have."""
    document = prototxt.read_net(deploy)
    net = document.message
    for each in limits.named_files(net):
        setattr(each.holder, each.field, str(prototxt.resolve(each.text, document.locate)))
    solver = prototxt.read_solver(to / SOLVER).message
    hdf5 = solver.snapshot_format == solver.HDF5
    named = snapshot.best_name(solver.snapshot_prefix, hdf5).name if solver.best_score else ""  # else the newest ones
    net.deploy_param.weights = named
    files.write_atomically(to / DEPLOY_NET, prototxt.write(net))


def _correct(config: ServeConfig, path: Path, root: Path) -> None:
    """Gives a net corrected copies of its lists of images, beside it."""
    document = prototxt.read_net(path)
    net = document.message
    limits.refuse(config.bounds, net, document.locate, root)
    for number, layer in enumerate(net.layer):
        param = layer.image_data_param
        source = config.resolve(param.source, base=root) if layer.type == "ImageData" and param.source else None
        if source is None or source.is_dir() or source.suffix == ".csv" or param.root_folder:
            continue
        images = [_below(root, image) for image in listing.read_list(source)]
        names = class_names.readable(class_names.of_data(source))
        corrected, lists = corrections.apply(images, names)
        if not lists:
            continue
        copy = path.with_name(f"{path.stem}_{number}.txt")
        files.write_atomically(copy, "".join(f"{image.name} {image.label}\n" for image in corrected if image))
        files.write_atomically(path.with_name(LABELS), "".join(f"{name}\n" for name in names))
        param.source = str(copy)
    files.write_atomically(path, prototxt.write(net))


def _below(root: Path, image: listing.Listed) -> listing.Listed:
    """The image with a whole path: relative ones start at the root."""
    return listing.Listed(str(root / image.name), image.label, image.where)
