"""Detectors in files of forks: fields that they added to SSD's messages, clustered prior boxes.

The names come from the forks' schemas: NVIDIA/caffe 0.17, foss-for-synopsys-dwc-arc-processors/synopsys-caffe,
chuanqi305/ssd, eric612/MobileNet-YOLO, and from nets of OpenVINO.
"""

from ... import caffelite_pb2 as pb
from ...prototxt.families import Changes, unchanged

FIELDS = {
    "NVCaffe": {"MultiBoxLossParameter": "ignore_difficult_gt=false"},
    "Synopsys Caffe": {
        "DetectionOutputParameter": "nbottom=6 no_permute=false",
        "PriorBoxParameter": "faceboxes=false keras=false tf=false",
    },
    "SSD's Caffe": {"PriorBoxParameter": "reduce_boxes"},
    "MobileNet-YOLO's Caffe": {
        "AnnotatedDataParameter": (
            "difficult_label_warmup=false seg_resize_height=0 seg_resize_width=0 seg_scales=8 single_class=true"
        ),
    },
    "OpenVINO's Caffe": {"DetectionOutputParameter": "input_height input_width normalized=true"},
}
HARMLESS = {
    # No code of NVIDIA/caffe reads it
    "is read by no layer": "ignore_difficult_gt",
    # OpenVINO's specification of DetectionOutput
    "is read with normalized: false alone": "input_height input_width",
}
REMEDIES = {"faceboxes": "write density: [4, 2, 1], one for each min_size"}


def _clustered(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """``box_width`` and ``box_height`` of a PriorBox, of Synopsys Caffe."""
    changes, p = unchanged(), layer.prior_box_param
    if p.box_width:
        changes.dialects.append("box_width of a PriorBox")
        layer.type = "PriorBoxClustered"
        for name in ("width", "height"):
            getattr(p, name)[:] = getattr(p, f"box_{name}")
            p.ClearField(f"box_{name}")
            changes.moves["prior_box_param", f"box_{name}"] = "prior_box_param", name
    return changes


CHANGES = {"PriorBox": _clustered}
