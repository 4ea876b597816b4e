"""ONNX: what YOLO's nets detect."""

import numpy as np
import pytest
from export.exported_nets import exported

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.proof.onnx_runner import OnnxRunner

ANCHORS = " ".join(f"biases: {size}" for size in (0.7, 1.1, 1.5, 1.2))
PIXELS = " ".join(f"biases: {size}" for size in (10, 14, 23, 27, 37, 58, 81, 82))
MASKS = "mask_group_num: 2 mask: 2 mask: 3 mask: 0 mask: 1 anchors_scale: 32 anchors_scale: 16"
V3 = f"num_classes: 3 num_box: 2 {MASKS} {PIXELS}"
LAYERS = {
    "v2": (
        "YoloDetectionOutput",
        f"yolo_detection_output_param {{ num_classes: 3 num_box: 2 {ANCHORS} }}",
        [(16, 4, 5)],
    ),
    "v3": ("Yolov3DetectionOutput", f"yolov3_detection_output_param {{ {V3} }}", [(16, 2, 3), (16, 4, 6)]),
    "v3 with deviations": (
        "Yolov3DetectionOutput",
        f"yolov3_detection_output_param {{ {V3} gaussian_box: true nms_threshold: 0.3 }}",
        [(24, 2, 3), (24, 4, 6)],
    ),
    "nothing": (
        "Yolov3DetectionOutput",
        f"yolov3_detection_output_param {{ {V3} confidence_threshold: 0.9999 }}",
        [(16, 2, 3), (16, 4, 6)],
    ),
    "nothing suppressed": (
        "YoloDetectionOutput",
        f"yolo_detection_output_param {{ num_classes: 3 num_box: 2 {ANCHORS} nms_threshold: 1.5 }}",
        [(16, 3, 2)],
    ),
}


def net(name: str, batch: int) -> prototxt.Document:
    kind, fields, shapes = LAYERS[name]
    lines = [
        f'layer {{ name: "x{i}" type: "Input" top: "x{i}" input_param {{ shape {{ dim: {batch} '
        + " ".join(f"dim: {side}" for side in shape)
        + " } } }"
        for i, shape in enumerate(shapes)
    ]
    bottoms = " ".join(f'bottom: "x{i}"' for i in range(len(shapes)))
    lines.append(f'layer {{ name: "y" type: "{kind}" {bottoms} top: "y" {fields} }}')
    return prototxt.parse("\n".join(lines), pb.NetParameter)


@pytest.mark.parametrize("name", LAYERS)
def test_boxes(name, seed):
    _, body = exported(net(name, 1), seed, "float32")
    for batch in (1, 3):
        here, _ = exported(net(name, batch), seed, "float32")
        rng = np.random.default_rng(seed + batch)
        fed = {n: rng.normal(0, 1.5, v.shape).astype(np.float32) for n, v in here.graph.inputs.items()}
        here.set_inputs(**fed)
        here.forward(0)
        mine, theirs = here.blobs["y"], OnnxRunner(body, "the test").outputs(fed)["y"]
        assert mine.shape == theirs.shape and len(mine[0, 0]) >= batch
        np.testing.assert_allclose(theirs, mine, rtol=1e-4, atol=1e-4)
