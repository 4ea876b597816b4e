"""A small Faster R-CNN: its random samples are resumed, and it learns from images that differ in size."""

import json

import numpy as np
import pytest

from caffelite.data.images import encode_png

NET = """
layer { name: "data" type: "RoIData" top: "data" top: "im_info" top: "gt_boxes"
  transform_param { mean_value: 128 scale: 0.01 mirror: true }
  roi_data_param { source: "boxes.json" short_side: 0 shuffle: true } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 4 stride: 4 weight_filler { type: "msra" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "score" type: "Convolution" bottom: "conv" top: "score"
  convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "move" type: "Convolution" bottom: "conv" top: "move"
  convolution_param { num_output: 8 kernel_size: 1 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "pairs" type: "Reshape" bottom: "score" top: "pairs"
  reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }
layer { name: "rpn" type: "AnchorTarget" bottom: "score" bottom: "gt_boxes" bottom: "im_info"
  top: "a" top: "b" top: "c" top: "d"
  anchor_target_param { feat_stride: 4 base_size: 8 ratio: 1 scale: [1, 2] batch_size: 8 } }
layer { name: "l1" type: "SoftmaxWithLoss" bottom: "pairs" bottom: "a" top: "l1" loss_param { ignore_label: -1 } }
layer { name: "l2" type: "SmoothL1Loss" bottom: "move" bottom: "b" bottom: "c" bottom: "d" top: "l2" }
layer { name: "prob" type: "Softmax" bottom: "pairs" top: "prob" }
layer { name: "back" type: "Reshape" bottom: "prob" top: "back"
  reshape_param { shape { dim: 0 dim: 4 dim: -1 dim: 0 } } }
layer { name: "proposal" type: "Proposal" bottom: "back" bottom: "move" bottom: "im_info" top: "boxes"
  proposal_param { feat_stride: 4 base_size: 8 ratio: 1 scale: [1, 2] min_size: 4 pre_nms_topn: 30 post_nms_topn: 12 } }
layer { name: "target" type: "ProposalTarget" bottom: "boxes" bottom: "gt_boxes"
  top: "rois" top: "e" top: "f" top: "g" top: "h" proposal_target_param { num_classes: 3 batch_size: 6 } }
layer { name: "pool" type: "ROIPooling" bottom: "conv" bottom: "rois" top: "pool"
  roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.25 } }
layer { name: "class" type: "InnerProduct" bottom: "pool" top: "class"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "place" type: "InnerProduct" bottom: "pool" top: "place"
  inner_product_param { num_output: 12 weight_filler { type: "xavier" } } }
layer { name: "l3" type: "SoftmaxWithLoss" bottom: "class" bottom: "e" top: "l3" }
layer { name: "l4" type: "SmoothL1Loss" bottom: "place" bottom: "f" bottom: "g" bottom: "h" top: "l4" }
"""
SOLVER = """
net: "regions.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 12 display: 1 random_seed: 3
snapshot: 5 snapshot_prefix: "run"
"""


@pytest.fixture
def regions(folder):
    rng, coco = np.random.default_rng(0), {"images": [], "annotations": [], "categories": [{"id": 1}, {"id": 2}]}
    for i, (height, width) in enumerate([(24, 32), (32, 24), (24, 32), (28, 28)]):
        (folder / f"{i}.png").write_bytes(encode_png(rng.integers(0, 256, (height, width, 3)).astype(np.uint8)))
        coco["images"].append({"id": i, "file_name": f"{i}.png", "height": height, "width": width})
        for k in range(i):
            box = {"image_id": i, "category_id": 1 + k % 2, "bbox": [3 * k, 5, 10 + k, 9]}
            coco["annotations"].append(box)
    (folder / "boxes.json").write_text(json.dumps(coco))
    (folder / "regions.prototxt").write_text(NET)


def test_samples_and_shapes_are_resumed(regions, train):
    whole = train(SOLVER)
    resumed = train(SOLVER.replace('"run"', '"again"'), resume="run_iter_5.solverstate")
    assert np.isfinite(whole.losses()).all() and len(set(whole.losses())) > 8
    np.testing.assert_equal(whole.params(), resumed.params())
    assert whole.losses()[-5:] == resumed.losses()[-5:]
