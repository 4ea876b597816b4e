"""Files of forks: convolutions that have no pads by side."""

from prototxt.upgrading import error


def test_pads_by_side_are_refused():
    fields = "convolution_param { kernel_size: 3 pad_l: 1 }"
    other = error(f'layer {{ name: "d" type: "DeformableConvolution" bottom: "x" {fields} }}')
    assert 'layer "d" (DeformableConvolution) has pads by side; expected a Convolution' in other
