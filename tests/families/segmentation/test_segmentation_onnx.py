"""ONNX: layers of this family."""

from export.exported_nets import exports

test_layers = exports(
    {
        "bn": 'type: "BN" bn_param { slope_filler { value: 2 } bias_filler { value: 1 } eps: 0.5 }',
        "bn without moments": 'type: "BN" bn_param { bn_mode: INFERENCE scale_filler { value: 2 } }',
        "interp": 'type: "Interp" interp_param { zoom_factor: 2 pad_beg: -1 }',
        "interp to a size": 'type: "Interp" interp_param { height: 4 width: 9 }',
        "upsample": 'type: "Upsample" upsample_param { scale: 3 }',
    }
)
