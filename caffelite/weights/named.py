"""The weights of a deploy net: the file that it names, or where that is missing the best or latest of the same run."""

import logging
import re
from pathlib import Path

from .. import caffelite_pb2 as pb, inputs
from ..errors import CaffeliteError

log = logging.getLogger("caffelite")

ENDINGS = (".caffemodel", ".caffemodel.h5")
_SNAPSHOT = re.compile(r"(.+)_(?:iter_(\d+)|best)\.caffemodel(?:\.h5)?")


def named_weights(net: pb.NetParameter, file: str) -> Path | None:
    """The file that deploy_param.weights of a net names. Where it is missing and is a snapshot by its name, the best
    weights of the run with the same prefix, else its latest snapshot. None: the net names none.

    file: of the net. Errors: there is neither.
    """
    named, folder = net.deploy_param.weights, Path(file).parent
    if not named:
        return None
    path = Path(inputs.beside(folder, named))
    if inputs.exists(path):
        return path
    for candidate in dict.fromkeys([folder / named, path]):
        if other := of_same_run(candidate):
            log.info("%s is missing: taking %s, of the same run", named, other)
            return other
    remedy = "train the net first" if _SNAPSHOT.fullmatch(path.name) else "name others with -weights"
    raise CaffeliteError(f"{file} names the weights {named}, which do not exist", remedy=remedy)


def of_same_run(path: Path) -> Path | None:
    """The best weights of the run that wrote or will write a snapshot of this name, else its latest snapshot; None
    where there is none, or where this is no snapshot's name."""
    match = _SNAPSHOT.fullmatch(path.name)
    if not match:
        return None
    snapshots: dict[float, Path] = {}
    for each in _in_folder(path.parent):
        other = _SNAPSHOT.fullmatch(each.name)
        if other and other[1] == match[1]:
            snapshots[float(other[2] or "inf")] = each  # the best one before all
    return snapshots[max(snapshots)] if snapshots else None


def newest_weights(folder: Path) -> Path | None:
    """The newest weights in a folder; None where there are none."""
    try:
        return max(_in_folder(folder), key=lambda each: each.stat().st_mtime, default=None)
    except OSError:
        return None


def _in_folder(folder: Path) -> list[Path]:
    """The weights in a folder, links left out."""
    try:
        return [each for each in folder.iterdir() if each.name.endswith(ENDINGS) and not each.is_symlink()]
    except OSError:
        return []
