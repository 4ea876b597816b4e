"""ONNX: region detectors."""

from export.exported_nets import exported, text

from caffelite.export import onnx


def test_pooling_over_boxes(seed):
    layers = """layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 7 dim: 5 } } }
      layer { name: "y" type: "ROIPooling" bottom: "x" bottom: "rois" top: "y"
        roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 } }"""
    net, body = exported(text(layers, "input_param { shape { dim: 2 dim: 3 dim: 16 dim: 20 } }"), seed)
    assert onnx.check(net, body, seed).outputs["y"] < 1e-5
