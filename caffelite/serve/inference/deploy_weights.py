"""The weights of a deploy net: those that it names, or the newest beside it where it names none or where its run
has not come to its end."""

import re
from pathlib import Path

from ... import caffelite_pb2 as pb, prototxt, weights
from ...errors import CaffeliteError
from ...layers.base.feeding import is_input
from ...net.net import Net
from ...prototxt import Document

WEIGHTS = (".caffemodel", ".caffemodel.h5")


def is_deploy(net: pb.NetParameter) -> bool:
    """Whether a net has inputs for data."""
    return bool(net.input) or net.HasField("deploy_param") or any(is_input(layer) for layer in net.layer)


def choose_weights(document: Document) -> None:
    """Makes a deploy net name weights that exist, where it can: the newest snapshot of the run whose snapshot it names;
    where it names none, the newest weights in its folder. Links are left out."""
    deploy, folder = document.message.deploy_param, Path(document.locate.file).parent
    if deploy.weights and prototxt.resolve(deploy.weights, document.locate).exists():
        return
    run = re.match(r"(.+_iter_)\d+\.", Path(deploy.weights).name)
    if deploy.weights and not run:
        return
    newest = weights_in((folder / deploy.weights).parent if run else folder, run[1] if run else "")
    if newest:
        deploy.weights = str(newest.absolute())


def weights_in(folder: Path, start: str = "") -> Path | None:
    """The newest weights in a folder whose names begin so; None where there are none."""
    try:
        every = [each for each in folder.iterdir() if each.name.startswith(start) and each.name.endswith(WEIGHTS)]
        return max(
            (each for each in every if not each.is_symlink()), key=lambda each: each.stat().st_mtime, default=None
        )
    except OSError:
        return None


def load_named_weights(net: Net, document: Document) -> None:
    """Copies the weights that deploy_param of a document names into its net. Errors: it names none; no layer of the
    file is in the net."""
    named = document.message.deploy_param.weights
    if not named:
        remedy = "make the net with: caffelite deploy -weights FILE"
        raise CaffeliteError(f"{document.locate.file} names no weights", remedy=remedy)
    path = prototxt.resolve(named, document.locate)
    if not net.load(weights.read_model(path, copy=False), str(path)).matched:
        raise CaffeliteError(f"{path}: no layer of the file is in the net")
