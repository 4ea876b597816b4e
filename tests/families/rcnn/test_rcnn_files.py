"""Files of forks: region detectors."""

from prototxt.upgrading import modern

FRCNN = """layer { type: "FrcnnRoiData" name: "d" top: "data" top: "im_info" top: "gt_boxes"
      window_data_param { source: "list" } }
    layer { type: "FrcnnAnchorTarget" name: "a" } layer { type: "FrcnnProposal" name: "p" }
    layer { type: "FrcnnProposalTarget" name: "t" }
    layer { type: "FrcnnProposalTarget" name: "of 5" proposal_target_param { num_classes: 5 } }"""


def test_faster_rcnn_in_cpp_has_the_layers_of_its_python():
    layers = modern(FRCNN).message.layer
    assert [layer.type for layer in layers] == ["RoIData", "AnchorTarget", "Proposal", *["ProposalTarget"] * 2]
    assert not layers[0].HasField("window_data_param")
    assert [layer.proposal_target_param.num_classes for layer in layers[3:]] == [21, 5]
