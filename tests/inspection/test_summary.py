"""Counts that are published, the memory of a run, receptive fields."""

import subprocess
import sys
from pathlib import Path

import pytest
from engines import with_onednn, without_onednn
from textnet import build, inputs

from caffelite import caffelite_pb2 as pb
from caffelite.devices.traits import cpu_traits
from caffelite.inspection import counts, nets, summary
from caffelite.inspection.check import check
from caffelite.net.compile import compile
from caffelite.net.net import Net

MODELS = Path(__file__).parent.parent.parent / "models"
# Parameters and multiply-adds of the four as their papers and model zoos tell them
PUBLISHED = {
    "alexnet": (60_965_224, 724_406_816),
    "googlenet": (6_998_552, 1_582_671_872),
    "vgg16": (138_357_544, 15_470_264_320),
    "resnet50": (25_557_032, 3_857_973_248),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name):
    subject = nets.inspected_net(str(MODELS / name / "deploy.prototxt"), None, {})
    table = summary.table(*subject.graph(pb.TEST))
    assert (table.parameters, table.multiply_adds) == PUBLISHED[name]


def test_receptive_fields_of_alexnet():
    graph, _ = nets.inspected_net(str(MODELS / "alexnet/deploy.prototxt"), None, {}).graph(pb.TEST)
    fields = counts.receptive_fields(graph)
    actual = {node.name: counts.shown(fields[node.tops[0]]) for node in graph.nodes}
    assert [
        actual[n] for n in ("conv1", "pool1", "conv2", "pool2", "conv3", "conv4", "conv5", "pool5", "fc6")
    ] == "11 19 51 67 99 131 163 195 all".split()


@pytest.mark.parametrize(
    "layer, expected",
    [
        ('type: "Convolution" convolution_param { num_output: 2 kernel_size: 3 dilation: 2 }', "5"),
        ('type: "Convolution" convolution_param { num_output: 2 kernel_h: 3 kernel_w: 1 }', "3×1"),
        ('type: "Pooling" pooling_param { global_pooling: true }', "all"),
        ('type: "Deconvolution" convolution_param { num_output: 2 kernel_size: 4 stride: 2 }', "2"),
        ('type: "ReLU"', "1"),
        ('type: "InnerProduct" inner_product_param { num_output: 2 }', "all"),
    ],
)
def test_receptive_field(layer, expected):
    graph = build(inputs(x=(2, 3, 8, 8)) + f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}')
    assert counts.shown(counts.receptive_fields(graph)[graph.values["y"]]) == expected


@pytest.mark.parametrize(
    "layer, expected",
    [
        ('type: "Convolution" convolution_param { num_output: 4 kernel_size: 3 group: 2 }', 2 * 4 * 36 * 2 * 9),
        ('type: "Deconvolution" convolution_param { num_output: 6 kernel_size: 2 }', 2 * 4 * 64 * 6 * 4),
        ('type: "InnerProduct" inner_product_param { num_output: 5 }', 2 * 5 * 256),
        ('type: "ReLU"', 0),
    ],
)
def test_multiply_adds(layer, expected):
    graph = build(inputs(x=(2, 4, 8, 8)) + f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}')
    assert counts.multiply_adds(graph.nodes[-1]) == expected


def test_multiply_adds_of_an_lstm():
    """Three steps of four sequences: what enters, 5 × 4·2, and what is carried on, 2 × 4·2."""
    text = (
        inputs(x=(3, 4, 5), cont=(3, 4))
        + 'layer { name: "y" type: "LSTM" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 2 } }'
    )
    assert counts.multiply_adds(build(text).nodes[-1]) == 3 * 4 * (5 * 8 + 2 * 8)


def test_rows(folder):
    graph, guessed = nets.inspected_net("net.prototxt", None, {"": (2, 9, 9)}).graph(pb.TRAIN)
    table = summary.table(graph, guessed)
    rows = {row.name: row for row in table.rows}
    assert (table.phase, table.batch, table.guessed) == ("TRAIN", 4, [])
    assert rows["conv"].tops == [(4, 6, 5, 5)] and rows["conv"].parameters == 6 * 2 * 9 + 6
    assert rows["conv"].activations == 2432 and rows["relu"].activations == 0  # 600 numbers, to whole cache lines
    assert (rows["score"].lr_mult, rows["score"].decay_mult) == ([1, 2], [1, 0])


def test_statistics_are_no_parameters():
    graph = build(inputs(x=(2, 3, 4, 4)) + 'layer { name: "y" type: "BatchNorm" bottom: "x" top: "y" }')
    table = summary.table(graph, [])
    assert (table.parameters, table.statistics) == (0, 7)


def test_memory_follows_the_plan_and_the_solver(folder):
    shapes = {"": (2, 9, 9)}
    subject = nets.inspected_net(None, "solver.prototxt", shapes)
    memory = summary.memory(subject)
    graphs = [subject.graph(phase)[0] for phase in (pb.TRAIN, pb.TEST)]
    train, test = (compile(graph, cpu_traits()) for graph in graphs)
    weights = 4 * (6 * 18 + 6 + 24 * 3 + 3)
    assert (memory.weights, memory.gradients, memory.history) == (weights, weights, weights)
    assert memory.arena == train.arena + test.arena < memory.alone
    alone = summary.memory(nets.inspected_net("net.prototxt", None, shapes))
    assert alone.history == 0 and alone.arena == train.arena


def test_largest_batch(folder):
    subject = nets.inspected_net(None, "solver.prototxt", {"": (2, 9, 9)})
    limit = summary.KERNELS + (3 << 20)
    batch, memory = summary.largest_batch(subject, limit)
    assert memory.total <= limit < summary.memory(subject, batch + batch // 50 + 1).total
    assert summary.largest_batch(subject, 1000) is None
    for batch in (1, 2, 63, 64, 65):
        limit = summary.memory(subject, batch).total
        assert summary.largest_batch(subject, limit)[0] == batch


def test_largest_batch_of_updates_without_stored_gradients():
    """A batch of 33 needs 230 MB more than one of 32, for the gradients of AlexNet's inner products."""
    subject = nets.inspected_net(str(MODELS / "alexnet/train_val.prototxt"), None, {})
    subject.solver = pb.SolverParameter(momentum=0.9)
    sizes = [summary.memory(subject, batch) for batch in (31, 32, 33)]
    assert sizes[2].gradients - sizes[1].gradients > 200e6 > sizes[1].gradients - sizes[0].gradients > 0
    assert summary.largest_batch(subject, sizes[2].total - 1)[0] == 32
    assert summary.largest_batch(subject, sizes[2].total)[0] == 33
    assert summary.memory(subject, 32, processes=2).gradients == sizes[0].weights, "processes store all gradients"


@pytest.mark.parametrize("device", [with_onednn, without_onednn])
def test_the_arena_is_the_net_s_own(device, folder):
    subject, dev = nets.inspected_net("net.prototxt", None, {"": (2, 9, 9)}), device()
    for batch in (2, 50):
        assert (
            summary.memory(subject, batch, traits=dev.traits).arena
            == Net.of(subject.graph(pb.TRAIN, batch)[0], dev).compiled.arena
        )


MEASURE = """
import re, sys
from caffelite import caffelite_pb2 as pb, devices
from caffelite.inspection import nets, summary
from caffelite.net.net import Net
from caffelite.training.optim.updates import Updater, fused_passes

def status(key):
    return 1024 * int(re.search(key + ":[^0-9]*([0-9]+)", open("/proc/self/status").read())[1])

subject = nets.inspected_net(sys.argv[1], None, {})
feed = pb.LayerParameter(name="data", type="Input", top=["data", "label"])
batch = int(sys.argv[2])
for dims in ((batch, *map(int, sys.argv[3:])), (batch,)):
    feed.input_param.shape.add().dim.extend(dims)
kept = [layer for layer in subject.message.layer if layer.type != "Data"]
for layer in kept:
    if layer.type == "Convolution" and layer.convolution_param.num_output == 50:  # LeNet's second; a busy machine may
        layer.convolution_param.algorithm = pb.ConvolutionParameter.WINOGRAD_4    # choose one with fewer kernels
del subject.message.layer[:]
subject.message.layer.extend([feed, *kept])
subject.solver = pb.SolverParameter(momentum=0.9, weight_decay=5e-4)
dev = devices.open_device()
graph, _ = subject.graph(pb.TRAIN)
predicted = summary.memory(subject, threads=dev.threads, traits=dev.traits).total
before = status("VmRSS")
net = Net.of(graph, dev, fused_passes=fused_passes(subject.solver))
updater = Updater(subject.solver, net, subject.locate)
for i in range(2):
    net.forward(i)
    net.backward()
    updater.run(0.01, i)
print(predicted / (status("VmHWM") - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux how large the process is")
@pytest.mark.parametrize(
    "name, batch, shape",
    [("lenet", 1024, (1, 28, 28)), ("squeezenet", 4, (3, 227, 227)), ("alexnet", 2, (3, 227, 227))],
)
def test_memory_is_what_a_run_takes(name, batch, shape):
    """The peak of two training iterations on the CPU, less what the process took once all was imported and the device
    open; of batches for which the kernels' own code, which differs from processor to processor, is a small part."""
    for _ in range(2):  # the first compiles and measures kernels, which takes memory too, where that has not been done
        arguments = map(str, (MODELS / name / "train_val.prototxt", batch, *shape))
        done = subprocess.run([sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.1


def test_a_deploy_net_is_for_testing():
    message = nets.inspected_net(str(MODELS / "lenet/deploy.prototxt"), None, {}).message
    assert nets.phases(None, message) == [pb.TEST] and nets.phases("train", message) == [pb.TRAIN]


LABELED = """layer { name: "d" type: "HDF5Data" top: "data" top: "NAME"
  hdf5_data_param { source: "none.txt" batch_size: 2 } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "l" type: "SoftmaxWithLoss" bottom: "c" bottom: "NAME" top: "l" }
layer { name: "e" type: "Accuracy" bottom: "c" bottom: "NAME" top: "e" }
"""


@pytest.mark.parametrize("shapes", [{}, {"data": (3, 8, 12)}])
@pytest.mark.parametrize("name", ["label", "classes"])
def test_missing_labels_get_the_shape_that_readers_need(name, shapes, tmp_path):
    """Here one for each pixel of scores that are smaller than the images."""
    (tmp_path / "net.prototxt").write_text(LABELED.replace("NAME", name))
    subject = nets.inspected_net(str(tmp_path / "net.prototxt"), None, shapes)
    graph, notes = subject.graph(pb.TRAIN)
    actual = {top.name: top.shape for node in graph.nodes for top in node.tops}
    assert actual[name] == (2, 1, *actual["c"][2:])
    whole, _, mistakes = subject.buildable(pb.TRAIN)
    assert len(whole.nodes) == 4 and not mistakes
    assert [f for f in check(str(tmp_path / "net.prototxt"), shapes) if f.kind != "note"] == []
    assert shapes or f'"{name}" as 1×112×112' in notes[-1]
