"""The weights of a deploy net in the server: those of ``weights.named_weights``, or the newest beside a net that names
none."""

from contextlib import suppress
from pathlib import Path

from ... import caffelite_pb2 as pb, prototxt, weights
from ...errors import CaffeliteError
from ...layers.base.feeding import is_input
from ...net.net import Net
from ...prototxt import Document


def is_deploy(net: pb.NetParameter) -> bool:
    """Whether a net has inputs for data."""
    return bool(net.input) or net.HasField("deploy_param") or any(is_input(layer) for layer in net.layer)


def choose_weights(document: Document) -> None:
    """Makes a deploy net name weights that exist, where it can: the best or latest of the run whose file it names;
    where it names none, the newest weights in its folder. Links are left out."""
    deploy = document.message.deploy_param
    if deploy.weights and prototxt.resolve(deploy.weights, document.locate).exists():
        return
    file, chosen = document.locate.file, None
    with suppress(CaffeliteError):
        chosen = weights.named_weights(document.message, file) or weights.newest_weights(Path(file).parent)
    if chosen:
        deploy.weights = str(chosen.absolute())


def load_named_weights(net: Net, document: Document) -> None:
    """Copies the weights that deploy_param of a document names into its net. Errors: it names none; no layer of the
    file is in the net."""
    path = weights.named_weights(document.message, document.locate.file)
    if path is None:
        remedy = "make the net with: caffelite deploy -weights FILE"
        raise CaffeliteError(f"{document.locate.file} names no weights", remedy=remedy)
    if not net.load(weights.read_model(path, copy=False), str(path)).matched:
        raise CaffeliteError(f"{path}: no layer of the file is in the net")
