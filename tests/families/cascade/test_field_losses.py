"""Losses and accuracies of maps of fields: gradients, random samples, groups, maps without objects, mistakes."""

import numpy as np
import pytest
from families.cascade.rows import NORMAL
from families.cascade.rows_fields import (
    CLASSES,
    DEVIATION,
    FIELD,
    GROUP,
    MEAN,
    ONE,
    candidates_of,
    labels,
    loss_of,
    objects_of,
    predictions,
)
from textnet import assert_slope, bind, body_of, feed, forward, layer, mistaken, over, run, wrong

from caffelite.errors import CaffeliteError

SHAPE = (2, 3, 4)  # maps, rows, columns
FIRST = layer("Slice", "y", body="loss_weight: 1 loss_weight: 0 slice_param { axis: 3 }", tops="loss rest", name="s")


def net_of(kind: str, body: str, maps: int = 2, tops: str = "y", more: str = FIRST, extra=""):
    """A net with the first number of the top as its loss."""
    shape = (maps, *SHAPE[1:])
    grouped = "Group" in kind
    blobs = {"x": (shape[0], CLASSES + 4 * (not grouped), *shape[1:])}
    blobs |= {"b": (shape[0], 4, *shape[1:])} if grouped else {}
    blobs |= {"t": (shape[0], 6, *shape[1:])}
    weight = "loss_weight: 0" if "Loss" in kind else ""
    fields = body_of(kind, f"{GROUP if grouped else ONE} {body}")
    text = over(kind, f"{fields} {weight} {extra}", tops, **blobs)
    fed = {name: shape for name, shape in blobs.items() if name != "t"}
    return bind("force_backward: true\n" + text + more, keep=True), fed


def drawn(rng, blobs, maps=2, classes=CLASSES, **options):
    fed = {n: predictions(CLASSES if n == "x" else 0)(rng, shape) for n, shape in blobs.items()}
    return fed | {"t": labels(classes, **options)(rng, (maps, 6, *SHAPE[1:]))}


MODES = [
    ("DetectionLoss", 'sample_mode: "random" lambda: 0.5 iou_weighted: true'),
    ("DetectionLoss", 'sample_mode: "mixture" pos_neg_weighted: true bb_smooth: false'),
    ("DetectionGroupLoss", 'neg_mining_type: "random" field_w: 30 field_h: 24 lambda: 2 batch_size: 9'),
    ("DetectionGroupLoss", 'neg_mining_type: "mixture" pos_neg_weighted: true bbox_loss_type: "Euclidean_L2"'),
]


@pytest.mark.parametrize(("kind", "body"), MODES)
def test_gradients(kind, body, rng):
    net, blobs = net_of(kind, body, extra=NORMAL)
    run(net, **drawn(rng, blobs))
    assert_slope(net, blobs, rng)


def chosen_cells(net, iteration=0):
    """The cells (map, row, column) whose scores have a gradient."""
    run(net, iteration)
    values = {v.name: v for v in net.graph.values.values()}
    gradient = net.diff[values["x"]][:, :CLASSES]
    return {tuple(cell) for cell in np.argwhere(np.abs(gradient).sum(1) > 0)}


def test_random_background(rng):
    net, blobs = net_of("DetectionLoss", "bg_multiple: 1")
    fed = drawn(rng, blobs, share=0.2)
    feed(net, **fed)
    first, again = chosen_cells(net), chosen_cells(net)
    objects, candidates = set(objects_of(fed["t"])), set(candidates_of(fed["t"], 0.5))
    assert first == again and objects <= first <= objects | candidates
    seen = set.union(*(chosen_cells(net, iteration) for iteration in range(1, 40)))
    assert seen == objects | candidates and any(chosen_cells(net, i) != first for i in range(1, 5))


@pytest.mark.parametrize("mining", ["random", "bootstrap", "mixture"])
def test_cells_of_a_group(mining, rng):
    """batch_size 8 with bg_multiple 3: at most 2 with an object of both fields, and 6 of the background."""
    net, blobs = net_of(
        "DetectionGroupLoss", f'field_w: 9 field_h: 9 batch_size: 8 bg_multiple: 3 neg_mining_type: "{mining}"'
    )
    fed = drawn(rng, blobs)
    feed(net, **fed)
    objects, candidates = set(objects_of(fed["t"])), set(candidates_of(fed["t"], 0.5))
    actual = [chosen_cells(net, iteration) for iteration in range(8)]
    for cells in actual:
        assert len(cells & objects) == min(2, len(objects)) and cells <= objects | candidates
        assert len(cells - objects) == min(6, len(candidates))
    assert len({frozenset(cells - objects) for cells in actual}) > 1 or mining == "bootstrap"


def test_fields_of_a_group(rng):
    body = 'field_w: 30 field_h: 24 neg_mining_type: "bootstrap" bg_multiple: 1000 field_xyr: 3 field_whr: 1.5'
    net, blobs = net_of("DetectionGroupLoss", body, 4, extra=NORMAL)
    fed = drawn(rng, blobs, 4)
    run(net, **fed)
    maps, fields = fed["t"], [FIELD, (30.0, 24.0)]
    chosen = objects_of(maps) + candidates_of(maps, 0.5)
    expected = loss_of(fed["x"], fed["b"], maps, fields, chosen, lambda cell: 1, 1, (MEAN, DEVIATION), (1.5, 3))
    np.testing.assert_allclose(net.blobs["y"], expected[0], rtol=1e-10)


@pytest.mark.parametrize("kind", ["DetectionLoss", "DetectionGroupLoss"])
@pytest.mark.parametrize("weighted", ["", "pos_neg_weighted: true"])
def test_maps_without_objects(kind, weighted, rng):
    net, blobs = net_of(kind, weighted)
    fed = drawn(rng, blobs)
    fed["t"][:, 0] = 0
    assert run(net, **fed) > 0 and net.blobs["y"][0, 0, 0, 1] == 0
    fed["t"][:, 5] = 1  # nor background
    assert run(net, **fed) == 0
    for name, values in ((v.name, net.diff[v]) for v in net.graph.values.values() if v in net.diff):
        if name in blobs:
            np.testing.assert_array_equal(values, 0)


@pytest.mark.parametrize("objectness", [False, True])
def test_labels_that_are_no_classes(objectness, rng):
    classes = 2 if objectness else CLASSES
    body = GROUP.replace(f"cls_num: {CLASSES}", f"cls_num: {classes}") + " objectness: true" * objectness
    body = f"detection_group_loss_param {{ {body} }} loss_param {{ ignore_label: 7 }}"
    net = bind(over("DetectionGroupLoss", body, x=(2, classes, 3, 4), b=(2, 4, 3, 4), t=(2, 6, 3, 4)))
    maps = labels()(rng, (2, 6, 3, 4))
    maps[0, 0, 1, 1] = 7
    run(net, x=rng.normal(size=(2, classes, 3, 4)), t=maps)
    net.check_faults()
    maps[1, 0, 2, 3] = -1
    run(net, t=maps)
    with pytest.raises(CaffeliteError, match='a label in bottom "t" is no class .map 1 of the batch, position 11.'):
        net.check_faults()


@pytest.mark.parametrize("kind", ["DetectionAccuracy", "DetectionGroupAccuracy"])
def test_accuracy_of_maps_without_objects(kind, rng):
    net, blobs = net_of(kind, "", tops="y z", more="")
    fed = drawn(rng, blobs)
    fed["t"][:, 0], fed["t"][:, 5] = 0, 0
    fed["x"][:, 0] = 9
    forward(net, **fed)
    assert net.blobs["y"].tolist() == [[[[1, -1]]]] and net.blobs["z"] == -1
    fed["x"][:] = np.nan
    forward(net, **fed)
    assert net.blobs["y"].tolist() == [[[[0, -1]]]]
    fed["t"][:, 5] = 1
    forward(net, **fed)
    assert net.blobs["y"].tolist() == [[[[-1, -1]]]]


def test_ties_of_scores(rng):
    """The last class in DetectionAccuracy, the first in DetectionGroupAccuracy."""
    for kind, label in (("DetectionAccuracy", CLASSES - 1), ("DetectionGroupAccuracy", 0)):
        net, blobs = net_of(kind, "", tops="y z", more="")
        fed = drawn(rng, blobs)
        fed["x"][:, :CLASSES] = 1
        for given in range(CLASSES):
            fed["t"][:, 0], fed["t"][:, 5] = given, 0
            forward(net, **fed)
            assert net.blobs["y"][0, 0, 0, 0] == (given == label)


X, B, T = (2, 7, 3, 4), (2, 4, 3, 4), (2, 6, 3, 4)


test_mistakes = mistaken(
    wrong("DetectionLoss", "cls_num: @1", "a bad cls_num; expected 2 or more, the background included, found 1", X, T),
    wrong("DetectionLoss", "objectness: true cls_num: @3", "a bad cls_num; expected 2 with objectness, found 3", X, T),
    wrong("DetectionLoss", f"{ONE} coord_num: @5", "a bad coord_num; expected 4, found 5", X, T),
    wrong("DetectionLoss", f"{ONE} field_xyr: @0", "a bad field_xyr; expected a finite number above 0, found 0", X, T),
    wrong("DetectionLoss", f"{ONE} lambda: @nan", "a bad lambda; expected a finite number", X, T),
    wrong("DetectionLoss", ONE, "does not fit; expected N×7×H×W, found shape [2, 4, 3, 4]", B, T, at=0),
    wrong("DetectionLoss", ONE, "does not fit; expected [2, 6, 3, 4], found [2, 4, 3, 4]", X, B, at=1),
    *(
        wrong("DetectionGroupLoss", fields, message, X, B, T)
        for fields, message in [
            (f"{GROUP} field_h: 3".replace("w: ", "w: @"), "bad fields; expected as many field_w as field_h"),
            (f'{GROUP} neg_mining_type: @"x"', 'an unknown neg_mining_type; expected "random" or "bootst'),
            (f"{GROUP} batch_size: @0", "a bad batch_size; expected 1 or more, or -1, found 0"),
        ]
    ),
)
