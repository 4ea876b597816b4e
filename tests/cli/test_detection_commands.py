"""Detection from a data set to pictures: dataset detection, info and show, test -report, deploy, classify."""

import csv
import json

import cv2
import numpy as np
import pytest
from report_pages import write_weights

NET = """
layer { name: "data" type: "AnnotatedData" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.004 resize_param { height: 16 width: 16 } }
  data_param { source: "boxes_lmdb" backend: LMDB batch_size: 2 }
  annotated_data_param { label_map_file: "boxes_labelmap.prototxt" } }
layer { name: "loc" type: "InnerProduct" bottom: "data" top: "loc" inner_product_param { num_output: 16 } }
layer { name: "conf" type: "InnerProduct" bottom: "data" top: "conf" inner_product_param { num_output: 12 } }
layer { name: "prior" type: "PriorBox" bottom: "cells" bottom: "data" top: "prior"
  prior_box_param { min_size: 8 variance: 0.1 } }
layer { name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior" top: "out"
  detection_output_param { num_classes: 3 code_type: CENTER_SIZE confidence_threshold: 0.2 } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "out" bottom: "label" top: "eval" include { phase: TEST }
  detection_evaluate_param { num_classes: 3 ap_version: "11point" } }
"""
CELLS = 'layer { name: "cells" type: "Pooling" bottom: "data" top: "cells" pooling_param { pool: AVE kernel_size: 8 '
CELLS += "stride: 8 } }\n"


@pytest.fixture
def boxes(folder, call):
    """Three images of a light quarter each: the upper ones of class a, the lower one of class b; a net that finds the
    quarters by their light."""
    quarters = [(0, 0, 1), (0, 1, 1), (1, 0, 2)]
    coco = {"images": [], "annotations": [], "categories": [{"id": 5, "name": "a"}, {"id": 9, "name": "b"}]}
    for i, (row, column, label) in enumerate(quarters):
        image = np.zeros((32, 48, 3), np.uint8)
        image[row * 16 : row * 16 + 16, column * 24 : column * 24 + 24] = 250
        cv2.imwrite(f"{folder}/{i}.png", image)
        coco["images"].append({"id": i, "file_name": f"{i}.png"})
        box = {"image_id": i, "category_id": [5, 9][label - 1], "bbox": [24 * column, 16 * row, 24, 16]}
        coco["annotations"].append(box)
    (folder / "boxes.json").write_text(json.dumps(coco))
    assert "3 images with 3 objects" in call("dataset", "detection", "boxes.json", "--out", ".").ok.err
    (folder / "boxes.prototxt").write_text(NET.replace('layer { name: "prior"', CELLS + 'layer { name: "prior"'))
    conf, bias = np.zeros((4, 3, 3, 16, 16)), np.zeros((4, 3))
    for place in range(4):  # the light of its quarter is the score of its class
        row, column = divmod(place, 2)
        conf[place, 1 + row, :, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 1 / (3 * 64)
    weights = {"loc": [np.zeros((16, 768)), np.zeros(16)], "conf": [conf.reshape(12, 768), bias.reshape(-1)]}
    write_weights(folder / "w.caffemodel", {k: [b.astype(np.float32) for b in v] for k, v in weights.items()})
    return folder


@pytest.mark.slow
def test_from_json_to_pictures(boxes, call):
    assert (boxes / "boxes_sizes.txt").read_text().splitlines() == ["0 32 48", "1 32 48", "2 32 48"]
    info = json.loads(call("dataset", "info", "boxes_lmdb", "--json").ok.out)["sets"][0]
    assert info["objects"] == {"1": 2, "2": 1} and info["objects_per_image"] == {"1": 3} and not info["odd"]
    assert call("dataset", "show", "boxes_lmdb", "-o", "sheet.png", "--count", 1).status == 0
    sheet = cv2.imread("sheet.png")
    assert (abs(sheet.astype(int) - [75, 180, 60]).max(-1) < 9).any(), "the outline of class 1"
    assert call("dataset", "show", "boxes.prototxt", "-phase", "TEST", "-o", "net.png", "--count", 3).status == 0

    scored = call("test", "-model", "boxes.prototxt", "-weights", "w.caffemodel", "-report", "report").ok
    assert "eval = 1" in scored.lines, scored.err
    actual = json.loads((boxes / "report" / "report.json").read_text())["detection"]
    assert (actual["voc07"], actual["voc12"], actual["coco"], actual["images"]) == (pytest.approx(1), 1, 1, 3)
    assert [(row["label"], row["objects"]) for row in actual["classes"]] == [("a", 2), ("b", 1)]
    assert "Mean average precision" in (boxes / "report" / "report.html").read_text()

    made = call("deploy", "-model", "boxes.prototxt", "-weights", "w.caffemodel", "-out", "deploy.prototxt").ok
    assert "Verified with 4 stored images" in made.err and "how pixels become" not in made.err
    text = (boxes / "deploy.prototxt").read_text()
    assert 'label: "b"' in text and "DetectionEvaluate" not in text and "resize_param" not in text
    common = ("classify", "-model", "deploy.prototxt", "0.png", "2.png")
    listed = json.loads(call(*common, "-json", "-annotate", "drawn").ok.out)
    assert [[d["label"] for d in one["detections"]] for one in listed] == [["a"], ["b"]]
    assert listed[1]["detections"][0]["box"] == pytest.approx([0, 16, 24, 32])
    assert (abs(cv2.imread("drawn/0.png").astype(int) - [75, 180, 60]).max(-1) < 9).any()
    assert (boxes / "drawn" / "all.png").exists()
    assert call(*common, "-csv", "table.csv").status == 0
    rows = list(csv.DictReader((boxes / "table.csv").read_text().splitlines()))
    assert [(row["label"], float(row["xmax"])) for row in rows] == [("a", 24), ("b", 24)]
    assert "a  0.0 0.0 24.0 16.0" in call(*common).ok.out
    assert "nothing found" in call(*common, "-threshold", 1).ok.out
    assert call(*common, "-oversample").status == 2


def test_deploy_refuses_a_detector_whose_images_are_padded(boxes, call):
    resized = "height: 16 width: 16 resize_mode: FIT_LARGE_SIZE_AND_PAD"
    (boxes / "boxes.prototxt").write_text(
        (boxes / "boxes.prototxt").read_text().replace("height: 16 width: 16", resized)
    )
    refused = call("deploy", "-model", "boxes.prototxt", "-weights", "w.caffemodel", "-out", "deploy.prototxt")
    assert refused.status == 2 and "set resize_mode: WARP" in refused.err and not (boxes / "deploy.prototxt").exists()


def test_scores_of_training_and_the_last_batch_count_all_images(boxes, call):
    (boxes / "s.prototxt").write_text(
        'net: "train.prototxt" test_iter: 3 test_interval: 1 max_iter: 1 base_lr: 0 lr_policy: "fixed" display: 0 '
        'ap_version: "MaxIntegral" show_per_class_result: true snapshot_after_train: false best_score: "eval"'
    )
    train = NET.replace('layer { name: "prior"', CELLS + 'layer { name: "prior"')
    start = train[: train.index('layer { name: "loc"')].replace("TEST", "TRAIN")
    loss = 'layer { name: "loss" type: "MultiBoxLoss" bottom: "loc" bottom: "conf" bottom: "prior" bottom: "label" '
    loss += 'top: "loss" include { phase: TRAIN } multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE } }'
    (boxes / "train.prototxt").write_text(start + train + loss)
    result = call("train", "-solver", "s.prototxt", "-weights", "w.caffemodel").ok
    assert result.lines.count("    Test net output #0: eval = 1") == 2, result.err
    assert "class1: 1" in result.lines and "class2: 1" in result.lines


def test_mistakes(boxes, call):
    assert "none.json: cannot read" in call("dataset", "detection", "none.json").refused.err
    assert "already exists" in call("dataset", "detection", "boxes.json").refused.err
    (boxes / "labels.txt").write_text("background\na\n")
    result = call("dataset", "detection", "boxes.json", "--labels", "labels.txt", "--name", "other")
    assert result.status == 2 and '"b" is no class' in result.err and not (boxes / "other_lmdb").exists()


YOLO = """
deploy_param { label: "a" label: "b" }
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer { name: "grid" type: "Convolution" bottom: "data" top: "grid"
  convolution_param { num_output: 7 kernel_size: 16 } }
layer { name: "out" type: "Yolov3DetectionOutput" bottom: "grid" top: "out" yolov3_detection_output_param {
  num_classes: 2 num_box: 1 mask_group_num: 1 mask: 0 anchors_scale: 16 biases: 8 biases: 8 } }
"""
REGIONS = """
deploy_param { label: "background" label: "a" label: "b" }
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer { name: "im_info" type: "Input" top: "im_info" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "unused" type: "Silence" bottom: "data" }
layer { name: "rois" type: "InnerProduct" bottom: "im_info" top: "rois" inner_product_param { num_output: 5 } }
layer { name: "cls_score" type: "InnerProduct" bottom: "rois" top: "cls_score" inner_product_param { num_output: 3 } }
layer { name: "bbox_pred" type: "InnerProduct" bottom: "rois" top: "bbox_pred" inner_product_param { num_output: 12 } }
layer { name: "cls_prob" type: "Softmax" bottom: "cls_score" top: "cls_prob" }
"""


def constant(outputs, shape=(5,)):
    """The weights of a layer that answers the same for every input."""
    return [np.zeros((len(outputs), *shape), np.float32), np.array(outputs, np.float32)]


@pytest.mark.parametrize("kind", ["yolo", "regions", "two stages"])
def test_classify_knows_the_boxes_of_other_detectors(folder, call, kind):
    """Each finds one object of class b in the middle of an image, half as wide and high as it."""
    out = 'layer { name: "out" type: "RoIDetectionOutput" bottom: "rois" bottom: "cls_prob" bottom: "bbox_pred" '
    text = {"yolo": YOLO, "regions": REGIONS, "two stages": REGIONS + out + 'bottom: "im_info" top: "out" }'}[kind]
    share = np.array([[0, 0, 0], [0, 0.25, 0], [0.25, 0, 0], [0, 0.75, 0], [0.75, 0, 0]], np.float32)
    weights = {
        "grid": constant([0, 0, 0, 0, 9, -9, 9], (3, 16, 16)),
        "rois": [share, np.array([0, 0, 0, -1, -1], np.float32)],  # of height, width, scale; the last pixels
        "cls_score": constant([0, -9, 9]),
        "bbox_pred": constant([0] * 12),
    }
    names = ["grid"] if kind == "yolo" else ["rois", "cls_score", "bbox_pred"]
    write_weights(folder / "w.caffemodel", {name: weights[name] for name in names})
    (folder / "net.prototxt").write_text(text)
    for name in ("one", "two"):
        cv2.imwrite(f"{folder}/{name}.png", np.zeros((32, 48, 3), np.uint8))
    words = ("-model", "net.prototxt", "-weights", "w.caffemodel", "-annotate", "pages", "-json")
    actual = json.loads(call("classify", "one.png", "two.png", *words).ok.out)
    assert [entry["file"] for entry in actual] == ["one.png", "two.png"]
    for entry in actual:
        (one,) = entry["detections"]
        assert (one["label"], one["class"], one["score"] > 0.99) == ("b", 2, True)
        assert one["box"] == pytest.approx([12, 8, 36, 24], abs=0.01)
    assert cv2.imread("pages/one.png")[8:24, 12:36].any(), "the box is drawn"
