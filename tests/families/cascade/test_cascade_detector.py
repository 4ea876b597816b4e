"""A cascade of two stages learns from DetectionData, and finds what it learned in EvalData."""

import json
import re

import numpy as np
import pytest

from caffelite.drawn import shapes


def stage(number: int, proposals: str, std: str) -> str:
    """A stage: the sample of boxes that trains it, its two losses, and in TEST its detections."""
    n, reg = number, f"bbox_reg_param {{ cls_aware: false {'bbox_mean: 0 ' * 4} {std} }}"
    overlap = 0.4 + 0.1 * n
    tops = " ".join(f'top: "{name}_{n}"' for name in ("rois", "label", "target", "inside", "outside", "match"))
    pool = (
        f'layer {{ name: "pool_{n}" type: "ROIPooling" bottom: "conv" bottom: "%s" top: "pool_{n}" '
        "roi_pooling_param { pooled_h: 3 pooled_w: 3 spatial_scale: 0.25 } include { phase: %s } }\n"
    )
    return f"""
layer {{ name: "target_{n}" type: "ProposalTarget" bottom: "{proposals}" bottom: "objects" {tops} {reg}
  include {{ phase: TRAIN }} proposal_target_param {{ cls_num: 6 batch_size: {24 if n == 1 else -1} fg_thr: {overlap:g}
  bg_thr_hg: {overlap:g} bg_thr_lw: 0 num_img_per_batch: 1 img_width: 64 img_height: 64 }} }}
{pool % (f"rois_{n}", "TRAIN")}{pool % (proposals, "TEST")}
layer {{ name: "class_{n}" type: "InnerProduct" bottom: "pool_{n}" top: "class_{n}"
  inner_product_param {{ num_output: 6 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "move_{n}" type: "InnerProduct" bottom: "pool_{n}" top: "move_{n}"
  inner_product_param {{ num_output: 8 weight_filler {{ type: "gaussian" std: 0.001 }} }} }}
layer {{ name: "class_loss_{n}" type: "SoftmaxWithLoss" bottom: "class_{n}" bottom: "label_{n}" top: "class_loss_{n}"
  include {{ phase: TRAIN }} }}
layer {{ name: "move_loss_{n}" type: "SmoothL1Loss" bottom: "move_{n}" bottom: "target_{n}" bottom: "inside_{n}"
  bottom: "outside_{n}" top: "move_loss_{n}" include {{ phase: TRAIN }} }}
layer {{ name: "iou_{n}" type: "BboxAccuracy" bottom: "move_{n}" bottom: "rois_{n}" bottom: "match_{n}" top: "iou_{n}"
  top: "iou_before_{n}" {reg} include {{ phase: TRAIN }} }}
layer {{ name: "prob_{n}" type: "Softmax" bottom: "class_{n}" top: "prob_{n}" include {{ phase: TEST }} }}
layer {{ name: "found_{n}" type: "FrcnnOutput" bottom: "prob_{n}" bottom: "move_{n}" bottom: "{proposals}"
  bottom: "sizes" top: "found_{n}" {reg} frcnn_output_param {{ conf_thr: 0.05 max_det_num: 20 }}
  include {{ phase: TEST }} }}
layer {{ name: "precision_{n}" type: "DetectionEvaluate" bottom: "found_{n}" bottom: "objects" bottom: "sizes"
  top: "precision_{n}" detection_evaluate_param {{ num_classes: 6 }} include {{ phase: TEST }} }}
"""


def decode(phase: str, boxes: str, more: str = "") -> str:
    return f"""
layer {{ name: "decode" type: "DecodeBBox" bottom: "move_1" bottom: "{boxes}" {more} top: "boxes_2"
  bbox_reg_param {{ {"bbox_mean: 0 " * 4} {STD[0]} }} include {{ phase: {phase} }} }}
"""


STD = ("bbox_std: 0.1 bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2", "bbox_std: 0.05 " * 2 + "bbox_std: 0.1 " * 2)
PIXELS = "transform_param { mean_value: 128 scale: 0.01"
NET = f"""
layer {{ name: "train" type: "DetectionData" top: "data" top: "labels" top: "objects" include {{ phase: TRAIN }}
  {PIXELS} mirror: true }} detection_data_param {{ source: "windows.txt" root_folder: "shapes/" batch_size: 1
  stride: 8 field_w: 24 field_h: 24 output_gt_boxes: true shuffle: "random" }} }}
layer {{ name: "test" type: "EvalData" top: "data" top: "objects" top: "sizes" include {{ phase: TEST }} {PIXELS} }}
  eval_data_param {{ source: "windows.txt" root_folder: "shapes/" batch_size: 1 }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param {{ num_output: 8 kernel_size: 4 stride: 4 weight_filler {{ type: "msra" }} }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "conv" type: "Convolution" bottom: "conv1" top: "conv"
  convolution_param {{ num_output: 16 kernel_size: 3 pad: 1 weight_filler {{ type: "msra" }} }} }}
layer {{ name: "relu" type: "ReLU" bottom: "conv" top: "conv" }}
layer {{ name: "score" type: "Convolution" bottom: "conv" top: "score"
  convolution_param {{ num_output: 6 kernel_size: 2 stride: 2 weight_filler {{ type: "gaussian" std: 0.01 }} }} }}
layer {{ name: "offset" type: "Convolution" bottom: "conv" top: "offset"
  convolution_param {{ num_output: 4 kernel_size: 2 stride: 2 weight_filler {{ type: "gaussian" std: 0.01 }} }} }}
layer {{ name: "slice" type: "Slice" bottom: "labels" top: "label" top: "rest" include {{ phase: TRAIN }}
  slice_param {{ slice_point: 1 }} }}
layer {{ name: "silence" type: "Silence" bottom: "rest" include {{ phase: TRAIN }} }}
layer {{ name: "score_loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "score_loss"
  include {{ phase: TRAIN }} }}
layer {{ name: "prob" type: "Softmax" bottom: "score" top: "prob" }}
layer {{ name: "boxes" type: "BoxGroupOutput" bottom: "prob" bottom: "offset" top: "boxes_1" box_group_output_param {{
  box_group_param {{ field_w: 24 field_h: 24 stride: 8 }} iou_thr: 0.7 max_post_nms_num: 30 }} }}
{stage(1, "boxes_1", STD[0])}
{decode("TRAIN", "rois_1", 'bottom: "match_1"')}{decode("TEST", "boxes_1")}
{stage(2, "boxes_2", STD[1])}
"""
SOLVER = """
net: "cascade.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 200 display: 1 random_seed: 3
test_iter: 12 test_interval: 200 test_initialization: false snapshot_after_train: false
"""


@pytest.fixture
def cascade(folder):
    shapes.write(folder / "shapes", {"train": 12, "test": 1}, 64, 0)
    coco, lines = json.loads((folder / "shapes" / "train.json").read_text()), []
    for i, image in enumerate(coco["images"]):
        boxes = [one for one in coco["annotations"] if one["image_id"] == image["id"]]
        lines += [f"# {i}", image["file_name"], 3, image["height"], image["width"], len(boxes)]
        for one in boxes:
            x, y, width, height = one["bbox"]
            lines.append(f"{one['category_id']} 0 0 {x} {y} {x + width - 1} {y + height - 1}")
        lines.append(0)
    (folder / "windows.txt").write_text("\n".join(map(str, lines)) + "\n")
    (folder / "cascade.prototxt").write_text(NET)


@pytest.mark.slow
def test_both_stages_learn(cascade, train):
    run = train(SOLVER)
    losses = np.array(run.losses())
    assert np.isfinite(losses).all()
    assert losses[-30:].mean() < 0.6 * losses[:10].mean()
    scores = {m[1]: float(m[2]) for line in run.log if (m := re.search(r"Test net .*: (precision_\d) = (\S+)", line))}
    assert scores["precision_1"] > 0.1 and scores["precision_2"] > 0.1
