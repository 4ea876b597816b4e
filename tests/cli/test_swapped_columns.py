"""A test table whose columns are in another order than those of training, behind every command."""

import json
from pathlib import Path

import cv2
import numpy as np

NET = """name: "n"
layer { name: "d" type: "ImageData" top: "data" top: "label" include { phase: TRAIN } transform_param { scale: 0.004 }
  image_data_param { source: "train.csv" batch_size: 20 shuffle: true } }
layer { name: "d" type: "ImageData" top: "data" top: "label" include { phase: TEST } transform_param { scale: 0.004 }
  image_data_param { source: "test.csv" batch_size: 20 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SOLVER = """net: "n.prototxt" base_lr: 0.05 lr_policy: "fixed" max_iter: 150 snapshot_prefix: "a" random_seed: 1
test_iter: 1 test_interval: 150
"""


def test_labels_are_those_of_the_names(in_tmp_path, call):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(20):
        image = rng.integers(0, 40, (8, 8, 3)).astype(np.uint8)
        blue, green = i % 2, i // 2 % 2 if i % 5 else 1
        image += (np.array([150, 150, 0]) * (blue, green, 0)).astype(np.uint8)
        cv2.imwrite(f"{i}.png", image)
        rows.append((f"{i}.png", blue, green))
    Path("train.csv").write_text("file,blue,green\n" + "".join(f"{f},{b},{g}\n" for f, b, g in rows))
    Path("test.csv").write_text("file,green,blue\n" + "".join(f"{f},{g},{b}\n" for f, b, g in rows))
    Path("n.prototxt").write_text(NET)
    Path("s.prototxt").write_text(SOLVER)
    assert call("train", "-solver", "s.prototxt").ok
    weights = ("-model", "n.prototxt", "-weights", "a_iter_150.caffemodel")
    tested = json.loads(call("test", *weights, "-json").ok.out)
    labels = {row["label"]: row for row in tested["multi_label"]["labels"]}
    assert [labels[name]["positive"] for name in ("blue", "green")] == [sum(row[i] for row in rows) for i in (1, 2)]
    assert labels["blue"]["f1"] == labels["green"]["f1"] == 1
    assert call("deploy", *weights, "-out", "d.prototxt").ok
    known = call("classify", "-model", "d.prototxt", "-list", "test.csv", "-json").ok
    scores = {score["name"]: score["value"] for score in json.loads(known.out)["scores"]}
    assert scores["blue"] == scores["green"] == 1
