"""What random nets need of this family: bottoms of layers that only valid data reach, and inexact gradients."""

import random

from net_contracts import Contract, annotations, normal, truths

# Types whose gradient is not the derivative, as in the programs that they come from
INEXACT = frozenset("RegionLoss Yolov3".split())


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    height, width = rng.choice((2, 3, 5)), rng.choice((3, 4))
    grid, anchors = ((2, 16, height, width), normal), "biases: 1 biases: 1.5 biases: 2 biases: 0.75"
    yolo = f"num_classes: 3 num_box: 2 confidence_threshold: 0.2 nms_threshold: 0.3 {anchors}"
    far = "biases: 8 biases: 12 biases: 16 biases: 6"
    return {
        "EvalDetection": Contract(
            f"eval_detection_param {{ side: 3 num_class: 3 num_object: 2 threshold: 0.25 {anchors} }}",
            (((2, 16, 3, 3), normal), ((1, 1, 5, 8), annotations)),
        ),
        "RegionLoss": Contract(
            f"region_loss_param {{ num: 2 num_class: 3 object_scale: 5 coord_scale: 2 thresh: 0.3 {anchors} }}",
            (grid, ((2, 15), truths)),
        ),
        "Yolov3": Contract(
            f"yolov3_param {{ num: 2 num_class: 3 anchors_scale: 8 thresh: 0.3 mask: 0 mask: 1 {far} }}",
            (grid, ((2, 15), truths)),
        ),
        "YoloDetectionOutput": Contract(f"yolo_detection_output_param {{ {yolo} }}", (grid,)),
        "Yolov3DetectionOutput": Contract(
            "yolov3_detection_output_param { num_classes: 3 num_box: 1 confidence_threshold: 0.2 nms_threshold: 0.3 "
            f"mask: 0 mask: 1 anchors_scale: 16 anchors_scale: 16 {far} }}",
            (((2, 8, 3, 4), normal), ((2, 8, 2, 2), normal)),
        ),
    }
