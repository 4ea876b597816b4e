"""The work for a net grows with its layers, not with their square."""

import gc
import sys

import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.cli import options
from caffelite.inspection.picture import picture
from caffelite.net import graph


def chain(layers):
    text = 'layer { name: "in" type: "Input" top: "x0" input_param { shape { dim: 1 dim: 2 } } }'
    for i in range(layers):
        text += f'layer {{ name: "l{i}" type: "TanH" bottom: "x{i}" top: "x{i + 1}" }}\n'
    actual = prototxt.parse(text, pb.NetParameter)
    return graph.build(actual.message, pb.NetState(phase=pb.TEST), actual.locate)


def calls(work, *arguments):
    """The Python functions called, with each step of a generator."""
    count = 0

    def counted(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work(*arguments)
    finally:
        sys.setprofile(None)
    return count


def test_drawing_four_times_the_layers_is_four_times_the_work():
    small, large = chain(200), chain(800)
    picture(small)  # imports
    assert calls(picture, large) < 6 * calls(picture, small)


@pytest.fixture
def default_threshold():
    """Python's; the tests set a higher one."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_cycles_are_collected_rarely_within_a_command(default_threshold):
    before = gc.get_threshold()
    with pytest.raises(ValueError), options.rare_collection():
        assert gc.get_threshold()[0] > 100 * before[0] and gc.isenabled()
        raise ValueError
    assert gc.get_threshold() == before
