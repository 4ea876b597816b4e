"""What of an iteration leaves the GPU: the layers that the host computes, and waits for the GPU, by the stand-in."""

import bench_inputs
import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from devices.test_gpu_models import MODELS, SHAPES
from textnet import bind, feed, inputs, wired

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.inspection.feeds import Feeds
from caffelite.net import graph
from caffelite.net.net import Net

GIVEN = SHAPES | {
    "logistic_regression/train_val.prototxt": {"data": (4,), "label": ()},
    "lstm/train_val.prototxt": {"code": (8,), "cont": (8,), "target": (8,)},
}
HOSTED = {  # types in training; other nets have none
    "faster_rcnn_shapes": ["AnchorTarget", "Proposal", "ProposalTarget"],
}
NETS = sorted(path.parent.name for path in MODELS.glob("*/train_val.prototxt"))


@pytest.mark.parametrize("name", NETS)
def test_layers_of_shipped_nets_that_the_host_computes(name):
    file = f"{name}/train_val.prototxt"
    document = prototxt.read_net(MODELS / file)
    built = graph.build(document.message, pb.NetState(phase=pb.TRAIN), document.locate, Feeds(GIVEN.get(file)))
    assert [node.layer.spec.type for node in built.nodes if node.layer.requires_host] == HOSTED.get(name, [])


class Waiting(HostBackend):
    """Counts how often the host waits for the GPU, or reads its memory."""

    waits = 0

    def download(self, array):
        self.waits += 1
        return super().download(array)

    def synchronize(self):
        self.waits += 1
        super().synchronize()


def waits_of_an_iteration(net) -> int:
    """Of forward and backward, once graphs are captured."""
    for i in range(4):
        before = net.dev.backend.waits
        net.clear_loss()
        net.forward(i)
        net.backward()
    return net.dev.backend.waits - before


@pytest.mark.host
@pytest.mark.parametrize("name", ["lenet", "cifar10_quick"])
def test_an_iteration_of_a_shipped_net_does_not_wait(name):
    path = str(MODELS / name / "train_val.prototxt")
    shape = bench_inputs.guess_shape(path)
    message, tops = bench_inputs.read(path, 2, shape)
    dev = plans.device("fp32", backend=Waiting())
    net = Net.of(graph.build(message, pb.NetState(phase=pb.TRAIN)), dev, seed=1)
    rng = np.random.default_rng(1)
    for top in tops:
        dev.upload(net.blobs[top], rng.integers(0, 2, net.blobs[top].shape))
    assert waits_of_an_iteration(net) == 0


TAILS = {  # of nets of the families, on small blobs
    "ctc_words": (
        wired("CtcLoss", "x label", "loss"),
        {"x": (6, 2, 4), "label": (2, 3)},
    ),
    "flow_shapes": (
        wired("Correlation", "x other", "costs", "kernel_size: 1 max_displacement: 1 pad: 1 correlation_type: SUBTRACT")
        + wired("L1Loss", "costs flow", "loss", "l1_loss_param { l2_per_location: true }"),
        {"x": (2, 3, 5, 4), "other": (2, 3, 5, 4), "flow": (2, 9, 5, 4)},
    ),
}


@pytest.mark.host
@pytest.mark.parametrize("name", TAILS)
def test_what_is_special_in_a_net_of_a_family_does_not_wait(name):
    text, shapes = TAILS[name]
    net = bind("force_backward: true\n" + inputs(**shapes) + text, dev=plans.device("fp32", backend=Waiting()))
    rng = np.random.default_rng(1)
    feed(net, **{blob: rng.integers(0, 3, shape) for blob, shape in shapes.items()})
    assert not net.requires_host and waits_of_an_iteration(net) == 0


@pytest.mark.host
def test_waits_for_a_layer_on_the_host_are_counted():
    text = inputs(x=(3, 4), s=(3,)) + wired("Filter", "x s", "y") + wired("Reduction", "y", "z", "loss_weight: 1")
    net = bind(text, dev=plans.device("fp32", backend=Waiting()))
    feed(net, x=np.ones((3, 4)), s=np.ones(3))
    assert net.requires_host == ["y"] and waits_of_an_iteration(net) > 0
