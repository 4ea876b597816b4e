"""Files of forks: ReLU6, pads by side."""

from prototxt.upgrading import expect


def test_relu6_of_a_relu():
    word = expect(
        'layer { name: "r" type: "ReLU" relu_param { relu6: true negative_slope: 0.1 } }',
        'layer { name: "r" type: "ReLU6" relu6_param { negative_slope: 0.1 } }',
    )
    assert word("layer", 0, "relu6_param", "negative_slope") == "0.1"


def test_pads_by_side_of_depthwise_convolutions():
    fields = "kernel_size: 3 pad_l: 1 pad_r: 1 relu: true"
    expect(
        f'layer {{ type: "DepthwiseConvolution" convolution_param {{ {fields} }} top: "y" }}',
        'layer { type: "DepthwiseConvolution" convolution_param { kernel_size: 3 pad_h: 0 pad_w: 1 } top: "y" } '
        'layer { name: "/relu" type: "ReLU" bottom: "y" top: "y" }',
    )
