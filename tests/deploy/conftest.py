"""Graphs of prototxts whose data need not be there."""

from pathlib import Path

import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.inspection.feeds import Feeds
from caffelite.net import graph

MODELS = Path(__file__).parent.parent.parent / "models"


@pytest.fixture
def test_graph():
    """The TEST graph of a prototxt's text, or of a shipped net's file."""

    def build(net: str, stages=(), **shapes):
        document = prototxt.parse(net, pb.NetParameter) if "{" in net else prototxt.read_net(MODELS / net)
        return graph.build(document.message, pb.NetState(phase=pb.TEST, stage=stages), document.locate, Feeds(shapes))

    return build
