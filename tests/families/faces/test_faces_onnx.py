"""ONNX: layers of this family."""

from export.exported_nets import exports

XAVIER = 'weight_filler { type: "xavier" }'

test_layers = exports(
    {
        "flip": 'type: "Flip" flip_param { flip_height: true }',
        "flip rows": 'type: "Flip" flip_param { flip_height: true flip_width: false }',
        "distances": f'type: "InnerDistance" inner_distance_param {{ num_output: 3 normalize: true {XAVIER} }}',
        "distances L1": f'type: "InnerDistance" inner_distance_param {{ num_output: 3 distance_type: "L1" {XAVIER} }}',
    }
)
