"""`input` without a shape: ignored where an Input layer makes the blob, else an error."""

import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt
from caffelite.errors import CaffeliteError

LAYER = 'layer { name: "data" type: "Input" top: "a" input_param { shape { dim: 2 } } }'


def test_input_without_a_shape_beside_its_input_layer(caplog):
    prototxt.say_once.cache_clear()
    document = prototxt.modern(prototxt.parse('name: "n"\ninput: "a"\n' + LAYER, pb.NetParameter, "n"))
    assert document.message == text_format.Parse('name: "n" ' + LAYER, pb.NetParameter())
    assert caplog.messages == ["n:2:1: an input without a shape is ignored: an Input layer makes its blob"]
    assert document.locate("layer", 0, "name").line == 3


def test_input_without_a_shape_that_no_layer_makes():
    with pytest.raises(CaffeliteError, match="n:1:1: input_dim does not fit the inputs"):
        prototxt.modern(prototxt.parse('input: "a" input: "b" ' + LAYER, pb.NetParameter, "n"))
