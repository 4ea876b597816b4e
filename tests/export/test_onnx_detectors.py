"""ONNX: detectors, segmentation, flow and text give onnxruntime's rows, and any number of images may enter."""

import numpy as np
import onnxruntime
import pytest
from export.exported_nets import exported, text

from caffelite import caffelite_pb2 as pb, devices, prototxt
from caffelite.errors import CaffeliteError
from caffelite.export import onnx
from caffelite.layers.base.exporting import EXAMPLES
from caffelite.net import graph
from caffelite.net.net import Net
from caffelite.runs.open_net import load_weights
from caffelite.zoo import trained


def both(document: prototxt.Document, seed: int, inputs: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each output of the net, and of its ONNX file in onnxruntime."""
    net, body = exported(document, seed, "float32")
    net.set_inputs(**inputs)
    net.forward(0)
    mine = {value.name: net.dev.download(net.data[value]) for value in net.graph.outputs}
    session = onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"])
    theirs = dict(zip(mine, session.run([*mine], inputs), strict=True))
    return [(mine[name], theirs[name]) for name in mine]


def same(document: prototxt.Document, seed: int, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The first output. Errors: another shape or other values than onnxruntime's."""
    pairs = both(document, seed, inputs)
    for mine, theirs in pairs:
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)
    return pairs[0][0]


def layers(inputs: dict[str, np.ndarray], layer: str) -> prototxt.Document:
    shapes = "".join(
        f'layer {{ name: "in {name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        f"{' '.join(f'dim: {d}' for d in array.shape)} }} }} }}\n"
        for name, array in inputs.items()
    )
    bottoms = " ".join(f'bottom: "{name}"' for name in inputs)
    return prototxt.modern(
        prototxt.parse(f'{shapes}layer {{ name: "layer" {bottoms} top: "y" {layer} }}', pb.NetParameter)
    )


PRIORS = 40
SSD = {
    "shared": "num_classes: 4",
    "per class": "num_classes: 4 code_type: CENTER_SIZE share_location: false",
    "corners": "num_classes: 4 code_type: CORNER",
    "corner sizes": "num_classes: 4 code_type: CORNER_SIZE variance_encoded_in_target: true",
    "limits": "num_classes: 4 nms_param { nms_threshold: 0.2 top_k: 12 } keep_top_k: 9 confidence_threshold: 0.2",
    "clipped": "num_classes: 4 code_type: CENTER_SIZE clip: true keep_top_k: 30",
    "nothing": "num_classes: 4 confidence_threshold: 2",
    "no background": "num_classes: 4 background_label_id: -1 nms_param { top_k: 5 }",
}


@pytest.mark.parametrize("name", SSD)
def test_rows_of_ssd(name, seed):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 0.6, (PRIORS, 2))
    priors = np.concatenate([corners, corners + rng.uniform(0.1, 0.4, (PRIORS, 2))], 1)
    columns = 16 if "per class" in name else 4
    inputs = {
        "offsets": rng.normal(0, 0.5, (3, PRIORS * columns)),
        "scores": rng.dirichlet(np.ones(4), (3, PRIORS)).reshape(3, -1),
        "priors": np.stack([priors.reshape(-1), np.full(PRIORS * 4, 0.2)])[None],
    }
    inputs = {key: values.astype(np.float32) for key, values in inputs.items()}
    rows = same(layers(inputs, f'type: "DetectionOutput" detection_output_param {{ {SSD[name]} }}'), seed, inputs)
    assert (rows.shape[2] == 3) == (name == "nothing")


def test_moved_priors(seed):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 0.6, (PRIORS, 2))
    priors = np.concatenate([corners, corners + rng.uniform(0.1, 0.4, (PRIORS, 2))], 1)
    inputs = {
        "offsets": rng.normal(0, 0.5, (2, PRIORS * 4)),
        "scores": rng.dirichlet(np.ones(3), (2, PRIORS)).reshape(2, -1),
        "priors": np.stack([priors.reshape(-1), np.full(PRIORS * 4, 0.2)])[None],
        "objectness": rng.dirichlet([1, 0.1], (2, PRIORS)).reshape(2, -1),
        "moves": rng.normal(0, 0.5, (2, PRIORS * 4)),
    }
    inputs = {key: values.astype(np.float32) for key, values in inputs.items()}
    how = "num_classes: 3 confidence_threshold: 0.05"
    assert len(same(layers(inputs, f'type: "DetectionOutput" detection_output_param {{ {how} }}'), seed, inputs)[0, 0])


def test_what_onnx_cannot_suppress(seed):
    inputs = {"offsets": np.zeros((1, 4)), "scores": np.zeros((1, 2)), "priors": np.zeros((1, 2, 4))}
    net = layers(inputs, 'type: "DetectionOutput" detection_output_param { num_classes: 2 nms_param { eta: 0.9 } }')
    with pytest.raises(CaffeliteError, match="an eta below 1 cannot be expressed in ONNX"):
        exported(net, seed)


IN_BOXES = {
    "plain": 'type: "Proposal" proposal_param { %s }',
    "nothing stays": 'type: "Proposal" python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" } '
    "proposal_param { feat_stride: 8 base_size: 8 min_size: 4000 scale: 1 scale: 2 }",
}


@pytest.mark.parametrize("name", IN_BOXES)
def test_proposals(name, seed):
    rng = np.random.default_rng(seed)
    inputs = {
        "scores": rng.uniform(0, 1, (2, 12, 5, 6)),
        "offsets": rng.normal(0, 0.3, (2, 24, 5, 6)),
        "info": np.array([[40, 48, 1], [36, 44, 2]]),
    }
    inputs = {key: values.astype(np.float32) for key, values in inputs.items()}
    fields = "feat_stride: 8 base_size: 8 min_size: 5 scale: 1 scale: 2 pre_nms_topn: 60 post_nms_topn: 9"
    layer = IN_BOXES[name].replace("%s", fields)
    rows = same(layers(inputs, f'top: "scores of boxes" {layer}'), seed, inputs)
    assert len(rows) == (2 if name == "nothing stays" else 18)


@pytest.mark.parametrize("fields", ["", "keep_top_k: 7 confidence_threshold: 0.3", "confidence_threshold: 1"])
@pytest.mark.parametrize("columns", [4, 2])
def test_rows_of_regions(columns, fields, seed):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 40, (20, 2))
    rois = np.concatenate([rng.integers(0, 2, (20, 1)), corners, corners + rng.uniform(3, 30, (20, 2))], 1)
    inputs = {
        "rois": rois,
        "scores": rng.dirichlet(np.ones(4), 20),
        "offsets": rng.normal(0, 1, (20, 4 * columns)),
        "info": np.array([[50, 60, 1], [55, 45, 1]]),
    }
    inputs = {key: values.astype(np.float32) for key, values in inputs.items()}
    same(layers(inputs, f'type: "RoIDetectionOutput" roi_detection_output_param {{ {fields} }}'), seed, inputs)


def test_larger_regions(seed):
    rng = np.random.default_rng(seed)
    rois = np.array([[0, 2, 3, 20, 17], [1, 0, 0, 30, 30]], np.float32)
    inputs = {"x": rng.normal(0, 1, (2, 3, 16, 16)).astype(np.float32), "rois": rois}
    fields = "pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 pad_ratio: 0.25"
    same(layers(inputs, f'type: "ROIPooling" roi_pooling_param {{ {fields} }}'), seed, inputs)


@pytest.mark.parametrize("fields", ["", "ctc_merge_repeated: false blank_index: 2"])
@pytest.mark.parametrize("indicated", [False, True])
def test_greedy_decoder(indicated, fields, seed):
    rng = np.random.default_rng(seed)
    inputs = {"scores": rng.normal(0, 1, (9, 4, 5)).astype(np.float32)}
    if indicated:
        inputs["going on"] = (np.arange(9)[:, None] % [4, 9, 5, 7] > 0).astype(np.float32)
    lines = same(layers(inputs, f'type: "CTCGreedyDecoder" ctc_decoder_param {{ {fields} }}'), seed, inputs)
    assert (lines >= 0).any() and (lines == -1).any()


CORRELATIONS = {
    "plain": "Correlation: kernel_size: 1 max_displacement: 2 pad: 2",
    "patches": "Correlation: kernel_size: 3 max_displacement: 4 pad: 3 stride_1: 2 stride_2: 2",
    "differences": "Correlation: kernel_size: 1 max_displacement: 1 correlation_type: SUBTRACT",
    "rows": "Correlation1D: kernel_size: 3 max_displacement: 3 pad: 3",
    "to the right": "Correlation1D: kernel_size: 1 max_displacement: 3 pad: 3 single_direction: 1",
    "to the left": "Correlation1D: kernel_size: 1 max_displacement: 3 pad: 3 single_direction: -1",
}


@pytest.mark.parametrize("name", CORRELATIONS)
def test_correlations(name, seed):
    rng, (kind, fields) = np.random.default_rng(seed), CORRELATIONS[name].split(":", 1)
    inputs = {key: rng.normal(0, 1, (2, 3, 11, 12)).astype(np.float32) for key in "ab"}
    same(layers(inputs, f'type: "{kind}" correlation_param {{ {fields} }}'), seed, inputs)


@pytest.mark.parametrize("bias", ["true", "false"])
def test_rows_of_a_table(bias, seed):
    fields = f'input_dim: 7 num_output: 4 bias_term: {bias} weight_filler {{ type: "xavier" }}'
    inputs = {"codes": np.random.default_rng(seed).integers(0, 7, (5, 3)).astype(np.float32)}
    same(layers(inputs, f'type: "Embed" embed_param {{ {fields} }}'), seed, inputs)


POOL = 'layer { name: "pool" type: "Pooling" bottom: "x" top: "pool" top: "at" pooling_param { kernel_size: 2 %s } }'
UP = 'layer { name: "up" type: "%s" bottom: "pool" bottom: "at" top: "up" %s }'
UNPOOLED = {
    "even sides": ((2, 3, 8, 6), "stride: 2", "Upsample", ""),
    "odd sides": ((2, 3, 7, 5), "stride: 2", "Upsample", "upsample_param { pad_out_h: true pad_out_w: true }"),
    "overlapping": ((2, 3, 5, 5), "", "Unpooling", "unpooling_param { kernel_size: 2 }"),
    "larger": ((2, 3, 8, 6), "stride: 2", "Upsample", "upsample_param { upsample_h: 9 upsample_w: 6 }"),
}


@pytest.mark.parametrize("name", UNPOOLED)
def test_unpooling(name, seed):
    shape, pool, kind, up = UNPOOLED[name]
    dims = " ".join(f"dim: {d}" for d in shape)
    document = text(f"{POOL % pool}\n{UP % (kind, up)}", f"input_param {{ shape {{ {dims} }} }}")
    same(document, seed, {"x": np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)})


def opened(name: str, count: int) -> tuple[graph.Graph, Net]:
    """The graph of a net that ships with weights, of so many samples, and the net with its weights."""
    folder = trained.FOLDER / name
    document = prototxt.read_net(folder / "deploy.prototxt")
    for layer in document.message.layer:
        for shape in layer.input_param.shape:
            shape.dim[0] = count
    plain, bound = (graph.build(document.message, pb.NetState(phase=pb.TEST), document.locate) for _ in range(2))
    net = Net.of(bound, devices.open_device(), keep=True)
    load_weights(net, [str(folder / f"{name}.caffemodel")])
    return plain, net


QUICK = ("lenet_mnist", "segnet_shapes", "ssd_shapes")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in (one.name for one in trained.trained())],
)
def test_nets_that_ship_with_weights(name, seed):
    """One file, for one sample and for three."""
    body = onnx.encode(*opened(name, 1))
    for count in (1, 3):
        checked = onnx.check(opened(name, count)[1], body, seed)
        assert max(checked.outputs.values()) < 1e-5


def test_examples_are_of_the_layers_that_read_them():
    assert {kind for kind, _ in EXAMPLES} >= {"Upsample", "Proposal", "ROIPooling"}
