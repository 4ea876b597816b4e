"""Files of forks: convolutions that have no pads by side."""

from prototxt.upgrading import error


def test_pads_by_side_are_refused():
    wrong = error(
        'layer { name: "d" type: "BinaryConvolution" bottom: "x" convolution_param { kernel_size: 3 pad_b: 1 } }'
    )
    assert 'layer "d" (BinaryConvolution) has pads by side' in wrong
