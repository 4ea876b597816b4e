"""Python layers of py-faster-rcnn by name: native types, and a user's own module where its folder is given."""

import sys
import types

import pytest
from layers.layer_row import Source
from textnet import build

from caffelite import caffelite_pb2 as pb, user_modules
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.families.rcnn.dialects import PYTHON
from caffelite.layers import REGISTRY
from caffelite.layers.base.python_names import native
from caffelite.layers.base.unread_fields import without_effect

TRAIN_NET = """
layer { name: "input-data" type: "Python" top: "data" top: "im_info" top: "gt_boxes"
  python_param { module: "roi_data_layer.layer" layer: "RoIDataLayer" param_str: "'num_classes': 21" } }
layer { name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 24 kernel_size: 16 stride: 16 } }
layer { name: "offset" type: "Convolution" bottom: "data" top: "offset"
  convolution_param { num_output: 48 kernel_size: 16 stride: 16 } }
layer { name: "rpn-data" type: "Python" bottom: "score" bottom: "gt_boxes" bottom: "im_info" bottom: "data"
  top: "rpn_labels" top: "rpn_targets" top: "rpn_inside" top: "rpn_outside"
  python_param { module: "rpn.anchor_target_layer" layer: "AnchorTargetLayer"
    param_str: "'feat_stride': 16 \\n'scales': !!python/tuple [4, 8, 16, 32]" } }
layer { name: "proposal" type: "Python" bottom: "score" bottom: "offset" bottom: "im_info" top: "rois"
  python_param { module: "rpn.proposal_layer" layer: "ProposalLayer"
    param_str: "{feat_stride: 16, 'scales': [4, 8, 16, 32]}" } }
layer { name: "roi-data" type: "Python" bottom: "rois" bottom: "gt_boxes"
  top: "some" top: "labels" top: "targets" top: "inside" top: "outside"
  python_param { module: "rpn.proposal_target_layer" layer: "ProposalTargetLayer" param_str: "'num_classes': 21" }
  proposal_target_param { batch_size: 64 } }
"""


def spec(module: str, layer: str, text: str = "") -> pb.LayerParameter:
    actual = pb.LayerParameter(name="l", type="Python", python_param={"module": module, "layer": layer})
    actual.python_param.param_str = text
    return actual


def test_a_train_net_builds_without_its_modules():
    with user_modules.forbidden():
        graph = build(TRAIN_NET, "TRAIN")
    types = [node.layer.spec.type for node in graph.nodes if node.layer.spec.HasField("python_param")]
    assert types == ["RoIData", "AnchorTarget", "Proposal", "ProposalTarget"]
    shapes = {name: value.shape for name, value in graph.values.items()}
    assert shapes["data"] == (1, 3, 600, 1000) and shapes["im_info"] == (1, 3) and shapes["gt_boxes"] == (1, 5)
    assert shapes["rpn_labels"] == (1, 1, 12 * 37, 62) and shapes["rpn_targets"] == (1, 48, 37, 62)
    assert shapes["rois"] == (2000, 5), "RPN_POST_NMS_TOP_N of TRAIN"
    assert shapes["some"] == (64, 5) and shapes["targets"] == (64, 84)


def test_every_name_stands_for_a_type_with_these_fields():
    for known in PYTHON.values():
        message = pb.LayerParameter.DESCRIPTOR.fields_by_name[known.message].message_type
        assert REGISTRY[known.type].field == known.message
        assert set(known.fields.values()) <= set(message.fields_by_name)


def test_settings_are_read_in_all_their_forms():
    for text in ("'feat_stride': 8\n'scales': [2, 4.5]", "{feat_stride: 8, scales: !!python/tuple [2, 4.5]}",
                 '"feat_stride": 8\nscales: (2, 4.5)'):  # fmt: skip
        actual = native(spec("rpn.proposal_layer", "ProposalLayer", text), NOWHERE)
        assert actual.type == "Proposal"
        assert actual.proposal_param.feat_stride == 8 and list(actual.proposal_param.scale) == [2, 4.5]


def test_fields_of_the_message_go_before_param_str():
    layer = spec("rpn.proposal_layer", "ProposalLayer", "feat_stride: 16\nscales: [1]")
    layer.proposal_param.feat_stride = 4
    layer.proposal_param.scale.extend([2, 3])
    actual = native(layer, NOWHERE).proposal_param
    assert actual.feat_stride == 4 and list(actual.scale) == [2, 3]
    assert layer.type == "Python", "the caller's message stays"


@pytest.mark.parametrize(
    "text, message",
    [
        ("'feat_strid': 16", 'unknown key "feat_strid" in param_str of ProposalLayer; expected feat_stride'),
        ("'feat_stride': sixteen", 'cannot read "feat_stride" in param_str'),
        ("'feat_stride': -16", "a bad feat_stride in param_str"),
        ("'scales': [[1]]", 'cannot read "scales"|unknown key|a list'),
        ("sixteen", "cannot read param_str"),
    ],
)
def test_bad_settings(text, message):
    with pytest.raises(CaffeliteError, match=message):
        native(spec("rpn.proposal_layer", "ProposalLayer", text), NOWHERE)


def test_a_layer_with_other_blobs_is_another_module():
    """As in programs made from py-faster-rcnn, whose targets have a further top."""
    text = TRAIN_NET.replace('top: "outside"', 'top: "outside" top: "more"')
    with user_modules.forbidden(), pytest.raises(CaffeliteError, match="rpn.proposal_target_layer.*not imported"):
        build(text, "TRAIN")


@pytest.mark.parametrize("top", ["secondary_rois", "loss_mask", "gt_masks"])
def test_a_data_layer_with_another_top_is_another_module(top):
    """As of RstarCNN and MNC."""
    layer = spec("roi_data_layer.layer", "RoIDataLayer", "'num_classes': 11")
    layer.top.extend(["data", "rois", "labels"])
    assert native(layer, NOWHERE).type == "RoIData"
    layer.top.append(top)
    assert native(layer, NOWHERE) is layer


def test_a_layer_with_a_key_of_its_own_is_another_module(caplog):
    """As nnop/mtnet's, whose ProposalLayer has further tops and a key for them; also a key that resembles one which is
    there as well."""
    for key in ("has_extra", "feat_strides"):
        layer = spec("rpn.proposal_layer", "ProposalLayer", f'{{"feat_stride": 16, "{key}": 1}}')
        assert native(layer, NOWHERE) is layer
        assert caplog.messages[-1].endswith(f'param_str has "{key}", so it needs its own module, and is no Proposal')


def test_other_python_layers_stay():
    for layer in (spec("rpn.proposal_layer", "OtherLayer"), spec("other", "ProposalLayer")):
        assert native(layer, NOWHERE) is layer


def test_a_module_in_the_user_s_folder_goes_before(tmp_path, monkeypatch):
    layer = spec("rpn.proposal_layer", "ProposalLayer", "feat_stride: 16")
    (tmp_path / "rpn").mkdir()
    (tmp_path / "rpn" / "proposal_layer.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    with user_modules.forbidden():
        assert native(layer, NOWHERE).type == "Proposal"
        user_modules.permit()
        assert native(layer, NOWHERE).type == "Proposal", "a module that is merely installed"
        user_modules.permit([tmp_path])
        assert native(layer, NOWHERE).type == "Python"


def test_a_package_that_the_program_has_imported_goes_before(monkeypatch):
    layer = spec("rpn.proposal_layer", "ProposalLayer", "feat_stride: 16")
    monkeypatch.setitem(sys.modules, "rpn", types.ModuleType("rpn"))
    with user_modules.forbidden():
        assert native(layer, NOWHERE).type == "Proposal"
        user_modules.permit()
        assert native(layer, NOWHERE).type == "Python"


def test_a_layer_that_replaces_a_python_layer_reads_python_param():
    module = 'module: "roi_data_layer.layer" layer: "RoIDataLayer" param_str: "num_classes: 21"'
    text = f'layer {{ name: "d" type: "Python" top: "x" top: "rois" top: "t" python_param {{ {module} }} }}'
    (node,) = build(text, open_source=Source).nodes
    assert not [*without_effect(node.layer)]
