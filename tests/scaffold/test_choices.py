"""The choices of caffelite new: task, test set, batch, schedule and net, as functions of the data."""

import math

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import tables
from caffelite.data.listing import Listed
from caffelite.data.tables import CLASSES, LABELS, NUMBERS
from caffelite.errors import CaffeliteError, Locator, Where
from caffelite.scaffold import finetune, network, presets, reading, schedule
from caffelite.scaffold.reading import Subset, held_out

HERE = Where("t.csv", 2)


def rows(*texts):
    return [(HERE, text.split(",")) for text in texts]


@pytest.mark.parametrize(
    "texts, task",
    [
        (["a.png,cat", "b.png,dog"], CLASSES),
        (["a.png,cat;dog", "b.png,dog"], LABELS),
        (["a.png,cat,dog", "b.png,dog"], LABELS),
        (["a.png,1,0", "b.png,0,1"], LABELS),
        (["a.png,1,0", "b.png,0,2"], NUMBERS),
        (["a.png,0.5", "b.png,1"], NUMBERS),
        (["a.png,0", "b.png,1", "c.png,1", "d.png,0"], CLASSES),
        (["a.png,0", "b.png,1", "c.png,7", "d.png,0"], NUMBERS),
        (["a.png,31", "b.png,45", "c.png,7"], NUMBERS),
        (["a.png,-1", "b.png,0", "c.png,-1", "d.png,0"], NUMBERS),
    ],
)
def test_task_follows_from_the_cells(texts, task):
    assert tables.decide(rows(*texts))[0] == task


@pytest.mark.parametrize(
    "text, said", [("a.png,1\nb.png\n", "no answer"), ("", "empty"), ("file,x\na.png,1\nb.png,y\n", "no number")]
)
def test_bad_tables_name_the_line(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CaffeliteError, match=said) as mistake:
        reading.read_table(tmp_path / "t.csv", NUMBERS)
    assert str(mistake.value).startswith(str(tmp_path / "t.csv"))


def test_unknown_class_in_the_test_table_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("a.png,cow\n")
    with pytest.raises(CaffeliteError, match='expected one of cat, dog, found "cow"'):
        reading.read_table(tmp_path / "t.csv", CLASSES, ["cat", "dog"])


def test_held_out_part_stays_when_images_are_added():
    listed = [Listed(f"{i}.png", i % 3, HERE) for i in range(90)]
    first = {listed[row].name for row in held_out(Subset(listed), CLASSES, 0.2, 1)}
    more = [*listed, *(Listed(f"new{i}.png", 0, HERE) for i in range(3))]
    second = {more[row].name for row in held_out(Subset(more), CLASSES, 0.2, 1)}
    assert len(first) == 18 and len(first & second) >= 17
    assert first != {listed[row].name for row in held_out(Subset(listed), CLASSES, 0.2, 2)}


def test_test_batches_cover_held_out_images():
    for count in (*range(1, 400), 997, 1009, 9973):
        size = schedule.exact_test_size(count)
        batch = schedule.exact_batch(size)
        assert 0 <= count - size < 100 and size % batch == 0 and batch <= 100, count
        assert batch >= min(size, count, 50) or size == count, count


@pytest.mark.parametrize("name", presets.PRESETS)
@pytest.mark.parametrize("count", [40, 1000, 100_000])
def test_schedule_falls_within_the_run(name, count):
    preset = presets.PRESETS[name]
    for finetuned, share in ((False, 0.4), (True, 0.3)):
        actual = schedule.schedule(preset, count, preset.batch, CLASSES, finetuned)
        assert 0 < actual.steps[0] < actual.steps[1] < actual.epochs and actual.rate > 0
        assert actual.iterations == actual.epochs * actual.epoch and actual.test_every <= actual.epochs
        assert actual.patience == math.ceil(share * actual.epochs / actual.test_every)
        assert actual.iterations / 10 - 1 <= actual.warm_up < actual.steps[0] * actual.epoch


@pytest.mark.parametrize(
    "count, batch, task, epochs",
    [
        (2400, 50, CLASSES, 50),  # as many images as the net trains well with
        (288, 28, CLASSES, 60),  # few images: further epochs cost time and gain nothing
        (288, 28, NUMBERS, 300),
        (24, 8, CLASSES, 167),  # 500 updates at least
        (4, 4, CLASSES, 300),
        (100_000, 50, CLASSES, 30),
    ],
)
def test_epochs_of_a_run_from_nothing(count, batch, task, epochs):
    assert schedule.schedule(presets.PRESETS["cifar10_full"], count, batch, task, finetuned=False).epochs == epochs


def test_default_net_depends_on_size_color_and_count():
    assert presets.choose(28, False, 1000).preset.net == "lenet"
    assert presets.choose(32, True, 1000).preset.net == "cifar10_full"
    assert presets.choose(300, True, 1000).side == presets.MEDIUM_SIDE
    assert (presets.choose(300, True, 50_000).preset.net, presets.choose(300, True, 50_000).side) == ("resnet18", 224)
    assert presets.choose(120, True, 50_000).side == 112


def test_columns_of_other_units_get_scales_of_their_own():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((200, 2)) * [5, 7] + [10, 12]
    scale, shift = network.units(values, ["a", "b"])
    assert scale[0] == scale[1] and shift[0] == shift[1]
    scale, shift = network.units(values * [1, 100], ["a", "b"])
    assert scale[1] > 50 * scale[0] and shift[1] > 50 * shift[0]
    with pytest.raises(CaffeliteError, match='column "b" has one value throughout'):
        network.units(values * [1, 0], ["a", "b"])


def test_few_images_freeze_the_lower_half():
    layers = ["conv1", "conv2", "conv3", "ip1"]
    assert finetune.frozen(layers, layers, 30)[0] == ["conv1", "conv2"]
    assert finetune.frozen(layers, layers, 1000)[0] == []


def test_a_net_without_a_classifier_is_refused():
    net = pb.NetParameter(layer=[pb.LayerParameter(name="loss", type="EuclideanLoss", bottom=["a", "b"], top=["loss"])])
    with pytest.raises(CaffeliteError, match="no classifier"):
        network.adapt(net, "it", network.Head(CLASSES, ["a", "b"]), Locator("net.prototxt"))


@pytest.mark.parametrize(
    "names, types", [(None, ["BatchNorm", "Scale"] * 2), ({"b"}, ["LRN", "BatchNorm", "Scale"]), ({}, ["LRN"] * 2)]
)
def test_lrn_becomes_batch_norm(names, types):
    layers = [pb.LayerParameter(name=name, type="LRN", bottom=["x"], top=[name]) for name in ("a", "b")]
    made = network.Network(layers, "ip", [])
    network.normalize(made, names)
    assert [layer.type for layer in made.layers] == types
    assert [layer.name for layer in made.layers if layer.type == "Scale"] == [
        f"{name}_scale" for name in "ab" if names is None or name in names
    ]


@pytest.mark.parametrize("count, tops", [(2, ["accuracy", "class_accuracy"]), (101, ["accuracy"])])
def test_tests_score_each_class_where_there_are_not_too_many(count, tops):
    head = network.Head(CLASSES, [str(i) for i in range(count)])
    layers = [
        pb.LayerParameter(name="ip", type="InnerProduct", bottom=["data"], top=["ip"]),
        pb.LayerParameter(name="loss", type="SoftmaxWithLoss", bottom=["ip", "label"], top=["loss"]),
    ]
    net = network.adapt(pb.NetParameter(layer=layers), "digits", head, Locator("net.prototxt"))
    assert [list(layer.top) for layer in net.layers if layer.name == "accuracy"] == [tops]
