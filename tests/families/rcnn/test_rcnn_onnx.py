"""ONNX: region detectors."""

import pytest
from export.exported_nets import exported, text

from caffelite.export import onnx


def test_pooling_over_boxes(seed):
    layers = """layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 7 dim: 5 } } }
      layer { name: "y" type: "ROIPooling" bottom: "x" bottom: "rois" top: "y"
        roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 } }"""
    net, body = exported(text(layers, "input_param { shape { dim: 2 dim: 3 dim: 16 dim: 20 } }"), seed)
    assert onnx.check(net, body, seed).outputs["y"] < 1e-5


REGIONS = {
    "cells": 'type: "PSROIPooling" psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: 0.25 }',
    "corners": 'type: "ROIAlign" roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 }',
    "wider": 'type: "ROIAlign" roi_pooling_param { pooled_h: 1 pooled_w: 2 spatial_scale: 0.25 pad_ratio: 0.4 }',
}


@pytest.mark.parametrize("name", REGIONS)
def test_values_of_boxes(name, seed):
    layers = f"""layer {{ name: "rois" type: "Input" top: "rois" input_param {{ shape {{ dim: 9 dim: 5 }} }} }}
      layer {{ name: "y" bottom: "x" bottom: "rois" top: "y" {REGIONS[name]} }}"""
    net, body = exported(text(layers, "input_param { shape { dim: 2 dim: 18 dim: 8 dim: 10 } }"), seed, "float32")
    for draw in range(3):
        assert onnx.check(net, body, seed + draw).outputs["y"] < 1e-5
