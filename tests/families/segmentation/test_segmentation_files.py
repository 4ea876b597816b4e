"""Files of forks: segmentation."""

import pytest
from prototxt.upgrading import expect

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError


def test_v1_layers():
    expect(
        "layers { type: UNPOOLING unpooling_param { kernel_size: 2 } } layers { type: BN bn_param { bn_mode: LEARN } } "
        "layers { type: INTERP interp_param { zoom_factor: 8 } } "
        "layers { type: SEG_ACCURACY seg_accuracy_param { ignore_label: 255 } } "
        'layers { type: MAT_WRITE mat_write_param { prefix: "x" } }',
        'layer { type: "Unpooling" unpooling_param { kernel_size: 2 } } '
        'layer { type: "BN" bn_param { bn_mode: LEARN } } '
        'layer { type: "Interp" interp_param { zoom_factor: 8 } } '
        'layer { type: "SegAccuracy" seg_accuracy_param { ignore_label: 255 } } '
        'layer { type: "MatWrite" mat_write_param { prefix: "x" } }',
    )


def test_bn_of_segstereo():
    """Takes the running moments in TEST, by what else the net has."""
    shift = 'layer { type: "Correlation1D" } layer { type: "BN" %s }'
    expect(shift % "", shift % "bn_param { use_history_in_test: true }")
    same = 'layer { type: "BN" bn_param { decay: 0.1 } }'
    for text in (same, shift % "bn_param { momentum: 0.1 }", shift % "bn_param { use_history_in_test: false }"):
        expect(text, text)


def test_max_unpool_of_opencv():
    expect(
        'layer { type: "MaxUnpool" max_unpool_param { pool_k_h: 2 pool_k_w: 3 pool_stride_h: 2 pool_stride_w: 3 } }',
        'layer { type: "Unpooling" '
        "unpooling_param { kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 0 pad_w: 0 } }",
    )


def test_labels_that_interp_cannot_resize():
    with pytest.raises(CaffeliteError, match="is of .* and not supported; .*ResizeNearestNeighbor"):
        prototxt.parse("is_seglabel: true", pb.InterpParameter, "n")
    assert prototxt.parse("is_seglabel: false", pb.InterpParameter, "n").message == pb.InterpParameter()
