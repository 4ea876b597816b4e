"""The weights of a deploy net that names none, or those of a run that has not come to its end: the newest beside it."""

from __future__ import annotations

import re
from pathlib import Path

from ... import caffelite_pb2 as pb
from ... import prototxt
from ...prototxt import Document

WEIGHTS = (".caffemodel", ".caffemodel.h5")


def is_deploy(net: pb.NetParameter) -> bool:
    """Whether a net has inputs for data."""
    return bool(net.input) or net.HasField("deploy_param") or any(layer.type == "Input" for layer in net.layer)


def choose_weights(document: Document) -> None:
    """Makes a deploy net name weights that exist, where it can: the newest snapshot of the run whose snapshot it names;
    where it names none, the newest weights in its folder. Links are left out."""
    how, folder = document.message.deploy_param, Path(document.locate.file).parent
    if how.weights and prototxt.resolve(how.weights, document.locate).exists():
        return
    run = re.match(r"(.+_iter_)\d+\.", Path(how.weights).name)
    if how.weights and not run:
        return
    found = weights_in((folder / how.weights).parent if run else folder, run[1] if run else "")
    if found:
        how.weights = str(found.absolute())


def weights_in(folder: Path, start: str = "") -> Path | None:
    """The newest weights in a folder whose names begin so; None where there are none."""
    try:
        every = [each for each in folder.iterdir() if each.name.startswith(start) and each.name.endswith(WEIGHTS)]
        return max(
            (each for each in every if not each.is_symlink()), key=lambda each: each.stat().st_mtime, default=None
        )
    except OSError:
        return None
