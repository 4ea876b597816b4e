"""Drawings of nets, made from their messages: no data is needed, and unknown layers are drawn too."""

import os
from pathlib import Path

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError

RANKDIRS = ("TB", "BT", "LR")


def draw_net(
    caffe_net: pb.NetParameter,
    rankdir: str = "TB",
    ext: str = "png",
    phase: int | None = None,
    display_lrm: bool = False,
) -> bytes:
    """A picture of a net as ``png`` or ``svg``. phase: its layers alone; None: all. display_lrm: shows the lr_mult of
    parameters. rankdir: TB, LR or BT, as Graphviz knows them; the data flows from top to bottom in all of them. Errors:
    another form; PNG without matplotlib."""
    from ..inspection import picture, scene

    if rankdir not in RANKDIRS:
        raise CaffeliteError("rankdir is unknown", expected=" or ".join(RANKDIRS), found=rankdir)
    if ext not in ("png", "svg"):
        raise CaffeliteError("a picture of a net is PNG or SVG", found=ext)
    drawn = picture.message_picture(caffe_net, phase, display_lrm)
    return scene.png(drawn) if ext == "png" else scene.svg(drawn).encode()


def draw_net_to_file(
    caffe_net: pb.NetParameter,
    filename: str | os.PathLike[str],
    rankdir: str = "TB",
    phase: int | None = None,
    display_lrm: bool = False,
) -> None:
    """Writes ``draw_net`` into a file; the end of its name gives the form."""
    path = Path(filename)
    path.write_bytes(draw_net(caffe_net, rankdir, path.suffix[1:], phase, display_lrm))
