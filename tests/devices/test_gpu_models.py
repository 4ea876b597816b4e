"""cuDNN has plans for every convolution of the nets that ship, as a GPU would ask for them: built for an H100, with
none at hand."""

import functools
from pathlib import Path

import pytest
from devices import test_gpu_cudnn
from turns import in_turns

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices.cuda import cudnn
from caffelite.devices.traits import cuda_traits
from caffelite.inspection.feeds import Feeds
from caffelite.layers.convolution import Convolution
from caffelite.net import graph
from caffelite.net.compile import compile

MODELS = Path(__file__).parent.parent.parent / "models"
NETS = sorted(p.relative_to(MODELS).as_posix() for p in MODELS.glob("*/*.prototxt") if '"Convolution"' in p.read_text())
NUMBERS = {"tf32": "float32", "fp32": "float32", "fp16": "float16", "bf16": "uint16"}
SHAPES = {  # what a net's file does not tell of its data
    "fcn8s/train_val.prototxt": {"data": (3, 500, 500), "label": (1, 500, 500)},
    "siamese/train_val.prototxt": {"pair": (2, 28, 28), "alike": ()},
    "ctc_words/train_val.prototxt": {"data": (1, 24, 96), "label": (6,)},
    "flow_shapes/train_val.prototxt": {"first": (1, 48, 48), "second": (1, 48, 48), "flow": (2, 48, 48)},
    "segnet_shapes/train_val.prototxt": {"data": (3, 128, 128), "label": (1, 128, 128)},
}
# Nets of so little work, as their files have them (deploy nets take one image or a few), that TF32 leaves them in
# Caffe's layout.
LITTLE = {name for name in NETS if name.endswith("/deploy.prototxt")} - {"vgg16/deploy.prototxt"}
LITTLE |= {"lenet/train_val.prototxt", "lenet/digits_train_val.prototxt", "siamese/train_val.prototxt"}
LITTLE |= {"flow_shapes/train_val.prototxt"}
LITTLE |= {"faster_rcnn_shapes/train_val.prototxt"}  # its number of boxes varies, which keeps Caffe's layout too
needed = test_gpu_cudnn.needed


def problems(name: str, precision: str) -> set[cudnn.Problem]:
    """What a net's convolutions ask of cuDNN: forward with its epilogue, and the gradients that training takes."""
    document = prototxt.read_net(MODELS / name)
    phase = pb.TEST if "deploy" in name else pb.TRAIN
    wiring = graph.build(document.message, pb.NetState(phase=phase), document.locate, Feeds(SHAPES.get(name)))
    half = precision in ("fp16", "bf16")
    planned, actual = compile(wiring, cuda_traits(precision)), set()
    for step in planned.forward:
        layer = step.node.layer
        if type(layer) is not Convolution or len(layer.x_shape) != 4:
            continue
        assert layer.channels_last == (half or (precision == "tf32" and name not in LITTLE))
        shapes = layer.x_shape, layer.param_blobs[0].shape, layer.y_shape, layer.window
        make = functools.partial(cudnn.Problem, last=layer.channels_last, dtype=NUMBERS[precision])
        relu = (
            bool(step.fused) and step.fused[-1].layer.spec.type == "ReLU" and not step.fused[-1].layer.p.negative_slope
        )
        pitches = [
            slices[step.tops[0]].pitch if step.tops[0] in slices else 0
            for slices in (planned.data_slices, planned.diff_slices)
        ]
        actual.add(make("forward", *shapes, layer.p.bias_term, relu, pitch=pitches[0]))
        if step.node.backward:
            kinds = ["wgrad", "dgrad"] if step.node.gradient_to[0] else ["wgrad"]
            actual |= {make(kind, *shapes, pitch=pitches[1]) for kind in kinds}
    return actual


@functools.cache
def built(problem: cudnn.Problem, strict: bool) -> bool:
    """Whether one of cuDNN's plans can be built; each shape once, whichever nets have it."""
    try:
        actual = cudnn.Plan(problem, strict, properties=test_gpu_cudnn.H100)
    except (RuntimeError, cudnn.frontend().cudnnGraphNotSupportedError):
        return False
    return any(map(actual.build, actual.names))


def test_problems_of_a_net():
    lenet = problems("lenet/train_val.prototxt", "tf32")
    assert sorted(p.kind for p in lenet) == ["dgrad", "forward", "forward", "wgrad", "wgrad"]
    assert not any(p.last for p in lenet), "too small to be worth copies"
    assert all(
        p.last for p in problems("lenet/train_val.prototxt", "fp16") | problems("alexnet/train_val.prototxt", "tf32")
    )
    assert not any(p.rectified for p in lenet) and sum(p.biased for p in lenet) == 2
    assert {p.x for p in problems("lenet/train_val.prototxt", "fp16")} == {(64, 1, 28, 28), (64, 20, 12, 12)}
    assert any(p.rectified for p in problems("alexnet/train_val.prototxt", "bf16"))
    googlenet = problems("googlenet/train_val.prototxt", "fp16")
    assert {p.pitch for p in googlenet if p.kind == "forward"} == {0, 256, 480, 512, 528, 832, 1024}
    assert {p.pitch for p in googlenet if p.kind == "wgrad"} == {0, 480, 832, 1024}, (
        "where one layer reads the concatenation"
    )


# Each net in TF32, the default, and in one of the other precisions, in turns: plans take long to build.
CASES = [*((name, "tf32") for name in NETS), *in_turns(NETS, ("fp16", "bf16", "fp32"))]


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_every_convolution_has_a_plan(needed, name, precision):
    lacking = [p.words() for p in problems(name, precision) if not built(p, precision == "fp32")]
    assert not lacking
