"""Files of forks: detectors."""

import pytest
from prototxt.upgrading import expect

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError


def test_boxes_of_openvino():
    expect(
        'layer { type: "PriorBox" prior_box_param { box_width: 3 box_height: 4 } }',
        'layer { type: "PriorBoxClustered" prior_box_param { width: 3 height: 4 } }',
    )


def test_detections_in_pixels_are_refused():
    with pytest.raises(CaffeliteError, match="is of .* and not supported"):
        prototxt.parse("normalized: false", pb.DetectionOutputParameter, "n")
    message = prototxt.parse("normalized: true input_width: 320", pb.DetectionOutputParameter, "n").message
    assert message == pb.DetectionOutputParameter()
