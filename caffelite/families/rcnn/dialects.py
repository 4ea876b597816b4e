"""Region detectors in files of forks: py-faster-rcnn's Python layers, and its layers in C++.

Source: rbgirshick/py-faster-rcnn lib/rpn and lib/roi_data_layer; D-X-Y/caffe-faster-rcnn.
"""

from ... import caffelite_pb2 as pb
from ...prototxt.families import Changes, NativeLayer, unchanged

FIELDS = {"Synopsys Caffe": {"LayerParameter": "roi_align_param"}}
REMEDIES = {"roi_align_param": "write roi_pooling_param, and a Pooling layer of 2 x 2 behind, as MS-CNN does"}
_ANCHORS = {"feat_stride": "feat_stride", "scales": "scale", "ratios": "ratio"}
# And all that is derived from py-faster-rcnn
PYTHON = {
    ("rpn.proposal_layer", "ProposalLayer"): NativeLayer("Proposal", "proposal_param", _ANCHORS),
    ("rpn.anchor_target_layer", "AnchorTargetLayer"): NativeLayer(
        "AnchorTarget", "anchor_target_param", {**_ANCHORS, "allowed_border": "allowed_border"}
    ),
    ("rpn.proposal_target_layer", "ProposalTargetLayer"): NativeLayer(
        "ProposalTarget", "proposal_target_param", {"num_classes": "num_classes"}
    ),
    ("roi_data_layer.layer", "RoIDataLayer"): NativeLayer(
        "RoIData",
        "roi_data_param",
        {"num_classes": "num_classes"},
        r"(?!.*(mask|secondary)).*",  # MNC, RstarCNN
    ),
}


def _in_cpp(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """A layer of D-X-Y/caffe-faster-rcnn, whose settings are in a file of the program."""
    changes = unchanged()
    changes.dialects.append(layer.type)
    layer.type = "RoIData" if layer.type == "FrcnnRoiData" else layer.type.removeprefix("Frcnn")
    if layer.type == "RoIData":
        layer.ClearField("window_data_param")  # lists and settings in forms of the program
    if layer.type == "ProposalTarget" and not layer.proposal_target_param.num_classes:
        layer.proposal_target_param.num_classes = 21  # n_classes of its voc_config.json
    return changes


def detections(net: pb.NetParameter, sizes: list[str]) -> pb.LayerParameter | None:
    """The RoIDetectionOutput of a net that ends in rois, cls_prob and bbox_pred, as Faster R-CNN's test nets do.
    Offsets are taken as they are: those nets store weights whose offsets have no mean and no scale."""
    tops = {top for layer in net.layer for top in layer.top}
    read = {bottom for layer in net.layer for bottom in layer.bottom}
    if not {"rois", "cls_prob", "bbox_pred"} <= tops or {"cls_prob", "bbox_pred"} & read:
        return None
    layer = pb.LayerParameter(name="detections", type="RoIDetectionOutput", top=["detections"])
    layer.bottom.extend(["rois", "cls_prob", "bbox_pred", sizes[0]])
    layer.roi_detection_output_param.bbox_mean.extend([0] * 4)
    layer.roi_detection_output_param.bbox_std.extend([1] * 4)
    return layer


CHANGES = dict.fromkeys(("FrcnnAnchorTarget", "FrcnnProposal", "FrcnnProposalTarget", "FrcnnRoiData"), _in_cpp)
