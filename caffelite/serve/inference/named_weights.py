"""The weights that a deploy net names."""

from __future__ import annotations

from ... import prototxt, weights
from ...errors import CaffeliteError
from ...net.net import Net
from ...prototxt import Document


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
