"""Opens a deploy net as what it is: a classifier, or a detector of objects."""

from __future__ import annotations

from ... import prototxt
from ...deploy.detect import detects
from .beside import choose_weights
from .classifier import OpenClassifier
from .detector import OpenDetector

OpenModel = OpenClassifier | OpenDetector


def open_model(path: str) -> OpenModel:
    """The net of a prototxt with the weights that it names or that lie beside it, ready to answer. Errors: those of
    both classes; the file cannot be read."""
    document = prototxt.read_net(path)
    choose_weights(document)
    return OpenDetector(document) if detects(document) else OpenClassifier(document)
