"""ONNX: layers of this family."""

from export.exported_nets import exports

test_layers = exports(
    {
        "sparsify": 'type: "Sparsify" sparsify_param { thre: 0.25 }',
        "binary convolution": 'type: "BinaryConvolution" convolution_param { num_output: 4 kernel_size: 3 '
        'weight_filler { type: "gaussian" } } binary_convolution_param { use_alpha: true }',
        "binary product": 'type: "BinaryInnerProduct" inner_product_param { num_output: 4 '
        'weight_filler { type: "gaussian" } }',
    }
)
