"""ONNX: layers of this family."""

from export.exported_nets import exports

test_layers = exports(
    {
        "hard swish": 'type: "HardSwish"',
        "depthwise": 'type: "DepthwiseConvolution" convolution_param { num_output: 6 kernel_size: 3 %s }',
        "relu6": 'type: "ReLU6" relu6_param { negative_slope: 0.1 }',
        "shuffle": 'type: "ShuffleChannel" shuffle_channel_param { group: 3 }',
    }
)
