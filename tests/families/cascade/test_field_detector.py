"""A small MS-CNN: two maps of fields, boxes of the maps for a second stage; it learns shapes, and a run is resumed."""

import numpy as np
import pytest

from caffelite.data.images import encode_png
from caffelite.drawn import shapes

MAP = """
layer {{ name: "map{n}" type: "Convolution" bottom: "{below}" top: "map{n}" convolution_param {{ num_output: 6
  kernel_size: 3 pad: 1 weight_filler {{ type: "gaussian" std: 0.05 }} }} }}
layer {{ name: "loss{n}" type: "DetectionLoss" bottom: "map{n}" bottom: "label{n}" top: "loss{n}" loss_weight: 0.9
  detection_loss_param {{ cls_num: 2 objectness: true {field} sample_mode: "mixture" pos_neg_weighted: true }} }}
layer {{ name: "accuracy{n}" type: "DetectionAccuracy" bottom: "map{n}" bottom: "label{n}" top: "accuracy{n}"
  top: "overlap{n}" detection_accuracy_param {{ cls_num: 2 objectness: true {field} field_xyr: 2 }} }}
"""
FIELDS = ("field_w: 20 field_h: 20 downsample_rate: 8", "field_w: 32 field_h: 32 downsample_rate: 16")
NET = (
    """
layer { name: "data" type: "ImageGtData" top: "data" top: "label1" top: "label2" top: "boxes"
  transform_param { mirror: true mean_value: 128 }
  image_gt_data_param { source: "boxes.txt" batch_size: 4 scale: 0.01 shuffle: true output_gt_boxes: true
    crop_width: 64 crop_height: 64 do_multiple_scale: true min_scale: 16 max_scale: 40 @FIELDS@ } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 12 kernel_size: 8 stride: 8 weight_filler { type: "msra" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
layer { name: "pool" type: "Pooling" bottom: "conv2" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
"""
    + MAP.format(n=1, below="conv2", field=FIELDS[0])
    + MAP.format(n=2, below="pool", field=FIELDS[1])
    + """
layer { name: "proposals" type: "BoxOutput" bottom: "map1" bottom: "map2" top: "rois"
  box_output_param { @FIELDS@ fg_thr: -1 min_size: 4 max_post_nms_num: 8 } }
layer { name: "count" type: "Silence" bottom: "rois" bottom: "boxes" }
"""
).replace("@FIELDS@", " ".join(FIELDS))
SOLVER = """
net: "fields.prototxt" base_lr: 0.02 lr_policy: "fixed" momentum: 0.9 max_iter: 60 display: 1 random_seed: 3
snapshot: 50 snapshot_prefix: "run"
"""


@pytest.fixture
def fields(folder):
    """Eight images of shapes, all of label 1."""
    lines = []
    for i in range(8):
        sample = shapes.draw(0, "train", i, 64)
        (folder / f"{i}.png").write_bytes(encode_png(sample.pixels))
        lines += [f"# {i}", f"{i}.png", 3, 64, 64, len(sample.boxes)]
        lines += [f"1 0 {box.xmin} {box.ymin} {box.xmax} {box.ymax}" for box in sample.boxes] + [0]
    (folder / "boxes.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "fields.prototxt").write_text(NET)


def test_losses_of_maps_fall_and_a_run_resumes(fields, train):
    whole = train(SOLVER)
    losses = whole.losses()
    assert np.isfinite(losses).all() and np.mean(losses[-10:]) < 0.75 * np.mean(losses[:5])
    resumed = train(SOLVER.replace('"run"', '"again"'), resume="run_iter_50.solverstate")
    assert losses[-10:] == resumed.losses()[-10:]
    np.testing.assert_equal(whole.params(), resumed.params())
