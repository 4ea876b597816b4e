"""ONNX: layers of this family."""

from export.exported_nets import exports

test_layers = exports(
    {
        "sum of three": 'type: "Sum" bottom: "x" bottom: "x"',
        "grn": 'type: "GRN" grn_param { bias: 0.5 }',
        "sums of channels": 'type: "Sum" sum_param { num_component: 2 }',
        "groups": 'type: "GroupNorm" group_norm_param { group_num: 3 eps: 0.1 }',
        "product": 'type: "Mul" bottom: "x"',
        "dropout of channels": 'type: "SpatialDropout"',
    }
)
