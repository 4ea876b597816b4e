"""`caffelite upgrade`: nets, solvers and caffemodels of old Caffes, written in the modern form."""

import logging
import re
from pathlib import Path

import click

from ..errors import CaffeliteError, Locator, reporting
from ..runs.folder import write_atomically
from . import options
from .logs import start

log = logging.getLogger("caffelite")
TEXTS = (".prototxt", ".pt", ".pbtxt", ".txt")  # suffixes of text


@click.command(short_help="Write old nets and weights in the modern form")
@click.argument("old", metavar="IN")
@click.argument("new", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--plain",
    is_flag=True,
    help="Leave out fields that BVLC Caffe does not have, such as placement, so that its parser accepts the file.",
)
@click.option("--force", is_flag=True, help="Replace OUT where it exists.")
@options.code_if_asked
def upgrade(old: str, new: Path, plain: bool, force: bool) -> None:
    """Writes a net, a solver or a caffemodel IN of an old Caffe in the modern form to OUT.

    Text stays text and binary stays binary, now with a checksum; weights keep every bit. A caffemodel whose OUT ends in
    .prototxt gives the text of its net, without weights. What is lost: comments, and fields of Caffe's forks that mean
    nothing here (each is named).

    \b
    Example:
      caffelite upgrade old_train_val.prototxt train_val.prototxt
      caffelite upgrade old.caffemodel new.caffemodel
      caffelite upgrade net.caffemodel net.prototxt
      caffelite upgrade train_val.prototxt caffe_train_val.prototxt -plain
    """
    start()
    options.refuse_existing(new, force)
    from ..weights import read_bytes

    data = read_bytes(old)
    if data.startswith(b"\x89HDF"):
        what = f"{old} is HDF5, whose form never changed"
        raise CaffeliteError(what, expected="a prototxt, or a binary net or caffemodel")
    binary = re.search(rb"[\0-\x08\x0e-\x1f]", data) is not None
    text = not binary or new.suffix.lower() in TEXTS
    if not binary and new.suffix.lower() == ".caffemodel":
        what = f"{old} has no weights for a caffemodel"
        raise CaffeliteError(what, expected="OUT that ends in .prototxt", found=new.name)
    body, dialects, notes = upgraded_text(old, plain) if text else upgraded_binary(old, data, plain)
    for where, note in notes:
        log.warning("%s: %s", where, note)
    write(new, body)
    log.info("Wrote %s; %s", new, f"upgraded: {', '.join(dialects)}" if dialects else f"{old} was modern already")


def upgraded_text(path: str, plain: bool = False) -> tuple[bytes, list[str], list]:
    """The modern text of a net or a solver: of what it can be read as, or else of what it comes nearer to. plain:
    without fields that BVLC Caffe does not have."""
    from .. import caffelite_pb2 as pb, prototxt
    from ..prototxt.plain import remove_own_fields
    from ..prototxt.upgrade import upgrade_net, upgrade_solver

    errors = []
    for kind, change in ((pb.NetParameter, upgrade_net), (pb.SolverParameter, upgrade_solver)):
        try:
            document = prototxt.read_message(path, kind)
        except CaffeliteError as error:
            errors.append(error)
            continue
        modern = change(document.message, document.locate)
        if kind is pb.NetParameter and not document.locate.positions:  # it was binary
            remove_weights(modern.message)
        removed = remove_own_fields(modern.message) if plain else []
        notes = [*modern.notes, *((modern.locate(*at), note) for at, note in removed)]
        return prototxt.write(modern.message).encode(), modern.dialects, notes
    raise min(errors, key=lambda error: str(error).count("\n"))


def remove_weights(net) -> None:
    """Leaves of a net what a prototxt says of it: no blobs, no checksum, no id of a run."""
    for layer in net.layer:
        layer.ClearField("blobs")
    for field in ("checksum", "run"):
        net.ClearField(field)


def upgraded_binary(path: str, data: bytes, plain: bool = False) -> tuple[bytes, list[str], list]:
    """The modern bytes of a binary net or caffemodel. Its weights pass through as they are (NVCaffe's bytes become
    floats). plain: without fields that BVLC Caffe does not have."""
    from .. import weights
    from ..prototxt.plain import remove_own_fields
    from ..prototxt.upgrade import upgrade_net
    from ..weights.detached import attach, detach

    net, blobs = detach(data, path)
    modern = upgrade_net(net, Locator(path), weights_only=True)
    removed = remove_own_fields(modern.message) if plain else []
    body = attach(modern.message, blobs)
    notes = [*modern.notes, *((path, note) for _, note in removed)]
    return body if plain else weights.sealed(body), modern.dialects, notes


def write(path: Path, body: bytes) -> None:
    """Writes a file atomically."""
    with reporting(f"write {path}"):
        write_atomically(path, body, durable=True)
