"""ONNX: layers of this family."""

from export.exported_nets import exports

test_layers = exports(
    {
        "reorg": 'type: "Reorg" reorg_param { stride: 2 }',
        "reorg back": 'type: "Reorg" reorg_param { stride: 2 reverse: true }',
    },
    "input_param { shape { dim: 2 dim: 8 dim: 6 dim: 4 } }",
)
